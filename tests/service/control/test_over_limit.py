"""A refusal over a limit names the workloads that hold it, as far as whoever asked may see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import RefusedError
from steelyard.model.organisation import Principal, RoleName, Scope
from steelyard.services import workloads
from steelyard.services.refusals import list_refusals
from steelyard.store.database import sqlite_url
from tests.support.house import DOCUMENTS, House
from tests.support.worlds import person

MORE = """
---
kind: Project
metadata: {name: segment}
spec: {team: vision}
---
kind: Namespace
metadata: {name: segment-dev}
spec: {project: segment, environment: dev, costCentre: c3}
---
kind: Quota
metadata: {name: vision}
spec: {team: vision, limits: [{class: gpu, hard: "2", onExceed: refuse}]}
"""
OF_DETECT = person("deb", RoleName.MEMBER, "detect", 71)
OF_SEGMENT = person("sam", RoleName.MEMBER, "segment", 72)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS + MORE)
    made.submit("holder", requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "1h"})
    made.tick(6)
    yield made
    made.close()


def told(house: House, principal: Principal, namespace: str, dry_run: bool = False) -> list[tuple[Any, ...]]:
    """(kind, name, amount) of each holder that a refusal over the team's limit names."""
    role = {"name": "main", "command": ["x"], "requests": {"gpu": 1}}
    document = {
        "kind": "Workload",
        "metadata": {"name": "late", "namespace": namespace},
        "spec": {"kind": "batch", "roles": [role]},
    }
    if dry_run:
        (reason,) = workloads.submit(house.desk, principal, document, dry_run=True)["reasons"]
        return [(holder["kind"], holder["name"], holder["amount"]) for holder in reason["holders"]]
    with pytest.raises(RefusedError) as caught:
        workloads.submit(house.desk, principal, document)
    (found,) = caught.value.reasons
    assert (found.code, found.owner, found.used) == ("over-limit", "team/vision", 2000)
    return [(holder.kind, holder.name, holder.amount) for holder in found.holders]


@pytest.mark.requirement("E13")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_refusal_over_a_limit_names_the_workload_that_holds_it(house: House, dry_run: bool) -> None:
    assert told(house, OF_DETECT, "detect-dev", dry_run) == [("workload", "holder", 1000)]


@pytest.mark.requirement("J12")
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_holder_out_of_sight_has_an_amount_and_no_name(house: House, dry_run: bool) -> None:
    assert told(house, OF_SEGMENT, "segment-dev", dry_run) == [("workload", None, 1000)]


def test_the_record_of_the_refusal_names_the_holder_to_those_who_may_see_it(house: House) -> None:
    told(house, OF_SEGMENT, "segment-dev")
    with house.store.read() as view:
        (record,) = list_refusals(view, Scope.system())[0]
    (reason,) = record["reasons"]
    assert [holder["name"] for holder in reason["holders"]] == ["holder"]
