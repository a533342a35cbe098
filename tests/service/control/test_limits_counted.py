"""Limits on users and on measures, over a whole life: charged, kept, explained, counted again, replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.model.errors import RefusedError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.policy import ORG_TREE, USER_TREE, NodeOrder
from steelyard.model.units import SECOND
from steelyard.services.checks import check_everything
from steelyard.services.past import as_of
from steelyard.services.queues import quota_page
from steelyard.services.users import create_user
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.declared import usage_counters
from tests.service.control.test_replay import house, replay_all
from tests.support.house import ADMIN, House

USERS = """
kind: Binding
metadata: {name: admin}
spec: {user: admin, role: administrator}
---
kind: Quota
metadata: {name: each}
spec: {user: "*", project: detect, limits: [{class: gpu, hard: 2}]}
---
kind: Quota
metadata: {name: admin-everywhere}
spec: {user: admin, limits: [{class: gpu, hard: 3}]}
"""
SCHEDULING = """
kind: SchedulingPolicy
metadata: {name: default}
spec: {order: ORDER, nodes: NODES, fairness: {halfLife: 1h}, defaults: {strategy: StrictFIFO}}
"""
MEASURES = """
kind: ConversionTable
metadata: {name: default}
spec: {models: {A100: WORTH}, memory: {A100: 80Gi}}
---
kind: Quota
metadata: {name: detect}
spec:
  project: detect
  limits:
    - {class: gpu, measure: normalised, hard: 4}
    - {class: gpu, measure: fraction, hard: 1}
    - {class: gpu, measure: memory, hard: 640Gi}
