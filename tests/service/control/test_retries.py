"""Attempts after attempts: by the cause, elsewhere where possible, each with its own record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.model.ids import parse
from steelyard.services.audit import leaves
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House

TIMING = "release: 10ms}\n"
ONE = {"gpu": 1, "cpu": "1", "memory": "1Gi"}
SUFFER = (
    "fault: start-failure, match: {name: unlucky}, count: 1",
    "fault: start-failure, match: {name: doomed}",
    "fault: image-failure, match: {name: picture}",
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house whose cluster fails some."""
    rules = "".join(f"    - {{{rule}}}\n" for rule in SUFFER)
    text = DOCUMENTS.replace(TIMING, f"{TIMING}    suffer:\n{rules}", 1)
    made = House(sqlite_url(tmp_path), tmp_path, text)
    yield made
    made.close()


def ends(house: House, workload: str) -> list[tuple[int, str, str | None]]:
    """(number, outcome, verdict's code) of each attempt."""
    return [
        (one["number"], one["outcome"], one["verdict"]["code"] if one["verdict"] else None)
        for one in house.show(workload)["attempts"]
    ]


def nodes(view: dict[str, Any]) -> list[str]:
    """Where the attempts were."""
    return [attempt["members"][0]["node"] for attempt in view["attempts"]]


def test_what_the_infrastructure_failed_is_tried_again_on_another_node(house: House) -> None:
    workload = house.submit("unlucky", requests=ONE)
    house.run_dry()
    first, second = nodes(house.show(workload))
    assert first != second
    assert ends(house, workload) == [(1, "failed", "start-failed"), (2, "succeeded", None)]


def test_the_avoided_node_is_known_after_a_restart_and_the_cycle_replays(house: House) -> None:
    workload = house.submit("unlucky", requests=ONE)
    house.run_until(lambda: len(house.show(workload)["attempts"]) == 2)
    house.restart()
    house.run_dry()
    assert len(set(nodes(house.show(workload)))) == 2


@pytest.mark.requirement("D15", "F3")
def test_each_attempt_keeps_its_record_and_there_are_no_more_than_allowed(house: House) -> None:
    workloads = {
        house.submit("doomed", requests=ONE, maxAttempts=3): ["start-failed"] * 3,
        house.submit("doomed", requests=ONE, maxAttempts=1): ["start-failed"],
        house.submit("doomed", requests=ONE, restart="never"): ["start-failed"],
        house.submit("picture", requests=ONE, restart="on-failure"): ["image-not-found"],
        house.submit("own", requests=ONE, restart="on-failure", maxAttempts=2,
                     expect={"run": "1s", "exit": "3"}): ["exit-code"] * 2,
        house.submit("own", requests=ONE, expect={"run": "1s", "exit": "3"}): ["exit-code"],
        house.submit("slow", requests=ONE, restart="on-failure", timeLimit="1s",
                     expect={"run": "forever"}): ["time-limit"],
    }  # fmt: skip
    house.run_dry()
    for workload, codes in workloads.items():
        view = house.show(workload)
        assert [one["verdict"]["code"] for one in view["attempts"]] == codes
        assert [one["number"] for one in view["attempts"]] == list(range(1, len(codes) + 1))
        assert len({one["id"] for one in view["attempts"]}) == len(codes)
        assert all(one["receipt"]["state"] == "confirmed" for one in view["attempts"])


@pytest.mark.requirement("F12")
def test_the_leaf_of_an_end_holds_the_verdict_with_its_pointers(house: House) -> None:
    workload = house.submit("own", requests=ONE, expect={"run": "1s", "exit": "3"})
    house.run_dry()
    stream = leaves(house.store, ADMIN, f"object/workload/{workload}")["items"]
    (verdict,) = [leaf["detail"]["verdict"] for leaf in stream if leaf["action"] == "workload.finish"]
    shown = house.show(workload)["verdict"]
    assert (verdict["code"], verdict["rule"], verdict["catalogue"]) == (
        "exit-code", "application.exit-code", shown["catalogue"],
    )  # fmt: skip
    member = house.show(workload)["attempts"][0]["members"][0]["id"]
    assert verdict["evidence"] == [
        {"kind": "counter", "field": "exit_code", "member": member, "value": 3}
    ]
    assert parse("member", member)


@pytest.mark.requirement("F8")
def test_one_attempt_id_leads_from_the_page_to_the_log_and_to_usage(house: House) -> None:
    workload = house.submit("own", requests=ONE, expect={"run": "1s", "exit": "3"})
    stopped = house.submit("stopped", requests=ONE, expect={"run": "forever"})
    house.run_until(lambda: house.phase(stopped) == "running")
    house.cancel(stopped)
    house.run_dry()
    for name, failed in ((workload, ("application", "exit-code")), (stopped, (None, None))):
        attempt = house.show(name)["attempts"][0]["id"]
        stream = leaves(house.store, ADMIN, f"object/workload/{name}")["items"]
        ends = [leaf["detail"]["attempt_id"] for leaf in stream if leaf["action"] == "workload.finish"]
        assert ends == [attempt]
        h = t.holding_segment.c
        query = select(h.failure_stage, h.failure_code).where(h.attempt_id == parse("attempt", attempt))
        with house.store.read() as view:
            assert set(map(tuple, view.execute(query.distinct()))) == {failed}
