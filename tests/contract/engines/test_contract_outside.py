"""What every engine keeps of what it leaves outside: marks, foreign things, releases, logs, inventory."""

from __future__ import annotations

import pytest

from steelyard.engines.port import EngineUnavailable, LogChunk, MemberPhase, Signal, StartState
from steelyard.model.errors import UnavailableError
from steelyard.model.execution import Channel, Execution
from steelyard.model.resources import Availability, DeviceClass
from steelyard.model.units import SECOND
from tests.support.engine_harness import Does, Harness

# -- who owns what ----------------------------------------------------------------------------------


def test_everything_outside_carries_the_mark_of_its_owner(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS, Does.RUNS)
    harness.until_running(attempt)
    assert harness.marks(attempt) == {(attempt.install_id, attempt.attempt_id)}


def test_what_is_foreign_is_reported_and_not_touched(harness: Harness) -> None:
    foreign = harness.place_foreign()
    ours = harness.start(Does.RUNS)
    harness.until_running(ours)
    assert foreign in {one.id for one in harness.engine.observe(None).foreign}
    assert foreign not in {one.attempt_id for one in harness.engine.observe(None).members}
    harness.engine.stop([foreign, ours.attempt_id], 0)
    harness.engine.signal(foreign, Signal.KILL)
    harness.engine.forget([foreign])
    harness.until_ended(ours)
    assert harness.foreign_is_there()


def test_a_second_engine_adopts_what_the_first_left(harness: Harness) -> None:
    runs, ends = harness.start(Does.RUNS), harness.start(Does.EXITS_3)
    (before,) = harness.until_running(runs)
    cursor = harness.engine.observe(None).cursor
    harness.engine.close()
    harness.engine = harness.reopen()
    first = harness.engine.observe(cursor)
    assert harness.seen(runs) == [before]
    assert harness.until_ended(ends)[0].exit_code == 3
    assert first.cluster == harness.engine.cluster
    assert harness.engine.start([runs])[0].state is StartState.ALREADY
    harness.engine.stop([runs.attempt_id], SECOND)
    assert harness.until_ended(runs)[0].exit_signal == 15


# -- release ----------------------------------------------------------------------------------------


