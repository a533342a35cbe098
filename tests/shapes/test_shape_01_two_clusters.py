"""Shape 1: the cluster is part of every key; one queue spans two clusters, and one can be lost without
touching the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table, select

from steelyard.model.ids import parse
from steelyard.model.units import SECOND
from steelyard.services.inventory import summary_page
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House

SIM = DOCUMENTS.split("---")[0]
LOST = SIM.rstrip() + "\n    suffer: [{fault: cluster-lost}]\n"
CARDS = {"gpu": 2, "cpu": "1", "memory": "1Gi"}
CORES = {"cpu": "6", "memory": "1Gi"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house with two clusters below one queue."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("table", [t.node, t.device, t.member, t.allocation, t.attempt, t.observation])
def test_the_cluster_stands_in_every_row_of_what_is_somewhere(table: Table) -> None:
    assert "cluster" in table.c


def test_names_are_unique_within_a_cluster_only() -> None:
    unique = {
        table.name: [column.name for column in index.columns]
        for table in (t.node, t.device)
        for index in table.indexes
        if index.unique
    }
    assert unique == {"node": ["cluster", "name"], "device": ["cluster", "uid"]}


def _clusters(house: House, workload: str) -> set[str]:
    attempt, member = t.attempt.c, t.member.c
    join = t.member.join(t.attempt, attempt.id == member.attempt_id)
    query = select(member.cluster).select_from(join).where(attempt.workload_id == parse("workload", workload))
    with house.store.read() as view:
        return set(view.execute(query).scalars())


def _classes(house: House, cluster: str) -> dict[str, dict[str, int]]:
    rows = summary_page(house.store, ADMIN)["classes"]
    return {row["class"]: row for row in rows if row["cluster"] == cluster}


@pytest.mark.requirement("A3")
def test_one_queue_places_on_both_clusters(house: House) -> None:
    cards = house.submit("cards", requests=CARDS, expect={"run": "60s"})
    cores = house.submit("cores", requests=CORES, expect={"run": "60s"})
    house.run_until(lambda: house.phase(cards) == house.phase(cores) == "running")
    assert house.show(cards)["queue"] == house.show(cores)["queue"] == "main"
    assert (_clusters(house, cards), _clusters(house, cores)) == ({"sim"}, {"other"})
    for workload in (cards, cores):
        house.cancel(workload)
    house.run_dry()


def test_a_cluster_that_is_lost_mid_run_touches_nothing_of_the_other(house: House) -> None:
    cards = house.submit("cards", requests=CARDS, expect={"run": "3s"})
    cores = house.submit("cores", requests=CORES, expect={"run": "3s"})
    house.run_until(lambda: house.phase(cards) == house.phase(cores) == "running")
    before = _classes(house, "other")

    house.apply(LOST)
    house.tick(5, step=SECOND // 5)
    states = {row["name"]: row for row in summary_page(house.store, ADMIN)["clusters"]}
    assert (states["sim"]["reachable"], states["other"]["reachable"]) == (False, True)
    assert _classes(house, "other") == before
    lost = _classes(house, "sim")["gpu"]
    assert lost["unknown"] == lost["capacity"] - lost["held"]

    house.run_until(lambda: house.phase(cores) == "finished", step=SECOND // 5)
    assert house.show(cores)["outcome"] == "succeeded"
    assert house.show(cores)["attempts"][-1]["receipt"]["state"] == "confirmed"
    later = house.submit("later", requests=CORES, expect={"run": "200ms"})
    waits = house.submit("waits", requests=CARDS, expect={"run": "200ms"})
    house.run_until(lambda: house.phase(later) == "finished", step=SECOND // 5)
    assert house.phase(waits) == "queued", "nothing is placed on what can't be seen"
    assert house.phase(cards) == "running", "absent never means ended"

    house.apply(SIM)
    house.run_dry()
    for workload in (cards, later, waits):
        page = house.show(workload)
        assert (page["outcome"], page["attempt"]) == ("succeeded", 1)
