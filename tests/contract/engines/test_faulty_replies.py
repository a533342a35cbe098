"""Replies that are lost, late, doubled, stale or out of order lead nobody to a wrong end, on any engine."""

from __future__ import annotations

import pytest

from steelyard.engines.port import EngineUnavailable, MemberPhase, StartState
from steelyard.model.units import SECOND
from tests.support.engine_harness import Does, Harness
from tests.support.faulty_engine import OBSERVATION_FAULTS, FaultyEngine, Reader


def test_a_start_whose_reply_was_lost_is_known_when_it_is_asked_again(harness: Harness) -> None:
    faulty = FaultyEngine(harness.engine)
    faulty.arm("lost-reply", call="start")
    attempt = harness.attempt(Does.RUNS)
    with pytest.raises(EngineUnavailable):
        faulty.start([attempt])
    before = harness.until_running(attempt)
    assert faulty.start([attempt])[0].state is StartState.ALREADY
    assert harness.seen(attempt) == before


def test_a_stop_whose_reply_was_lost_has_ended_it_all_the_same(harness: Harness) -> None:
    faulty = FaultyEngine(harness.engine)
    faulty.arm("lost-reply", call="stop")
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    with pytest.raises(EngineUnavailable):
        faulty.stop([attempt.attempt_id], SECOND)
    faulty.stop([attempt.attempt_id], SECOND)
    assert harness.until_ended(attempt)[0].exit_signal == 15


def test_a_start_that_never_arrived_is_not_known(harness: Harness) -> None:
    faulty = FaultyEngine(harness.engine)
    faulty.arm("unreachable")
    attempt = harness.attempt(Does.RUNS)
    with pytest.raises(EngineUnavailable):
        faulty.start([attempt])
    assert harness.seen(attempt) == []
    assert faulty.start([attempt])[0].state is StartState.ACCEPTED


@pytest.mark.parametrize("fault", OBSERVATION_FAULTS)
@pytest.mark.parametrize("times", [1, 3])
def test_whoever_follows_the_rules_sees_every_end_once_and_right(
    harness: Harness, fault: str, times: int
) -> None:
    faulty = FaultyEngine(harness.engine)
    reader = Reader(faulty)
    attempts = [harness.start(Does.SUCCEEDS), harness.start(Does.EXITS_3), harness.start(Does.RUNS)]
    members = [attempt.members[0].member_id for attempt in attempts]
    reader.look()
    faulty.arm(fault, times)
    ends: dict[str, int | None] = {}
    for _ in range(2000):
        reader.look()
        for member_id, one in reader.members.items():
            if one.phase is MemberPhase.ENDED:
                assert ends.setdefault(member_id, one.exit_code) == one.exit_code
            else:
                assert member_id not in ends, "an older observation undid a newer one"
        if len(ends) == 2 and reader.members[members[2]].phase is MemberPhase.RUNNING:
            break
        harness.pause()
    assert [ends.get(member_id) for member_id in members[:2]] == [0, 3]
    assert reader.members == {one.member_id: one for one in harness.engine.observe(None).members}


@pytest.mark.parametrize("fault", ["doubled", "reordered", "stale", "late"])
def test_an_observation_that_is_not_new_can_be_told_by_its_sequence(harness: Harness, fault: str) -> None:
    faulty = FaultyEngine(harness.engine)
    reader = Reader(faulty)
    reader.look()
    faulty.arm(fault)
    for _ in range(4):
        reader.look()
    assert reader.older + reader.unreachable >= 1
    assert reader.sequence > 0
