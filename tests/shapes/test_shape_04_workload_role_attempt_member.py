"""Shape 4: Workload → Role[] → Attempt → Member; each carries a phase, members share their attempt."""

from __future__ import annotations

import pytest
from sqlalchemy import UniqueConstraint, select

from steelyard.model.errors import ConflictError
from steelyard.model.ids import parse
from steelyard.model.workloads import MemberRequest, WorkloadKind
from steelyard.services.workloads import cancel, retry, submit
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.support.worlds import ANN, build, workload

ROLES = [
    {"name": "chief", "command": ["a"], "requests": {"cpu": 1}},
    {"name": "worker", "count": 3, "command": ["b"], "requests": {"cpu": 1, "gpu": 1}},
]


@pytest.mark.requirement("D9")
def test_the_kinds_are_five() -> None:
    assert [kind.value for kind in WorkloadKind] == [
        "training",
        "inference",
        "batch",
        "experiment",
        "evaluation",
    ]


def test_workload_attempt_and_member_each_carry_a_phase() -> None:
    for table in (t.workload, t.attempt, t.member):
        assert not table.c.phase.nullable


def test_an_attempt_belongs_to_a_workload_and_a_member_to_an_attempt() -> None:
    assert [index.unique for index in t.attempt.indexes if index.name == "attempt_workload"] == [True]
    assert {"attempt_id", "role", "idx", "phase"} <= set(t.member.c.keys())
    assert "revision" in t.attempt.c
    assert not any(isinstance(rule, UniqueConstraint) for rule in t.member.constraints)


def test_a_single_process_is_one_role_of_count_one(store: Store) -> None:
    submit(build(store), ANN, workload())
    with store.read() as view:
        (role,) = view.execute(select(t.role)).all()
    assert (role.name, role.ordinal, role.count, role.next_index) == ("main", 0, 1, 0)


def test_roles_keep_their_order_count_and_request(store: Store) -> None:
    submit(build(store), ANN, workload("job", roles=ROLES))
    with store.read() as view:
        roles = view.execute(select(t.role).order_by(t.role.c.ordinal)).all()
        assert [(role.name, role.count) for role in roles] == [("chief", 1), ("worker", 3)]
        assert view.execute(select(t.member)).all() == []  # an index gets a row when it starts
    assert '"gpu",1000' in roles[1].request_json.replace(" ", "")
    assert MemberRequest(()).amounts == ()


def test_a_retry_is_the_next_attempt_of_the_same_workload(store: Store) -> None:
    desk = build(store)
    number = parse("workload", submit(desk, ANN, workload())["id"])
    cancel(desk, ANN, number)
    retry(desk, ANN, number)
    with store.read() as view:
        rows = view.execute(select(t.attempt).order_by(t.attempt.c.number)).all()
    assert [(row.workload_id, row.number, row.phase) for row in rows] == [
        (number, 1, "finished"),
        (number, 2, "queued"),
    ]


def test_no_attempt_number_is_given_twice(store: Store) -> None:
    desk = build(store)
    planned = desk.plan(ANN, workload())
    store.writer.write(planned.unit)
    with store.read() as view:
        row = dict(view.execute(select(t.attempt)).one()._mapping)
    unit = Unit(planned.unit.actor)
    unit.insert(t.attempt, **{**row, "id": store.ids.next()})
    with pytest.raises(ConflictError):
        store.writer.write(unit)
