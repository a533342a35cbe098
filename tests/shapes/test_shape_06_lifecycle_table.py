"""Shape 6: one lifecycle table, total and exclusive; everything else follows from it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.errors import ConflictError
from steelyard.model.lifecycle import (
    CHARGED_PHASES,
    HOLDING_PHASES,
    LIVE_PHASES,
    RULES,
    STAGE_TIMES,
    CapacityEffect,
    Outcome,
    Phase,
    QuotaEffect,
    check_transition,
    holding_tiles,
)
from steelyard.services.workload_changes import RETRIED, WITHDRAWN_FROM


def test_every_phase_has_one_rule_with_an_owner_and_its_effects() -> None:
    assert set(RULES) == set(Phase)
    for phase, rule in RULES.items():
        assert rule.phase is phase
        assert rule.owner
        assert isinstance(rule.quota, QuotaEffect)
        assert isinstance(rule.capacity, CapacityEffect)
        assert (rule.timer is None) or rule.on_timer


@pytest.mark.requirement("D12")
def test_every_step_outside_the_table_is_refused() -> None:
    for before in Phase:
        for after in Phase:
            if after in RULES[before].next:
                check_transition(before, after)
            else:
                with pytest.raises(ConflictError):
                    check_transition(before, after)


def test_every_phase_is_reached_and_every_live_one_is_left() -> None:
    reached = {following for rule in RULES.values() for following in rule.next}
    assert reached | {Phase.HELD} == set(Phase)
    assert all(RULES[phase].next for phase in LIVE_PHASES)
    assert not RULES[Phase.FINISHED].next


def test_what_is_metered_is_charged_and_holds_capacity() -> None:
    for phase, rule in RULES.items():
        held = rule.capacity in (CapacityEffect.HELD, CapacityEffect.NOT_OFFERED, CapacityEffect.AS_DECLARED)
        assert (rule.metering is not None) == held
        assert (phase in HOLDING_PHASES) == held
    assert HOLDING_PHASES | {Phase.RESERVED} == CHARGED_PHASES


@pytest.mark.requirement("F10")
def test_the_ways_to_end_are_told_apart() -> None:
    assert {outcome.value for outcome in Outcome} == {
        "succeeded", "failed", "cancelled", "withdrawn", "timed-out", "preempted", "lost", "reclaimed",
    }  # fmt: skip
    assert set(Outcome) - RETRIED == {Outcome.SUCCEEDED, Outcome.PREEMPTED}


def test_only_what_holds_nothing_leaves_at_once() -> None:
    for phase in WITHDRAWN_FROM:
        assert Phase.FINISHED in RULES[phase].next
        assert RULES[phase].quota is QuotaEffect.NONE


STAGES = STAGE_TIMES[STAGE_TIMES.index("placed") :]


@pytest.mark.requirement("D13")
@given(
    st.lists(st.integers(0, 100), min_size=len(STAGES), max_size=len(STAGES)),
    st.sets(st.sampled_from(STAGES[1:])),
    st.integers(0, 300),
)
def test_holding_states_tile_from_placed_to_the_proof_of_release(
    gaps: list[int], missing: set[str], until: int
) -> None:
    times: dict[str, int | None] = {}
    at = 0
    for stage, gap in zip(STAGES, gaps, strict=True):
        at += gap
        times[stage] = None if stage in missing else at
    placed = times["placed"]
    assert placed is not None
    confirmed = times["release_confirmed"]
    end = until if confirmed is None else min(confirmed, until)
    tiles = holding_tiles(times, until)
    assert sum(t1 - t0 for _, t0, t1 in tiles) == max(0, end - placed)
    assert all(before[2] == after[1] for before, after in pairwise(tiles))
    assert all(t0 < t1 for _, t0, t1 in tiles)
    assert {state for state, _, _ in tiles} <= {rule.metering for rule in RULES.values()}
