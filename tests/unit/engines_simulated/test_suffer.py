"""Each thing that a simulated cluster can be told to suffer, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.engines.port import EngineUnavailable, MemberPhase, Observation, StartState
from steelyard.model.health import Health
from steelyard.model.resources import Availability, FoundNode, UnavailableReason
from steelyard.model.units import MILLISECOND, SECOND
from tests.support.simulated import EPOCH, STARTED, Bench

CALLS = ("start", "stop")


def node(bench: Bench, name: str) -> FoundNode:
    return {found.name: found for found in bench.engine.inventory()}[name]


# -- a member's own way -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "stage", "code"),
    [
        ("image-failure", "image", "image-not-found"),
        ("environment-failure", "environment", "environment-mismatch"),
        ("start-failure", "launch", "start-failed"),
    ],
)
def test_a_stage_fails_with_its_stage_and_code_and_nothing_ever_ran(
    fault: str, stage: str, code: str
) -> None:
    bench = Bench({"fault": fault})
    attempt = bench.start(devices=["sim-0/gpu-0"])
    bench.later(SECOND)
    member = bench.see(attempt)
    assert (member.phase, member.failure_stage, member.failure) == (MemberPhase.ENDED, stage, code)
    assert (member.started_at, member.exit_code, member.exit_signal) == (None, None, None)
    assert bench.engine.present() == ()
    assert code.encode() in bench.engine.logs(member.member_id, 0, 9999).data


def test_a_failure_may_have_a_code_a_text_and_a_delay_of_its_own() -> None:
    fault = {"fault": "image-failure", "code": "image-pull-failed", "text": "no route", "after": "3s"}
    bench = Bench(fault)
    attempt = bench.start()
    bench.later(3 * SECOND + 49 * MILLISECOND)
    assert bench.see(attempt).sub_stage == "image"
    bench.later(MILLISECOND)
    member = bench.see(attempt)
    assert (member.failure, member.failure_text) == ("image-pull-failed", "no route")


def test_a_match_says_whom_a_fault_meets_and_a_count_how_many() -> None:
    bench = Bench({"fault": "start-failure", "match": {"name": "train-*", "attempt": 1}, "count": 1})
    attempts = [
        bench.start(name="serve", node="sim-0"),
        bench.start(name="train-a", number=2),
        bench.start(name="train-b"),
        bench.start(name="train-c"),
    ]
    bench.later(10 * SECOND)
    assert [bench.see(attempt).failure for attempt in attempts] == [None, None, "start-failed", None]


def test_a_count_holds_within_a_gang_too() -> None:
    bench = Bench({"fault": "start-failure", "count": 1})
    attempt = bench.start({}, {}, {})
    bench.later(10 * SECOND)
    assert [bench.see(attempt, index).failure for index in range(3)] == ["start-failed", None, None]


def test_a_fault_strikes_only_in_its_time_which_begins_when_it_is_declared() -> None:
    bench = Bench({"fault": "start-failure", "at": "10s", "for": "5s"})
    failures = []
    for _ in range(4):
        attempt = bench.start()
        bench.later(5 * SECOND)
        failures.append(bench.see(attempt).failure)
    assert failures == [None, None, "start-failed", None]
    bench.suffer({"fault": "start-failure", "for": "5s"})
    attempt = bench.start()
    bench.later(5 * SECOND)
    assert bench.see(attempt).failure == "start-failed"


def test_counts_and_times_outlive_the_server(tmp_path: Path) -> None:
    bench = Bench({"fault": "start-failure", "count": 1}, path=tmp_path / "state.jsonl")
    failed = bench.start()
    bench.engine.close()
    bench.later(SECOND)
    bench.engine = bench.another()
    spared = bench.start()
    bench.later(SECOND)
    assert (bench.see(failed).failure, bench.see(spared).failure) == ("start-failed", None)


# -- release ----------------------------------------------------------------------------------------


@pytest.mark.requirement("G2")
def test_a_stuck_release_is_seen_by_the_probe_alone() -> None:
    bench = Bench({"fault": "stuck-release", "for": "30s"})
    attempt = bench.start({"run": "1s"}, devices=["sim-0/gpu-0"])
    bench.later(10 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED
    (probe,) = bench.engine.probe_release([attempt.attempt_id])
    assert probe.free is False
    assert "sim-0/gpu-0 held by mb_1_0" in probe.residue
    assert dict(probe.checks) == {"processes": "gone", "devices": "held"}
    bench.later(21 * SECOND + STARTED)
    assert bench.engine.probe_release([attempt.attempt_id])[0].free is True


def test_what_ended_and_left_nothing_is_told_with_the_observation_what_is_stuck_is_not() -> None:
    bench = Bench({"fault": "stuck-release", "match": {"name": "stuck"}})
    clean, stuck = bench.start({"run": "1s"}), bench.start({"run": "1s"}, name="stuck")
    bench.later(10 * SECOND)
    told = bench.engine.observe(None)
    assert {seen.attempt_id for seen in told.members} >= {clean.attempt_id, stuck.attempt_id}
    assert told.gone == (clean.attempt_id,)


def test_a_release_stays_stuck_until_the_suffering_is_no_longer_declared() -> None:
    bench = Bench({"fault": "stuck-release"})
    attempt = bench.start({"run": "1s"}, devices=["sim-0/gpu-0"])
    bench.later(3600 * SECOND)
    bench.engine.forget([attempt.attempt_id])
    assert bench.engine.probe_release([attempt.attempt_id])[0].free is False
    bench.suffer()
    assert bench.engine.probe_release([attempt.attempt_id])[0].free is True


# -- nodes and devices ------------------------------------------------------------------------------


def test_members_of_a_lost_node_are_unknown_and_go_on_until_it_returns() -> None:
    bench = Bench({"fault": "node-lost", "match": {"node": "sim-0"}, "at": "5s", "for": "10s"})
    ends, runs = bench.start({"run": "7s", "exit": "3"}), bench.start({"run": "60s"})
    other = bench.start({"run": "60s"}, node="sim-1")
    bench.later(6 * SECOND)
    assert [bench.see(a).phase for a in (ends, runs, other)] == ["unknown", "unknown", "running"]
    lost = node(bench, "sim-0")
    assert (lost.availability, lost.reason) == (Availability.UNPLANNED, UnavailableReason.NODE_LOST)
    assert {device.reason for device in lost.devices} == {UnavailableReason.NODE_LOST}
    assert node(bench, "sim-1").availability is Availability.AVAILABLE
    bench.later(10 * SECOND)
    assert (bench.see(ends).exit_code, bench.see(ends).ended_at) == (3, EPOCH + STARTED + 7 * SECOND)
    assert bench.see(runs).phase is MemberPhase.RUNNING
    assert node(bench, "sim-0").availability is Availability.AVAILABLE


def test_nothing_starts_on_a_lost_node_and_the_probe_can_not_tell() -> None:
    bench = Bench({"fault": "node-lost", "match": {"node": "sim-0"}, "at": "5s"})
    attempt = bench.start({"run": "60s"})
    bench.later(6 * SECOND)
    (reply,) = bench.engine.start([bench.attempt()])
    assert (reply.state, reply.code) == (StartState.REFUSED, "node-lost")
    assert bench.engine.probe_release([attempt.attempt_id])[0].free is None


def test_a_stop_reaches_a_lost_node_when_it_returns() -> None:
    bench = Bench({"fault": "node-lost", "match": {"node": "sim-0"}, "at": "5s", "for": "10s"})
    attempt = bench.start({"run": "60s"})
    bench.later(6 * SECOND)
    bench.engine.stop([attempt.attempt_id], SECOND)
    bench.later(5 * SECOND)
    seen = bench.see(attempt)
    assert (seen.phase, seen.stop_requested) == (MemberPhase.UNKNOWN, True)
    bench.later(10 * SECOND)
    assert bench.see(attempt).ended_at == EPOCH + 15 * SECOND + 20 * MILLISECOND


def test_members_of_a_node_that_is_said_to_be_gone_ended_with_it() -> None:
    bench = Bench({"fault": "node-lost", "match": {"node": "sim-0"}, "at": "5s", "gone": "10s"})
    attempt = bench.start({"run": "60s"}, devices=["sim-0/gpu-0"])
    bench.later(10 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.UNKNOWN
    bench.later(5 * SECOND)
    member = bench.see(attempt)
    assert (member.phase, member.failure, member.exit_code) == (MemberPhase.ENDED, "node-lost", None)
    assert bench.engine.probe_release([attempt.attempt_id])[0].free is True
    assert bench.engine.present() == ()


def test_a_node_is_lost_where_a_member_runs_that_long() -> None:
    bench = Bench({"fault": "node-lost", "match": {"name": "train"}, "after": "2s", "for": "5s"})
    attempt = bench.start({"run": "60s"}, name="train", node="sim-1")
    bench.later(STARTED + 2 * SECOND - 1)
    assert bench.see(attempt).phase is MemberPhase.RUNNING
    bench.later(1)
    assert bench.see(attempt).phase is MemberPhase.UNKNOWN
    assert node(bench, "sim-0").reason is None
    bench.later(5 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.RUNNING
    again = bench.start({"run": "60s"}, name="train")
    bench.later(10 * SECOND)
    assert bench.see(again).phase is MemberPhase.RUNNING


def test_a_count_bounds_the_nodes_that_are_lost() -> None:
    bench = Bench({"fault": "node-lost", "count": 1})
    assert [found.reason for found in bench.engine.inventory()] == ["node-lost", None]


def test_a_node_returns_when_its_suffering_is_no_longer_declared() -> None:
    bench = Bench({"fault": "node-lost", "match": {"node": "sim-0"}})
    bench.suffer()
    assert node(bench, "sim-0").reason is None


def test_a_device_that_vanishes_is_missing_and_comes_back() -> None:
    bench = Bench({"fault": "device-vanishes", "match": {"device": "sim-0/gpu-1"}, "at": "5s", "for": "5s"})
    user = bench.start({"run": "60s"}, devices=["sim-0/gpu-1"])
    bench.later(6 * SECOND)
    reasons = {device.uid: device.health for device in node(bench, "sim-0").devices}
    assert reasons.pop("sim-0/gpu-1") is Health.MISSING
    assert set(reasons.values()) == {Health.HEALTHY}
    assert bench.see(user).phase is MemberPhase.RUNNING
    (reply,) = bench.engine.start([bench.attempt(devices=["sim-0/gpu-1"])])
    assert reply.code == "device-missing"
    bench.later(5 * SECOND)
    assert {device.health for device in node(bench, "sim-0").devices} == {Health.HEALTHY}


def test_a_device_that_vanishes_may_end_who_uses_it() -> None:
    fault = {"fault": "device-vanishes", "match": {"name": "train"}, "after": "2s", "kills": True}
    bench = Bench(fault)
    user = bench.start({"run": "60s"}, name="train", devices=["sim-0/gpu-2"])
    other = bench.start({"run": "60s"}, devices=["sim-0/gpu-1"])
    bench.later(5 * SECOND)
    assert (bench.see(user).phase, bench.see(user).failure) == (MemberPhase.ENDED, "device-lost")
    assert bench.see(other).phase is MemberPhase.RUNNING
    assert [d.uid for d in node(bench, "sim-0").devices if d.health is Health.MISSING] == ["sim-0/gpu-2"]


# -- replies ----------------------------------------------------------------------------------------


def test_while_the_cluster_is_lost_every_call_says_so_and_its_members_go_on() -> None:
    bench = Bench({"fault": "cluster-lost", "at": "5s", "for": "10s"})
    attempt = bench.start({"run": "7s"})
    bench.later(6 * SECOND)
    engine = bench.engine
    calls = [
        lambda: engine.inventory(),
        lambda: engine.start([attempt]),
        lambda: engine.stop([attempt.attempt_id], 0),
        lambda: engine.observe(None),
        lambda: engine.probe_release([attempt.attempt_id]),
        lambda: engine.logs("mb_1_0", 0, 1),
        lambda: engine.forget([attempt.attempt_id]),
        lambda: engine.ensure_namespace("a", "b"),
    ]
    for call in calls:
        with pytest.raises(EngineUnavailable, match="cluster-unreachable"):
            call()
    bench.later(10 * SECOND)
    assert bench.see(attempt).ended_at == EPOCH + STARTED + 7 * SECOND


def test_a_lost_reply_is_lost_after_the_act() -> None:
    bench = Bench(*({"fault": "lost-reply", "calls": [call], "match": {"name": "job"}} for call in CALLS))
    spared, attempt = bench.attempt(name="other"), bench.attempt({"run": "60s"})
    assert bench.engine.start([spared])[0].state is StartState.ACCEPTED
    with pytest.raises(EngineUnavailable, match="engine-reply-lost"):
        bench.engine.start([attempt])
    assert bench.engine.start([attempt])[0].state is StartState.ALREADY
    with pytest.raises(EngineUnavailable, match="engine-reply-lost"):
        bench.engine.stop([attempt.attempt_id], SECOND)
    bench.later(SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_late_replies_show_what_was_that_long_ago() -> None:
    bench = Bench({"fault": "late-reply", "delay": "10s", "for": "60s"})
    attempt = bench.start({"run": "5s"})
    bench.later(9 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.STARTING
    bench.later(3 * SECOND)
    seen = bench.engine.observe(None)
    assert seen.as_of == bench.clock.at - 10 * SECOND
    assert seen.members[0].phase is MemberPhase.RUNNING
    bench.later(60 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_stale_replies_stand_still_and_then_catch_up() -> None:
    bench = Bench({"fault": "stale", "at": "2s", "for": "60s"})
    attempt = bench.start({"run": "5s"})
    bench.later(3 * SECOND)
    first = bench.engine.observe(None)
    bench.later(50 * SECOND)
    second = bench.engine.observe(first.cursor)
    assert (first.as_of, second.as_of, second.members) == (EPOCH + 2 * SECOND, EPOCH + 2 * SECOND, ())
    assert first.members[0].phase is MemberPhase.RUNNING
    bench.later(20 * SECOND)
    (member,) = bench.engine.observe(second.cursor).members
    assert (member.attempt_id, member.phase) == (attempt.attempt_id, MemberPhase.ENDED)


def test_what_was_forgotten_does_not_come_to_light_late() -> None:
    bench = Bench({"fault": "late-reply", "delay": "10s"})
    attempt = bench.start({"run": "1s"})
    bench.later(5 * SECOND)
    bench.engine.forget([attempt.attempt_id])
    bench.later(60 * SECOND)
    assert bench.engine.observe(None).members == ()


def test_a_suffering_that_is_no_longer_declared_lets_everything_be_seen_at_once() -> None:
    bench = Bench({"fault": "late-reply", "delay": "100s"})
    attempt = bench.start({"run": "1s"})
    bench.later(5 * SECOND)
    bench.suffer()
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_a_doubled_reply_comes_twice_the_same() -> None:
    bench = Bench({"fault": "doubled"})
    bench.start()
    first, second, third = (bench.engine.observe(None) for _ in range(3))
    assert first == second
    assert third.sequence > second.sequence


def test_a_reordered_reply_comes_after_the_next_one() -> None:
    bench = Bench({"fault": "reordered"})
    attempt = bench.start({"run": "5s"})
    with pytest.raises(EngineUnavailable, match="engine-reply-late"):
        bench.engine.observe(None)
    bench.later(SECOND)
    newer = bench.engine.observe(None)
    older = bench.engine.observe(newer.cursor)
    assert older.sequence < newer.sequence
    assert (phase(older, attempt.attempt_id), phase(newer, attempt.attempt_id)) == ("starting", "running")
    assert bench.engine.observe(newer.cursor).sequence > newer.sequence


def phase(observation: Observation, attempt_id: str) -> str:
    (member,) = (seen for seen in observation.members if seen.attempt_id == attempt_id)
    return member.phase.value
