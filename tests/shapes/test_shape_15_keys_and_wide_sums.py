"""Shape 15: keys are 63-bit integers whose text is their rendering; sums of quantity × time are exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, insert, text
from sqlalchemy.exc import DBAPIError

from steelyard.model.ids import PREFIXES, parse, render
from steelyard.model.units import DAY, join_wide, split_wide, sum_wide, wide_from_json, wide_to_json
from steelyard.store import tables as t
from steelyard.store.database import writing
from steelyard.store.store import Store
from steelyard.store.usage import held_sums, unheld_sums
from steelyard.store.wide import quantity_time
from tests.support.stores import T0

YEAR = 365 * DAY
TWO_TIB = 2 * 1024 * 1024  # MiB
KEYED = ("workload", "attempt", "member", "allocation", "device", "node", "refusal", "cycle", "shape")


def unheld(device_id: int, quantity: int, start: int, end: int, **changes: Any) -> dict[str, Any]:
    row = {
        "device_id": device_id, "t0": start, "t1": end, "state": "idle.schedulable", "reason": "",
        "quantity": quantity, "cluster": "c", "device_class": "gpu", "simulated": True,
    }  # fmt: skip
    return {**row, **changes}


def fill(store: Store, rows: list[dict[str, Any]]) -> None:
    with writing(store.engine) as connection:
        connection.execute(insert(t.unheld_segment), rows)


def test_ten_thousand_devices_for_a_year_sum_exactly(store: Store) -> None:
    fill(store, [unheld(n, 1000 - n % 7, T0, T0 + YEAR + n) for n in range(10_000)])
    with store.read() as view:
        found = unheld_sums(view, (T0, T0 + 2 * YEAR))
    exact = sum((1000 - n % 7) * (YEAR + n) for n in range(10_000))
    assert found == {("gpu", True, "idle.schedulable"): exact}
    assert exact > 2**63


def memory(nodes: int, quantity: int, duration: int) -> list[dict[str, Any]]:
    return [unheld(n, quantity, T0, T0 + duration, device_class="memory") for n in range(nodes)]


def test_nodes_of_two_tebibytes_sum_exactly(store: Store) -> None:
    fill(store, memory(400, TWO_TIB, YEAR))
    with store.read() as view:
        found = unheld_sums(view, (T0, T0 + YEAR))
    assert found == {("memory", True, "idle.schedulable"): 400 * TWO_TIB * YEAR}


def test_four_nodes_of_one_tebibyte_for_a_month_already_break_the_databases_own_sum(store: Store) -> None:
    fill(store, memory(4, TWO_TIB // 2, 30 * DAY))
    if store.engine.dialect.name == "sqlite":
        query = text("SELECT SUM(quantity * (t1 - t0)) FROM unheld_segment")
        with store.read() as view, pytest.raises(DBAPIError, match="integer overflow"):
            view.execute(query).scalar()
    with store.read() as view:
        (found,) = unheld_sums(view, (T0, T0 + YEAR)).values()
    assert found == 4 * (TWO_TIB // 2) * 30 * DAY


def test_rows_are_cut_at_the_borders_of_the_window(store: Store) -> None:
    fill(
        store,
        [unheld(1, 10, T0, T0 + 100), unheld(1, 10, T0 + 100, T0 + 150), unheld(2, 3, T0 + 90, T0 + 99)],
    )
    with store.read() as view:
        whole = unheld_sums(view, (T0, T0 + 150))
        parts = [unheld_sums(view, window) for window in ((T0, T0 + 95), (T0 + 95, T0 + 150))]
    key = ("gpu", True, "idle.schedulable")
    assert whole[key] == 1500 + 27
    assert sum(part[key] for part in parts) == whole[key]


def test_sums_by_device_and_within_a_scope_come_from_the_same_helper(store: Store) -> None:
    fill(store, [unheld(1, 2**40, T0, T0 + 2**33 + 5), unheld(2, 1, T0, T0 + 1)])
    u = t.unheld_segment.c
    with store.read() as view:
        found = quantity_time(view, t.unheld_segment, u.quantity, (T0, T0 + 2**40), (u.device_id,))
        assert held_sums.__module__ == unheld_sums.__module__
    assert found == {(1,): 2**40 * (2**33 + 5), (2,): 1}


@given(st.lists(st.integers(-(2**100), 2**100)))
def test_a_pair_of_integers_carries_any_sum(values: list[int]) -> None:
    pairs = [split_wide(value) for value in values]
    assert all(0 <= low < 2**32 for _, low in pairs)
    assert sum_wide(pairs) == sum(values)
    assert join_wide(sum(high for high, _ in pairs), sum(low for _, low in pairs)) == sum(values)


@given(st.integers(-(2**120), 2**120))
def test_in_json_a_wide_number_is_decimal_text(value: int) -> None:
    assert wide_from_json(wide_to_json(value)) == value


@given(st.sampled_from(sorted(PREFIXES)), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_the_text_of_a_key_is_its_rendering_and_sorts_as_it_does(kind: str, one: int, other: int) -> None:
    assert parse(kind, render(kind, one)) == one
    assert (render(kind, one) < render(kind, other)) == (one < other)


@pytest.mark.parametrize("name", KEYED)
def test_keys_are_stored_as_integers(name: str) -> None:
    assert isinstance(t.metadata.tables[name].c.id.type, BigInteger)


def test_the_largest_key_is_stored_and_found(store: Store) -> None:
    largest = 2**63 - 1
    with writing(store.engine) as connection:
        connection.execute(insert(t.shape).values(id=largest, key="k", body_json="{}"))
    with store.read() as view:
        assert view.execute(t.shape.select()).one().id == largest
