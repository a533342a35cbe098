"""Holding rows, wait slices and their roll-up: they tile, they are cut where something changed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from steelyard.evidence.canonical import encode
from steelyard.evidence.usage import AttemptFacts, EndFacts, holding_rows, usage_rows, wait_rows
from steelyard.model.ids import render
from steelyard.model.organisation import OrgEdge
from steelyard.model.orghistory import OrgHistory
from steelyard.model.resources import DeviceClass, ShareKind


@dataclass
class Allocation:
    id: int = 7
    device_id: int | None = 1
    cluster: str = "west"
    flavor: str = "a100"
    device_class: DeviceClass = DeviceClass.GPU
    quantity: int = 1000
    share_kind: ShareKind = ShareKind.EXCLUSIVE
    t0: int = 10
    t1: int | None = None
    org_version: int = 1
    policy_version: int = 3
    quota_basis: str = "in-quota"
    lender: str | None = None


FACTS = AttemptFacts(100, 101, "training", "main", 5, "us_1", "ns", "alpha", True)
ORG = OrgHistory(
    [
        OrgEdge("project", "alpha", "red", 1, 30, 1, 1),
        OrgEdge("project", "alpha", "blue", 30, None, 2, 3),
        OrgEdge("namespace", "ns", "alpha", 1, None, 1, 2, "production", "cc-9"),
    ]
)
TIMES: dict[str, int | None] = {"placed": 10, "started": 20, "ended": 50, "release_confirmed": 55}


def test_tiles_cover_the_holding_and_are_cut_where_the_project_moved() -> None:
    rows = holding_rows(FACTS, [Allocation()], TIMES, 99, ORG, EndFacts("succeeded", release="confirmed"))
    assert [(r["state"], r["t0"], r["t1"], r["team"]) for r in rows] == [
        ("starting", 10, 20, "red"),
        ("running", 20, 30, "red"),
        ("running", 30, 50, "blue"),
        ("releasing", 50, 55, "blue"),
    ]
    assert {r["attribution"] for r in rows} == {"attributed"}
    assert {r["environment"] for r in rows} == {"production"}
    assert {r["end_reason"] for r in rows} == {"succeeded"}


def test_after_the_last_change_the_short_way_gives_the_same() -> None:
    late = {"placed": 40, "started": 45, "ended": 50, "release_confirmed": 55}
    rows = holding_rows(FACTS, [Allocation(t0=40)], late, 99, ORG)
    assert [(r["state"], r["t0"], r["team"]) for r in rows] == [
        ("starting", 40, "blue"),
        ("running", 45, "blue"),
        ("releasing", 50, "blue"),
    ]


def test_without_a_place_the_time_is_unattributed_and_keeps_its_project() -> None:
    facts = FACTS._replace(namespace="gone")
    rows = holding_rows(facts, [Allocation()], TIMES, 99, ORG)
    assert {(r["attribution"], r["project"], r["team"]) for r in rows} == {("unattributed", "alpha", None)}
    assert sum(r["t1"] - r["t0"] for r in rows) == 45


def test_an_open_attempt_is_cut_at_until() -> None:
    rows = holding_rows(FACTS, [Allocation()], {"placed": 10, "started": 20}, 25, ORG)
    assert [(r["t0"], r["t1"], r["end_reason"]) for r in rows] == [(10, 20, "open"), (20, 25, "open")]


def test_an_allocation_that_ended_earlier_ends_earlier() -> None:
    rows = holding_rows(FACTS, [Allocation(t1=40)], TIMES, 99, ORG)
    assert rows[-1]["t1"] == 40


def test_record_ids_are_the_digest_of_what_is_recorded() -> None:
    row = holding_rows(FACTS, [Allocation()], TIMES, 99, ORG)[0]
    recorded = ["ledger", "west", render("allocation", 7), "starting", 10]
    assert row["record_id"] == sha256(encode(recorded)).digest()[:16]
    again = holding_rows(FACTS, [Allocation()], TIMES, 99, ORG)
    assert again[0]["record_id"] == row["record_id"]


def test_every_row_has_the_columns_of_its_table() -> None:
    rows = holding_rows(FACTS, [Allocation()], TIMES, 99, ORG)
    rows += holding_rows(FACTS._replace(namespace="gone"), [Allocation()], TIMES, 99, ORG)
    assert len({frozenset(row) for row in rows}) == 1


def test_a_wait_that_nobody_looked_at_is_evaluation() -> None:
    assert wait_rows(1, 10, 20) == [{"attempt_id": 1, "t0": 10, "t1": 20, "reason": "evaluation"}]
    assert wait_rows(1, 10, 10) == []


def test_own_holds_go_before_the_reasons_of_the_shape() -> None:
    reasons = [(12, 18, "waiting-for-quota"), (18, None, "over-limit"), (0, 5, "fragmented")]
    rows = wait_rows(1, 10, 40, reasons, [(15, 16), (30, None)])
    assert [(r["t0"], r["t1"], r["reason"]) for r in rows] == [
        (10, 12, "evaluation"),
        (12, 15, "quota"),
        (15, 16, "held-by-user"),
        (16, 30, "quota"),
        (30, 40, "held-by-user"),
    ]


_SPAN = st.tuples(st.integers(0, 60), st.none() | st.integers(0, 60))


@given(
    st.integers(0, 30),
    st.integers(0, 60),
    st.lists(st.tuples(_SPAN, st.sampled_from(["waiting-for-quota", "priority", "no-such"]))),
    st.lists(_SPAN),
)
def test_wait_slices_tile_whatever_the_reasons(
    start: int, end: int, spans: list[tuple[tuple[int, int | None], str]], held: list[tuple[int, int | None]]
) -> None:
    rows = wait_rows(1, start, end, [(t0, t1, code) for (t0, t1), code in spans], held)
    at = start
    for row in rows:
        assert row["t0"] == at < row["t1"]
        at = row["t1"]
    assert at == max(start, end)
    assert all(a["reason"] != b["reason"] for a, b in pairwise(rows))


def test_roll_up_cuts_at_the_window_and_sums_exactly() -> None:
    rows = holding_rows(FACTS, [Allocation(), Allocation(id=8, quantity=2**40)], TIMES, 99, ORG)
    whole = usage_rows(rows, (0, 99), ["team", "device_class"])
    assert [(r["team"], r["held"]) for r in whole] == [
        ("blue", 25 * (1000 + 2**40)),
        ("red", 20 * (1000 + 2**40)),
    ]
    parts = [usage_rows(rows, window, ["project"])[0]["held"] for window in ((0, 33), (33, 99))]
    assert sum(parts) == sum(r["held"] for r in whole)
    assert whole[0]["by_state"]["releasing"] == 5 * (1000 + 2**40)


def test_simulated_time_is_never_summed_with_real_time() -> None:
    rows = holding_rows(FACTS, [Allocation()], TIMES, 99, ORG)
    rows += holding_rows(FACTS._replace(simulated=False), [Allocation(id=9)], TIMES, 99, ORG)
    assert [r["simulated"] for r in usage_rows(rows, (0, 99), ["project"])] == [False, True]
