"""What every engine keeps, whatever runs behind it (the rules of the engine port)."""

from __future__ import annotations

import pytest

from steelyard.engines.port import MemberPhase, Signal, StartState
from steelyard.model.units import SECOND
from tests.support.engine_harness import Does, Harness

# -- start ------------------------------------------------------------------------------------------


def test_a_second_start_is_known_by_the_attempt_id_and_does_nothing(harness: Harness) -> None:
    attempt = harness.attempt(Does.RUNS)
    assert harness.engine.start([attempt])[0].state is StartState.ACCEPTED
    before = harness.until_running(attempt)
    assert harness.engine.start([attempt])[0].state is StartState.ALREADY
    harness.pause()
    assert harness.seen(attempt) == before


def test_an_attempt_that_stands_twice_in_one_call_starts_once(harness: Harness) -> None:
    attempt = harness.attempt(Does.RUNS)
    states = [reply.state for reply in harness.engine.start([attempt, attempt])]
    assert StartState.REFUSED not in states
    assert len(harness.until_running(attempt)) == 1
    assert len(harness.engine.observe(None).members) == 1


def test_replies_come_in_the_order_of_the_attempts(harness: Harness) -> None:
    attempts = [harness.attempt(Does.SUCCEEDS) for _ in range(3)]
    replies = harness.engine.start(attempts)
    assert [reply.attempt_id for reply in replies] == [attempt.attempt_id for attempt in attempts]


def test_all_members_of_an_attempt_start(harness: Harness) -> None:
    attempt = harness.start(Does.SUCCEEDS, Does.EXITS_3, Does.SUCCEEDS)
    assert [one.exit_code for one in harness.until_ended(attempt)] == [0, 3, 0]


def test_a_start_after_the_end_does_not_run_it_again(harness: Harness) -> None:
    attempt = harness.start(Does.EXITS_3)
    ended = harness.until_ended(attempt)
    assert harness.engine.start([attempt])[0].state is StartState.ALREADY
    harness.pause()
    assert harness.seen(attempt) == ended


def test_a_start_after_the_end_was_booked_and_forgotten_does_not_run_it_again(harness: Harness) -> None:
    attempt = harness.start(Does.EXITS_3)
    harness.until_ended(attempt)
    harness.until_free(attempt)
    harness.engine.forget([attempt.attempt_id])
    assert harness.engine.start([attempt])[0].state is not StartState.ACCEPTED
    harness.pause()
    assert harness.seen(attempt) == []
    assert harness.engine.probe_release([attempt.attempt_id])[0].free is True


# -- how it goes and ends ---------------------------------------------------------------------------

_ORDER = [None, "provision", "image", "environment", "launch", "running", "ended"]


def test_stages_are_seen_in_order(harness: Harness) -> None:
    attempt = harness.start(Does.SUCCEEDS)
    places = []
    for _ in range(3000):
        seen = harness.seen(attempt)
        if seen:
            one = seen[0]
            at_end = one.phase in (MemberPhase.RUNNING, MemberPhase.ENDED)
            places.append(_ORDER.index(one.phase.value if at_end else one.sub_stage))
            if one.phase is MemberPhase.ENDED:
                break
        harness.pause()
    assert places == sorted(places)
    assert places[-1] == _ORDER.index("ended")


def test_times_never_go_back_and_lie_in_the_engines_clock(harness: Harness) -> None:
    begin = harness.now()
    attempt = harness.start(Does.SUCCEEDS)
    (one,) = harness.until_ended(attempt)
    assert one.started_at is not None
    assert one.ended_at is not None
    assert begin <= one.started_at <= (one.ready_at or one.started_at) <= one.ended_at <= harness.now()


@pytest.mark.parametrize(
    ("does", "exit_code", "exit_signal"),
    [(Does.SUCCEEDS, 0, None), (Does.EXITS_3, 3, None), (Does.DIES_OF_SIGNAL, None, 9)],
)
def test_the_exit_is_what_the_member_did(
    harness: Harness, does: Does, exit_code: int | None, exit_signal: int | None
) -> None:
    (one,) = harness.until_ended(harness.start(does))
    assert (one.exit_code, one.exit_signal, one.failure) == (exit_code, exit_signal, None)


