"""A simulated cluster on a virtual clock: nothing here waits."""

from __future__ import annotations

import pytest

from steelyard.engines.port import MemberPhase, Signal, StartState
from steelyard.engines.simulated import parse_simulation
from steelyard.engines.simulated.inventory import Layout
from steelyard.model.resources import DeviceClass, Provenance
from steelyard.model.units import MILLISECOND, SECOND
from tests.support.simulated import EPOCH, STARTED, Bench

ALL_STAGES = {"provision": "10ms", "image": "20ms", "environment": "30ms", "launch": "40ms"}


@pytest.mark.requirement("O14")
def test_every_fact_of_every_device_and_node_is_marked_simulated() -> None:
    bench = Bench()
    for node in bench.engine.inventory():
        facts = [*node.facts.values(), *(fact for device in node.devices for fact in device.facts.values())]
        assert {fact.provenance for fact in facts} == {Provenance.SIMULATED}
        assert all(device.facts for device in node.devices)
    assert bench.engine.capabilities().simulated


def test_a_node_has_its_cores_its_memory_and_its_accelerators_as_devices() -> None:
    node = Bench().engine.inventory()[0]
    assert [(d.uid, d.device_class, d.capacity) for d in node.devices[:3]] == [
        ("sim-0/cpu", DeviceClass.CPU, 8000),
        ("sim-0/memory", DeviceClass.MEMORY, 32 * 1024),
        ("sim-0/gpu-0", DeviceClass.GPU, 1000),
    ]


def test_partitions_are_children_of_their_device() -> None:
    device = {
        "class": "gpu", "family": "nvidia", "model": "A100-80G",
        "partitions": {"count": 2, "model": "1g.10gb", "memory": "10Gi"},
    }  # fmt: skip
    spec = parse_simulation({"nodes": [{"prefix": "a", "devices": [device]}]})
    found = Layout.of(spec, EPOCH).nodes["a-0"].devices[2:]
    assert [(d.uid, d.parent_uid, d.model) for d in found] == [
        ("a-0/gpu-0", None, "A100-80G"),
        ("a-0/gpu-0.0", "a-0/gpu-0", "1g.10gb"),
        ("a-0/gpu-0.1", "a-0/gpu-0", "1g.10gb"),
    ]


def test_stages_come_in_order_each_with_its_duration() -> None:
    bench = Bench(timing=ALL_STAGES)
    attempt = bench.start({"run": "1s"})
    seen = []
    for millis in (9, 10, 30, 60, 100, 1100):
        bench.clock.at = EPOCH + millis * MILLISECOND
        member = bench.see(attempt)
        seen.append(member.sub_stage or member.phase.value)
    assert seen == ["provision", "image", "environment", "launch", "running", "ended"]


def test_times_are_those_of_the_clock_and_not_of_the_call_that_saw_them() -> None:
    bench = Bench()
    attempt = bench.start({"run": "30s", "exit": "0", "ready-after": "1s"})
    bench.later(3600 * SECOND)
    member = bench.see(attempt)
    started = EPOCH + STARTED
    assert (member.started_at, member.ready_at, member.ended_at) == (
        started,
        started + SECOND,
        started + 30 * SECOND,
    )
    assert member.exit_code == 0


def test_a_service_runs_until_it_is_stopped_and_is_ready_before() -> None:
    bench = Bench()
    attempt = bench.start({"ready-after": "2s"}, service=True)
    bench.later(STARTED + SECOND)
    assert not bench.see(attempt).ready
    bench.later(1000 * SECOND)
    assert bench.see(attempt).ready
    bench.engine.stop([attempt.attempt_id], SECOND)
    bench.later(SECOND)
    assert (bench.see(attempt).phase, bench.see(attempt).exit_signal) == (MemberPhase.ENDED, 15)


def test_who_ignores_term_is_killed_when_the_grace_is_over() -> None:
    bench = Bench()
    attempt = bench.start({"run": "forever", "ignore-term": "true"})
    bench.later(SECOND)
    bench.engine.stop([attempt.attempt_id], 5 * SECOND)
    bench.later(5 * SECOND - 1)
    assert bench.see(attempt).phase is MemberPhase.RUNNING
    bench.later(1)
    member = bench.see(attempt)
    assert (member.exit_signal, member.ended_at, member.stop_requested) == (9, bench.clock.at, True)


def test_the_time_limit_ends_a_member_and_says_so() -> None:
    bench = Bench()
    attempt = bench.start({"run": "60s"}, time_limit=10 * SECOND)
    bench.later(20 * SECOND)
    member = bench.see(attempt)
    assert (member.timed_out, member.exit_signal) == (True, 15)
    assert member.ended_at == EPOCH + STARTED + 10 * SECOND + 20 * MILLISECOND


def test_an_end_that_comes_by_itself_before_the_grace_is_over_keeps_its_exit_code() -> None:
    bench = Bench()
    attempt = bench.start({"run": "3s", "exit": "7", "ignore-term": "true"})
    bench.later(SECOND)
    bench.engine.stop([attempt.attempt_id], 60 * SECOND)
    bench.later(60 * SECOND)
    assert (bench.see(attempt).exit_code, bench.see(attempt).exit_signal) == (7, None)