"""


def with_account(house: House) -> None:
    """There is an account of the one who submits."""
    create_user(house.store, ADMIN, "admin")


def used(house: House, tree: str) -> dict[tuple[str, str], int]:
    with house.store.read() as view:
        found = usage_counters(view)
    return {
        (node, subject): value for (name, node, subject), value in found.items() if name == tree and value
    }


def sound(house: House) -> None:
    """The books are in order, and what the loop knows is what a new one would read."""
    house.clock.advance(10 * SECOND)
    house.tick(3)
    assert [(r.id, r.findings) for r in check_everything(house.store) if not r.ok] == []
    with house.store.read() as view:
        fresh, _ = house.desk.snapshots.full(view, 0)
    assert house.loop.desk is not None
    for name, usage in house.loop.desk.context.state.usage.items():
        assert {k: v for k, v in usage.items() if v} == {k: v for k, v in fresh.usage[name].items() if v}


def waits_for(house: House, workload: str) -> set[tuple[str, str | None, str | None]]:
    reasons: list[dict[str, Any]] = house.show(workload)["reasons"]
    return {(reason["code"], reason["owner"], reason["resource"]) for reason in reasons}


@pytest.mark.requirement("J1", "J6")
def test_each_user_is_held_to_a_limit_in_a_project_and_to_one_in_all(tmp_path: Path) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        with_account(lived)
        lived.apply(USERS)
        mine = [lived.submit(f"d{n}", expect={"run": "60s"}) for n in range(3)]
        more = [lived.submit(f"t{n}", namespace="translate-dev", expect={"run": "60s"}) for n in range(2)]
        lived.tick(20)
        assert [lived.phase(one) for one in (*mine, *more)] == [
            "running", "running", "queued", "running", "queued"
        ]  # fmt: skip
        counted = used(lived, USER_TREE)
        assert [counted[f"user/admin{at}", "gpu"] for at in ("@detect", "@*", "")] == [2000, 1000, 3000]
        assert ("waiting-for-quota", "user/admin@detect", "gpu") in waits_for(lived, mine[2])
        assert ("waiting-for-quota", "user/admin", "gpu") in waits_for(lived, more[1])
        sound(lived)
        assert replay_all(lived)["placements"]


@pytest.mark.requirement("J12")
def test_users_with_limits_are_shown_with_what_they_use_to_those_who_may_see_it(tmp_path: Path) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        with_account(lived)
        lived.apply(USERS)
        for n in range(3):
            lived.submit(f"d{n}", expect={"run": "60s"})
        lived.tick(20)

        def shown(*bindings: Binding, name: str = "eve") -> dict[str, tuple[int, int | None, int, int]]:
            who = Principal("us_1", "user", name, bindings)
            pages = [node for node in quota_page(lived.store, who) if node["kind"] == "user"]
            return {
                node["name"]: (limit["used"], limit["hard"], node["running"], node["pending"])
                for node in pages
                for limit in node["limits"]
                if limit["subject"] == "gpu"
            }

        everywhere = shown(Binding("root", RoleName.ADMINISTRATOR, None, 1))
        assert everywhere == {
            "admin": (2000, 3000, 0, 0), "admin@*": (0, None, 0, 0), "admin@detect": (2000, 2000, 2, 1),
        }  # fmt: skip
        assert shown(Binding("eve", RoleName.MEMBER, "detect", 1)).keys() == {"admin@detect"}
        assert shown(Binding("eve", RoleName.MEMBER, "translate", 1)) == {}
        own = shown(Binding("admin", RoleName.MEMBER, "translate", 1), name="admin")
        assert own.keys() == everywhere.keys()


def test_user_limits_may_come_and_go_while_work_runs(tmp_path: Path) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        with_account(lived)
        first = [lived.submit(f"d{n}", expect={"run": "600s"}) for n in range(4)]
        lived.tick(20)
        assert used(lived, USER_TREE) == {}
        lived.apply(USERS)
        later = lived.submit("later", expect={"run": "600s"})
        lived.tick(20)
        assert used(lived, USER_TREE)["user/admin@detect", "gpu"] == 4000
        assert [lived.phase(one) for one in first] == ["running"] * 4
        assert lived.phase(later) == "queued"
        sound(lived)
        lived.restart()
        lived.tick(5)
        sound(lived)
        lived.apply(USERS.replace("hard: 2", "hard: 8").replace("hard: 3", "hard: 8"))
        lived.tick(20)
        assert lived.phase(later) == "running"
        sound(lived)
        replay_all(lived)


@pytest.mark.requirement("J6")
def test_measures_are_counted_again_when_the_table_changes(tmp_path: Path) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        lived.apply(MEASURES.replace("WORTH", '"0.5"'))
        whole = [lived.submit(f"d{n}", expect={"run": "600s"}) for n in range(3)]
        part = lived.submit(
            "part", expect={"run": "600s"}, requests={"gpu": "0.5", "cpu": 1, "memory": "1Gi"}
        )
        lived.tick(20)
        assert [lived.phase(one) for one in (*whole, part)] == ["running"] * 4
        counted = used(lived, ORG_TREE)
        assert counted["project/detect", "gpu/normalised"] == 3 * 500_000 + 250_000
        assert counted["project/detect", "gpu/fraction"] == 500
        assert counted["project/detect", "gpu/memory"] == 3_500 * 80 * 1024
        sound(lived)
        lived.apply(MEASURES.replace("WORTH", "2"))
        late = lived.submit("late", expect={"run": "600s"})
        lived.tick(20)
        assert used(lived, ORG_TREE)["project/detect", "gpu/normalised"] == 3_500 * 2000
        assert lived.phase(late) == "queued"
        assert ("waiting-for-quota", "project/detect", "gpu/normalised") in waits_for(lived, late)
        sound(lived)
        for one in (*whole, part):
            lived.cancel(one)
        lived.tick(30)
        assert lived.phase(late) == "running"
        sound(lived)
        replay_all(lived)


@pytest.mark.requirement("J2", "J3", "J4")
def test_a_users_limit_may_refuse_and_says_whose_it_is_and_by_how_much(tmp_path: Path) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        with_account(lived)
        lived.apply(USERS.replace("hard: 2}", "hard: 2, onExceed: refuse}"))
        runs = lived.submit("runs", expect={"run": "60s"}, count=2)
        lived.run_until(lambda: lived.phase(runs) == "running")
        with pytest.raises(RefusedError) as refused:
            lived.submit("more")
        (reason,) = refused.value.reasons
        assert (reason.code, reason.scope, reason.owner) == ("over-limit", "user", "user/admin@detect")
        assert (reason.limit, reason.used, reason.requested, reason.short_by) == (2000, 2000, 1000, 1000)
        assert sum(holder.amount for holder in reason.holders) == 1000


@pytest.mark.requirement("A1", "E8")
def test_cycles_before_and_after_a_change_of_the_policy_replay_by_the_policy_of_their_time(
    tmp_path: Path,
) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        for order, nodes in (("Priority", "FirstFit"), ("FairShare", "BestFit"), ("Priority", "NodeValue")):
            lived.apply(SCHEDULING.replace("ORDER", order).replace("NODES", nodes))
            for number in range(5):
                spec = {"gpu": "500m" if number % 2 else 2, "cpu": 1, "memory": "1Gi"}
                lived.submit(f"{nodes.lower()}-{number}", requests=spec, expect={"run": "300ms"})
                lived.tick(3, step=50_000)
        lived.run_dry()
        with lived.store.read() as view:
            cycles = list(view.execute(select(t.cycle.c.id).order_by(t.cycle.c.id)).scalars())
            policies = [as_of(view, number)[1] for number in (cycles[0], cycles[-1])]
        assert [policy.nodes for policy in policies] == [NodeOrder.FIRST_FIT, NodeOrder.NODE_VALUE]
        assert replay_all(lived)["placements"]
