"""CK1 to CK9: whatever happens the books add up, and each single corruption is found by the right check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.evidence.conservation import (
    check_attribution,
    check_capacity,
    check_organisation,
    check_shares,
    check_sums,
)
from steelyard.evidence.findings import MAX_FINDINGS, CheckResult
from steelyard.evidence.timelines import (
    Counts,
    Epoch,
    Sight,
    check_counts,
    check_ends,
    check_quota,
    check_tiling,
)
from tests.unit.evidence_usage.world import OPERATIONS, ORG, Row, World

Operations = list[tuple[str, int, int, int]]


def results(books: dict[str, list[Row]], now: int) -> dict[str, CheckResult]:
    window = (0, now)
    checks = (
        check_sums(window, books["capacity"], books["unheld"], books["holding"]),
        check_capacity(window, books["devices"], books["capacity"]),
        check_shares(window, books["allocations"], books["capacity"]),
        check_attribution(window, books["holding"], books["allocations"]),
        check_organisation(window, books["holding"], ORG),
        check_tiling(books["attempts"], books["waits"], books["holding"], now),
        check_ends(books["allocations"], books["attempts"], books["holding"], Sight(now, 60, {"west": now})),
    )
    return {check.id: check for check in checks}


def failing(books: dict[str, list[Row]], now: int) -> set[str]:
    return {name for name, check in results(books, now).items() if not check.ok}


def grown(operations: Operations) -> tuple[dict[str, list[Row]], int]:
    world = World()
    world.run(operations)
    return world.books(), world.now


@given(OPERATIONS)
def test_whatever_happens_everything_adds_up(operations: Operations) -> None:
    books, now = grown(operations)
    found = {name: check.findings for name, check in results(books, now).items() if not check.ok}
    assert found == {}


@given(OPERATIONS, st.integers(0, 200))
def test_any_window_adds_up(operations: Operations, border: int) -> None:
    books, now = grown(operations)
    middle = min(10 + border, now)
    for window in ((0, middle), (middle, now)):
        assert check_sums(window, books["capacity"], books["unheld"], books["holding"]).ok
        assert check_capacity(window, books["devices"], books["capacity"]).ok
        assert check_attribution(window, books["holding"], books["allocations"]).ok
        assert check_organisation(window, books["holding"], ORG).ok


CORRUPTIONS = {
    # (table, what is done) → the checks that must see it
    ("holding", "drop"): {"CK1", "CK4", "CK6", "CK8"},
    ("holding", "shift"): {"CK1", "CK4"},
    ("holding", "double"): {"CK1", "CK4", "CK8"},
    ("unheld", "drop"): {"CK1"},
    ("unheld", "shift"): {"CK1"},
    ("unheld", "double"): {"CK1"},
    ("capacity", "drop"): {"CK1", "CK2"},
    ("capacity", "shift"): {"CK1", "CK2"},
    ("capacity", "double"): {"CK1", "CK2"},
    ("allocations", "drop"): {"CK4", "CK8"},
    ("waits", "drop"): {"CK6"},
    ("waits", "shift"): {"CK6"},
    ("waits", "double"): {"CK6"},
}


@pytest.mark.parametrize(("table", "act"), sorted(CORRUPTIONS))
@given(operations=OPERATIONS, which=st.integers(0, 1000))
def test_a_single_corruption_is_found(table: str, act: str, operations: Operations, which: int) -> None:
    books, now = grown(operations)
    rows = [dict(row) for row in books[table]]
    real = [row for row in rows if (now if row["t1"] is None else row["t1"]) > row["t0"]]
    assume(real)
    row = real[which % len(real)]
    if act == "drop":
        rows.remove(row)
    elif act == "double":
        rows.append(dict(row))
    else:
        row["t1"] -= 1
    assert failing({**books, table: rows}, now) >= CORRUPTIONS[table, act]


@given(OPERATIONS, st.integers(0, 1000))
def test_a_device_that_is_given_out_twice_is_found(operations: Operations, which: int) -> None:
    books, now = grown(operations)
    real = [row for row in books["allocations"] if (now if row["t1"] is None else row["t1"]) > row["t0"]]
    assume(real)
    extra = {**real[which % len(real)], "id": 10_000, "quantity": 1001}
    failed = failing({**books, "allocations": [*books["allocations"], extra]}, now)
    assert failed >= {"CK3", "CK4", "CK8"}


def test_a_finding_names_device_and_instants_and_how_much() -> None:
    capacity = [{"device_id": 4, "t0": 0, "t1": 10, "capacity": 1000}]
    unheld = [{"device_id": 4, "t0": 0, "t1": 6, "quantity": 1000}]
    check = check_sums((0, 10), capacity, unheld, [])
    assert check.findings == [
        {"code": "sum-differs", "kind": "device", "id": 4, "t0": 6, "t1": 10, "missing": "1000"}
    ]


def test_findings_are_counted_beyond_those_that_are_listed() -> None:
    capacity = [{"device_id": n, "t0": 0, "t1": 1, "capacity": 1} for n in range(MAX_FINDINGS + 5)]
    check = check_sums((0, 1), capacity, [], [])
    assert (check.found, len(check.findings), check.ok) == (MAX_FINDINGS + 5, MAX_FINDINGS, False)


def _share(kind: str, t0: int, t1: int, device_class: str = "gpu") -> Row:
    return {
        "device_id": 1, "quantity": 10, "t0": t0, "t1": t1, "share_kind": kind, "device_class": device_class
    }  # fmt: skip


def test_an_exclusive_holder_is_alone_unless_the_device_is_shared_by_design() -> None:
    capacity = [{"device_id": 1, "t0": 0, "t1": 99, "capacity": 1000}]
    both = [_share("exclusive", 0, 10), _share("time-sliced", 9, 20)]
    found = check_shares((0, 99), both, capacity).findings
    assert [(f["code"], f["t0"], f["t1"]) for f in found] == [("exclusive-shared", 9, 10)]
    apart = [_share("exclusive", 0, 10), _share("exclusive", 10, 20)]
    assert check_shares((0, 99), apart, capacity).ok
    cpu = [_share("exclusive", 0, 10, "cpu"), _share("exclusive", 5, 20, "cpu")]
    assert check_shares((0, 99), cpu, capacity).ok


def test_a_place_that_the_organisation_did_not_give_is_found() -> None:
    row = {
        "allocation_id": 1, "t0": 10, "t1": 60, "quantity": 5, "device_class": "gpu", "namespace": "ns",
        "project": "alpha", "team": "red", "attribution": "attributed",
    }  # fmt: skip
    found = check_organisation((0, 99), [row], ORG).findings
    assert ("place-differs", 40, 60) in [(f["code"], f["t0"], f["t1"]) for f in found]
    assert "level-differs" in {f["code"] for f in found}


def test_a_stage_before_its_predecessor_is_found() -> None:
    attempt = {"id": 1, "phase": "finished", "submitted": 10, "placed": 9, "release_confirmed": 12}
    found = check_tiling([attempt], [], [], 20).findings
    assert "stage-backwards" in {f["code"] for f in found}


def test_counts_must_add_up_by_phase_and_by_outcome() -> None:
    phases = {"held": 1, "queued": 2, "running": 3, "finished": 4}
    assert check_counts(Counts(12, 2, phases, {"succeeded": 3, "failed": 1})).ok
    assert not check_counts(Counts(13, 2, phases, {"succeeded": 3, "failed": 1})).ok
    assert not check_counts(Counts(12, 2, phases, {"succeeded": 3})).ok
    assert not check_counts(Counts(12, 2, {**phases, "lost-phase": 0}, {"succeeded": 4})).ok


def _open(t1: int | None = None) -> Row:
    return {"id": 1, "attempt_id": 1, "cluster": "west", "t0": 10, "t1": t1}


def _ends(phase: str, sight: Sight, t1: int | None = None, seen_to: int = 100) -> set[str]:
    holding = [{"allocation_id": 1, "t0": 10, "t1": seen_to}]
    attempts = [{"id": 1, "phase": phase}]
    return {f["code"] for f in check_ends([_open(t1)], attempts, holding, sight).findings}


def test_an_open_holding_needs_a_live_observation_or_an_admitted_blindness() -> None:
    assert _ends("running", Sight(100, 60, {"west": 50})) == set()
    assert _ends("running", Sight(100, 60, {"west": 30})) == {"not-observed"}
    assert _ends("running", Sight(100, 60, {})) == {"not-observed"}
    assert _ends("running", Sight(100, 60, {"west": 30}, frozenset({"west"}))) == set()


def test_what_ended_holds_nothing_and_what_runs_holds_something() -> None:
    sight = Sight(100, 60, {"west": 100})
    assert _ends("finished", sight) == {"runaway"}
    assert _ends("running", sight, t1=100) == {"missed-start"}


class Plain:
    """One queue below a cohort: ceiling 100 for the queue, everything flows up."""

    def __init__(self, ceiling: int = 100, lent: int = 0) -> None:
        self.most, self.lent = ceiling, lent

    def ceiling(self, node: str, subject: str) -> int | None:
        return self.most if node == "queue" else None

    def charge(
        self, usage: Mapping[tuple[str, str], int], node: str, subject: str, quantity: int
    ) -> Iterable[tuple[str, str, int]]:
        return [(node, subject, quantity), ("cohort", subject, quantity)]

    def exchange(
        self, usage: Mapping[tuple[str, str], int], subject: str, cohorts: Iterable[str]
    ) -> Iterable[tuple[str, int, int]]:
        return [("cohort", 0, self.lent)]


def _charge(quantity: int, t0: int, t1: int | None) -> Row:
    return {
        "tree": "queue", "node": "queue", "subject": "gpu", "quantity": quantity, "t0": t0, "t1": t1,
        "version": 1,
    }  # fmt: skip


def codes(check: CheckResult) -> list[tuple[Any, ...]]:
    return [(f["code"], f["id"], f["t0"], f["t1"]) for f in check.findings]


def test_usage_above_the_ceiling_is_found_at_its_instants() -> None:
    charges = [_charge(60, 0, 10), _charge(60, 5, 20), _charge(40, 10, None)]
    check = check_quota(charges, [Epoch("queue", 0, 99, Plain())])
    assert codes(check) == [("over-limit", "queue", 5, 10)]


def test_given_back_and_taken_at_one_instant_is_not_over() -> None:
    charges = [_charge(100, 0, 10), _charge(100, 10, None)]
    assert check_quota(charges, [Epoch("queue", 0, 99, Plain())]).ok


def test_what_a_cut_limit_left_running_is_over_admitted_until_more_is_charged() -> None:
    epochs = [Epoch("queue", 0, 50, Plain()), Epoch("queue", 50, 99, Plain(40))]
    assert check_quota([_charge(80, 0, 90), _charge(10, 10, 60)], epochs).ok
    check = check_quota([_charge(80, 0, 90), _charge(10, 60, 70)], epochs)
    assert codes(check) == [("over-limit", "queue", 60, 70)]


def test_a_placement_decided_before_the_new_limit_was_known_is_over_admitted() -> None:
    epochs = [Epoch("queue", 0, 50, Plain(), 1), Epoch("queue", 50, 99, Plain(40), 2)]
    late = [_charge(30, 0, 90), _charge(20, 51, 90)]
    assert check_quota(late, epochs).ok
    informed = [*late, {**_charge(1, 55, 60), "version": 2}]
    assert codes(check_quota(informed, epochs)) == [("over-limit", "queue", 55, 60)]


def test_what_is_kept_for_a_preemptor_is_in_the_counters() -> None:
    epochs = [Epoch("queue", 0, 99, Plain())]
    kept = [{"tree": "queue", "node": "queue", "subject": "gpu", "quantity": 3}]
    recorded = {("queue", "queue", "gpu"): 10, ("queue", "cohort", "gpu"): 10}
    assert check_quota([_charge(7, 0, None)], epochs, recorded, kept).ok
    assert not check_quota([_charge(7, 0, None)], epochs, recorded).ok


def test_borrowed_must_equal_lent() -> None:
    check = check_quota([_charge(1, 0, None)], [Epoch("queue", 0, 99, Plain(lent=1))])
    assert codes(check) == [("lent-differs", "cohort", 0, 99)]


def test_counters_must_tell_what_the_charges_tell() -> None:
    charges, epochs = [_charge(7, 0, None)], [Epoch("queue", 0, 99, Plain())]
    good = {("queue", "queue", "gpu"): 7, ("queue", "cohort", "gpu"): 7}
    assert check_quota(charges, epochs, good).ok
    bad = check_quota(charges, epochs, {**good, ("queue", "queue", "gpu"): 8})
    assert codes(bad) == [("counter-differs", "queue", None, None)]