@pytest.mark.requirement("G2")
def test_the_probe_finds_what_runs_and_nothing_after_its_end(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    (probe,) = harness.engine.probe_release([attempt.attempt_id])
    assert (probe.attempt_id, probe.free) == (attempt.attempt_id, False)
    assert probe.residue
    assert probe.checks
    harness.engine.stop([attempt.attempt_id], SECOND)
    harness.until_ended(attempt)
    harness.until_free(attempt)
    (probe,) = harness.engine.probe_release([attempt.attempt_id])
    assert (probe.residue, bool(probe.checks)) == ((), True)


def test_the_probe_answers_for_each_attempt_in_order(harness: Harness) -> None:
    runs, ends = harness.start(Does.RUNS), harness.start(Does.SUCCEEDS)
    harness.until_running(runs)
    harness.until_ended(ends)
    harness.until_free(ends)
    probes = harness.engine.probe_release([ends.attempt_id, runs.attempt_id])
    assert [(one.attempt_id, one.free) for one in probes] == [
        (ends.attempt_id, True),
        (runs.attempt_id, False),
    ]


@pytest.mark.requirement("G8")
def test_a_fence_leaves_others_alone_and_names_what_it_could_not_end(harness: Harness) -> None:
    ends, runs = harness.start(Does.SUCCEEDS), harness.start(Does.RUNS)
    harness.until_running(runs)
    harness.until_ended(ends)
    harness.until_free(ends)
    (fenced,) = harness.engine.fence([ends.attempt_id])
    assert (fenced.attempt_id, fenced.done, fenced.left) == (ends.attempt_id, (), ())
    assert harness.seen(runs)[0].phase is MemberPhase.RUNNING


# -- logs -------------------------------------------------------------------------------------------


def all_of(harness: Harness, member_id: str) -> bytes:
    chunk = harness.engine.logs(member_id, 0, 1 << 20)
    assert chunk.end
    return chunk.data


def test_a_log_is_read_in_parts_and_from_its_end(harness: Harness) -> None:
    attempt = harness.start(Does.SUCCEEDS)
    harness.until_ended(attempt)
    member_id = attempt.members[0].member_id
    whole = all_of(harness, member_id)
    assert whole
    first = harness.engine.logs(member_id, 0, 3)
    assert first == LogChunk(whole[:3], 3, False)
    assert harness.engine.logs(member_id, first.next_offset, 1 << 20).data == whole[3:]
    assert harness.engine.logs(member_id, -2, 1 << 20).data == whole[-2:]
    assert harness.engine.logs(member_id, -(1 << 20), 1 << 20).data == whole
    assert harness.engine.logs(member_id, len(whole), 10) == LogChunk(b"", len(whole), True)


def test_the_log_of_what_runs_has_not_come_to_its_end(harness: Harness) -> None:
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    assert not harness.engine.logs(attempt.members[0].member_id, 0, 1 << 20).end


def test_a_log_stays_when_the_attempt_is_forgotten(harness: Harness) -> None:
    attempt = harness.start(Does.SUCCEEDS)
    harness.until_ended(attempt)
    harness.until_free(attempt)
    before = all_of(harness, attempt.members[0].member_id)
    harness.engine.forget([attempt.attempt_id])
    assert all_of(harness, attempt.members[0].member_id) == before


@pytest.mark.parametrize("member_id", ["mb_unknown", "", "../../etc/passwd", "mb_\x00"])
def test_the_log_of_what_is_not_known_is_empty(harness: Harness, member_id: str) -> None:
    chunk = harness.engine.logs(member_id, 0, 100)
    assert (chunk.data, chunk.end) == (b"", True)


# -- the rest ---------------------------------------------------------------------------------------


def test_what_an_engine_can_not_do_it_declares(harness: Harness) -> None:
    capabilities = harness.engine.capabilities()
    attempt = harness.start(Does.RUNS)
    harness.until_running(attempt)
    member_id = attempt.members[0].member_id
    assert capabilities.kind == harness.name
    assert capabilities.simulated == (harness.name == "simulated")
    assert capabilities.limits in {"cgroup-v2", "cgroup-v1", "rlimit", "none"}
    if not capabilities.can_exec:
        with pytest.raises(UnavailableError) as caught:
            harness.engine.exec(member_id, Execution(("true",)))
        assert not isinstance(caught.value, EngineUnavailable)
    else:
        stream, last = harness.engine.exec(member_id, Execution(("true",))), None
        while (one := stream.read()) is not None:
            last = one
        stream.close()
        assert last is not None
        assert last[0] == Channel.STATUS
    if not capabilities.can_update:
        assert harness.engine.update(attempt.attempt_id, 2, None).state is StartState.REFUSED
    samples = [one for one in harness.engine.sample() if one.member_id == member_id]
    if not capabilities.sees_utilisation:
        assert all(one.cpu_micros is None and one.memory_mib is None for one in samples)
    assert harness.engine.prepare(attempt).state is not StartState.REFUSED
    assert harness.engine.endpoint(member_id) is None


def test_the_inventory_has_cores_and_memory_and_a_reason_where_something_is_not_available(
    harness: Harness,
) -> None:
    nodes = harness.engine.inventory()
    assert nodes
    for node in nodes:
        classes = {device.device_class for device in node.devices}
        assert {DeviceClass.CPU, DeviceClass.MEMORY} <= classes
        uids = [device.uid for device in node.devices]
        assert len(uids) == len(set(uids))
        for thing in (node, *node.devices):
            assert (thing.availability is Availability.AVAILABLE) == (thing.reason is None)
        assert all(device.capacity > 0 for device in node.devices)


def test_a_namespace_may_be_asked_for_again(harness: Harness) -> None:
    for _ in range(2):
        harness.engine.ensure_namespace("vision", "vision")