def test_a_second_stop_can_only_make_the_end_come_sooner() -> None:
    bench = Bench()
    attempt = bench.start({"run": "forever", "ignore-term": "true"})
    bench.later(SECOND)
    bench.engine.stop([attempt.attempt_id], 2 * SECOND)
    bench.later(SECOND)
    bench.engine.stop([attempt.attempt_id], 60 * SECOND)
    bench.later(SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_a_kill_ends_at_once_and_a_term_leaves_who_ignores_it_alone() -> None:
    bench = Bench()
    attempt = bench.start({"run": "forever", "ignore-term": "true"})
    bench.later(SECOND)
    bench.engine.signal(attempt.attempt_id, Signal.TERM)
    bench.later(100 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.RUNNING
    bench.engine.signal(attempt.attempt_id, Signal.KILL)
    assert bench.see(attempt).exit_signal == 9


def test_a_member_that_is_stopped_before_it_runs_was_never_started() -> None:
    bench = Bench()
    attempt = bench.start()
    bench.engine.stop([attempt.attempt_id], SECOND)
    bench.later(SECOND)
    member = bench.see(attempt)
    assert (member.phase, member.started_at, member.exit_code) == (MemberPhase.ENDED, None, None)


def test_memory_that_runs_out_is_told_from_a_kill() -> None:
    bench = Bench()
    attempt = bench.start({"run": "1s", "oom": "true"})
    bench.later(2 * SECOND)
    assert (bench.see(attempt).exit_signal, bench.see(attempt).failure) == (9, "oom-killed")


def test_an_attempt_that_resumes_goes_on_from_the_last_checkpoint_also_after_it_was_forgotten() -> None:
    bench = Bench()
    first = bench.start({"run": "10s", "checkpoint": "2s"})
    bench.later(STARTED + 5 * SECOND)
    bench.engine.stop([first.attempt_id], SECOND)
    bench.later(SECOND)
    for forgotten in (False, True):
        if forgotten:
            bench.engine.forget([first.attempt_id])
        again = bench.start({"run": "10s", "checkpoint": "2s"}, resume_from=first.attempt_id)
        begin = bench.clock.at
        bench.later(20 * SECOND)
        assert bench.see(again).ended_at == begin + STARTED + 6 * SECOND


def test_a_checkpoint_on_demand_saves_all_that_was_done() -> None:
    bench = Bench()
    first = bench.start({"run": "10s", "checkpoint": "8s"})
    bench.later(STARTED + 3 * SECOND)
    bench.engine.signal(first.attempt_id, Signal.CHECKPOINT)
    bench.engine.stop([first.attempt_id], SECOND)
    bench.later(SECOND)
    again = bench.start({"run": "10s"}, resume_from=first.attempt_id)
    begin = bench.clock.at
    bench.later(20 * SECOND)
    assert bench.see(again).ended_at == begin + STARTED + 7 * SECOND


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"node": "nowhere"}, "node-unknown"),
        ({"devices": ["sim-0/gpu-9"]}, "device-unknown"),
        ({"devices": ["sim-1/gpu-0"]}, "device-unknown"),
        ({"devices": ["sim-0/gpu-0", "sim-0/gpu-0"]}, "device-busy"),
        ({"cpu": 8001}, "device-busy"),
        ({"cpu": -1}, "device-busy"),
    ],
)
def test_what_the_world_has_no_room_for_is_refused_for_good(parts: dict[str, object], code: str) -> None:
    bench = Bench()
    attempt = bench.attempt(**parts)  # type: ignore[arg-type]
    for _ in range(2):
        (reply,) = bench.engine.start([attempt])
        assert (reply.state, reply.code) == (StartState.REFUSED, code)
    assert bench.engine.present() == ()


def test_a_gang_takes_all_its_devices_or_none() -> None:
    bench = Bench()
    attempt = bench.attempt({}, {}, devices=["sim-0/gpu-0"])
    (reply,) = bench.engine.start([attempt])
    assert (reply.state, bench.engine.present()) == (StartState.REFUSED, ())


def test_an_expectation_that_is_not_understood_refuses_the_start() -> None:
    bench = Bench()
    (reply,) = bench.engine.start([bench.attempt({"run": "long"})])
    assert (reply.state, reply.code) == (StartState.REFUSED, "expect-invalid")


def test_a_device_is_free_for_the_next_when_it_was_given_back_and_not_before() -> None:
    bench = Bench()
    bench.start({"run": "1s"}, devices=["sim-0/gpu-0"])
    bench.later(STARTED + SECOND)
    (reply,) = bench.engine.start([bench.attempt(devices=["sim-0/gpu-0"])])
    assert reply.code == "device-busy"
    bench.later(10 * MILLISECOND)
    (reply,) = bench.engine.start([bench.attempt(devices=["sim-0/gpu-0"])])
    assert reply.state is StartState.ACCEPTED


def test_what_is_foreign_is_shown_and_keeps_its_device() -> None:
    thing = {"id": "4711", "node": "sim-0", "devices": ["sim-0/gpu-3"], "text": "somebody's own"}
    bench = Bench(foreign=[thing])
    (foreign,) = bench.engine.observe(None).foreign
    assert (foreign.id, foreign.node) == ("4711", "sim-0")
    (reply,) = bench.engine.start([bench.attempt(devices=["sim-0/gpu-3"])])
    assert reply.code == "device-busy"


def test_a_clock_that_steps_back_takes_nothing_back() -> None:
    bench = Bench()
    attempt = bench.start({"run": "1s"})
    bench.later(10 * SECOND)
    before = bench.engine.observe(None)
    bench.later(-9 * SECOND)
    after = bench.engine.observe(None)
    assert after.as_of >= before.as_of
    assert after.members == before.members
    assert bench.see(attempt).phase is MemberPhase.ENDED


def test_the_log_tells_the_stages_and_says_that_they_are_simulated() -> None:
    bench = Bench()
    attempt = bench.start({"run": "1s", "exit": "3"}, devices=["sim-0/gpu-1"])
    bench.later(5 * SECOND)
    lines = bench.engine.logs(attempt.members[0].member_id, 0, 10_000).data.decode().splitlines()
    assert all(line.startswith("[simulated] ") for line in lines)
    assert "sim-0/gpu-1" in lines[0]
    assert lines[-1].endswith("exited with 3")