def test_an_exit_that_nobody_wrote_stays_unknown_and_is_never_zero(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    harness.lose_exit(attempt)
    (one,) = harness.until_ended(attempt)
    assert (one.exit_code, one.exit_signal) == (None, None)
    assert one.failure is not None


@pytest.mark.parametrize(
    ("does", "stage"),
    [
        (Does.FAILS_AT_IMAGE, "image"),
        (Does.FAILS_AT_ENVIRONMENT, "environment"),
        (Does.FAILS_AT_LAUNCH, "launch"),
    ],
)
def test_a_failure_before_running_names_its_stage(harness: Harness, does: Does, stage: str) -> None:
    (one,) = harness.until_ended(harness.start(does))
    assert (one.failure_stage, one.started_at) == (stage, None)
    assert one.failure
    assert one.exit_code is None


def test_a_member_that_fails_does_not_end_the_others(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS, Does.EXITS_3)
    harness.until(attempt, lambda one: one.phase in (MemberPhase.RUNNING, MemberPhase.ENDED))
    for _ in range(100):
        if harness.seen(attempt)[1].phase is MemberPhase.ENDED:
            break
        harness.pause()
    assert [one.phase for one in harness.seen(attempt)] == [MemberPhase.RUNNING, MemberPhase.ENDED]


def test_the_time_limit_ends_a_member_and_says_so(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS, time_limit=SECOND // 5)
    (one,) = harness.until_ended(attempt)
    assert one.timed_out
    assert one.started_at is not None
    assert one.ended_at is not None
    assert one.ended_at >= one.started_at + SECOND // 5


# -- stop and signals -------------------------------------------------------------------------------


def test_a_stop_ends_by_term_and_may_be_asked_for_again(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    for _ in range(3):
        harness.engine.stop([attempt.attempt_id], 10 * SECOND)
    (one,) = harness.until_ended(attempt)
    assert (one.exit_signal, one.stop_requested, one.timed_out) == (15, True, False)
    harness.engine.stop([attempt.attempt_id], 0)
    harness.pause()
    assert harness.seen(attempt) == [one]


def test_who_ignores_term_is_killed_after_the_grace(harness: Harness) -> None:
    attempt = harness.start(Does.IGNORES_TERM)
    (before,) = harness.until_running(attempt)
    for _ in range(30):  # a shell needs a moment to set its trap
        harness.pause()
    asked = harness.now()
    harness.engine.stop([attempt.attempt_id], SECOND // 5)
    (one,) = harness.until_ended(attempt)
    assert (one.exit_signal, one.started_at) == (9, before.started_at)
    assert one.ended_at is not None
    assert one.ended_at >= asked + SECOND // 5


def test_a_stop_of_what_is_not_known_does_nothing(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    harness.engine.stop([], 0)
    harness.engine.stop(["at_unknown", "../etc", ""], 0)
    harness.engine.signal("at_unknown", Signal.KILL)
    harness.engine.forget(["at_unknown"])
    harness.pause()
    assert harness.seen(attempt)[0].phase is MemberPhase.RUNNING


def test_signals_that_are_declared_have_their_effect(harness: Harness) -> None:
    declared = harness.engine.capabilities().signals
    for told, expected in ((Signal.TERM, 15), (Signal.KILL, 9)):
        if told in declared:
            attempt = harness.start(Does.RUNS)
            harness.until_running(attempt)
            harness.engine.signal(attempt.attempt_id, told)
            assert harness.until_ended(attempt)[0].exit_signal == expected


def test_a_checkpoint_signal_ends_nothing(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    harness.engine.signal(attempt.attempt_id, Signal.CHECKPOINT)
    for _ in range(5):
        harness.pause()
    assert harness.seen(attempt)[0].phase is MemberPhase.RUNNING


# -- observe ----------------------------------------------------------------------------------------


def test_a_cursor_shows_only_what_changed_since(harness: Harness) -> None:
    first = harness.start(Does.RUNS)
    harness.until_running(first)
    cursor = harness.engine.observe(None).cursor
    nothing = harness.engine.observe(cursor)
    assert (nothing.members, nothing.complete) == ((), False)
    second = harness.start(Does.RUNS)
    harness.until_running(second)
    changed = harness.engine.observe(cursor)
    assert {one.attempt_id for one in changed.members} == {second.attempt_id}


@pytest.mark.parametrize("cursor", [None, "", "nonsense", "x:1", "0:999999999999999999999", ":", "\x00"])
def test_a_cursor_that_is_not_known_shows_everything(harness: Harness, cursor: str | None) -> None:
    attempts = [harness.start(Does.RUNS), harness.start(Does.RUNS)]
    for attempt in attempts:
        harness.until_running(attempt)
    seen = harness.engine.observe(cursor)
    assert seen.complete
    assert {one.attempt_id for one in seen.members} == {attempt.attempt_id for attempt in attempts}


def test_every_observation_has_a_higher_sequence_and_no_earlier_time(harness: Harness) -> None:
    seen = [harness.engine.observe(None) for _ in range(3)]
    assert seen[0].sequence < seen[1].sequence < seen[2].sequence
    assert seen[0].as_of <= seen[1].as_of <= seen[2].as_of
    assert {one.cluster for one in seen} == {harness.engine.cluster}


def test_absent_never_means_ended(harness: Harness) -> None:
    attempt = harness.attempt(Does.RUNS)
    assert harness.seen(attempt) == []
    assert all(one.phase is not MemberPhase.ENDED for one in harness.engine.observe(None).members)
    harness.engine.start([attempt])
    harness.until_running(attempt)
    cursor = harness.engine.observe(None).cursor
    assert harness.engine.observe(cursor).members == ()  # absent from an observation, and it runs
    assert harness.seen(attempt)[0].phase is MemberPhase.RUNNING


def test_an_end_is_seen_by_whoever_looks_until_it_is_forgotten(harness: Harness) -> None:
    attempt = harness.start(Does.EXITS_3)
    ended = harness.until_ended(attempt)
    assert harness.seen(attempt) == ended
    harness.until_free(attempt)
    harness.engine.forget([attempt.attempt_id])
    assert harness.seen(attempt) == []
    harness.engine.forget([attempt.attempt_id])


def test_what_still_runs_is_not_forgotten(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    harness.engine.forget([attempt.attempt_id])
    assert harness.seen(attempt)[0].phase is MemberPhase.RUNNING
