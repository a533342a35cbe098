"""Shape 5: one row an allocation: member, device or slot, dimension, integer quantity; t1 is set once."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import BigInteger, select

from steelyard.evidence.leaf import ActorRef
from steelyard.model.errors import ConflictError
from steelyard.model.resources import DIMENSION, DeviceClass
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit

CONTROL = ActorRef("control", "control")


def allocation(store: Store, **changed: Any) -> dict[str, Any]:
    row = {
        "id": store.ids.next(),
        "member_id": 1,
        "attempt_id": 2,
        "cluster": "sim",
        "node_id": 3,
        "device_id": 4,
        "flavor": "card",
        "device_class": "gpu",
        "dimension": "device",
        "quantity": 250,
        "share_kind": "time-sliced",
        "t0": 10,
        "t1": None,
        "org_version": 1,
        "policy_version": 1,
        "queue": "main",
        "quota_basis": "nominal",
        "lender": None,
    }
    return {**row, **changed}


def insert(store: Store, row: dict[str, Any]) -> None:
    unit = Unit(CONTROL)
    unit.insert(t.allocation, **row)
    store.writer.write(unit)


def close(store: Store, number: int, at: int) -> None:
    unit = Unit(CONTROL)
    unit.update(t.allocation, {"id": number}, null=("t1",), t1=at)
    store.writer.write(unit)


def test_a_row_says_all_that_usage_will_need() -> None:
    needed = {
        "member_id",
        "cluster",
        "node_id",
        "device_id",
        "flavor",
        "dimension",
        "quantity",
        "share_kind",
        "t0",
        "t1",
        "org_version",
        "policy_version",
        "queue",
        "lender",
    }
    assert needed <= set(t.allocation.c.keys())


def test_quantity_and_times_are_integers_and_no_column_holds_a_list() -> None:
    for name in ("quantity", "t0", "t1", "device_id", "node_id"):
        assert isinstance(t.allocation.c[name].type, BigInteger)
    assert not [
        name for name in (column.key for column in t.allocation.c) if name.endswith(("_json", "_ids"))
    ]


def test_every_class_is_allocated_in_one_dimension() -> None:
    assert set(DIMENSION) == set(DeviceClass)


def test_an_end_is_set_once(store: Store) -> None:
    row = allocation(store)
    insert(store, row)
    close(store, row["id"], 20)
    with pytest.raises(ConflictError):
        close(store, row["id"], 30)
    with store.read() as view:
        assert view.execute(select(t.allocation.c.t1)).scalar_one() == 20


def test_where_the_engine_does_not_say_which_device_the_slot_of_a_flavor_stands(store: Store) -> None:
    insert(store, allocation(store, device_id=None))
    with store.read() as view:
        found = view.execute(select(t.allocation)).one()
    assert (found.device_id, found.node_id, found.flavor) == (None, 3, "card")
