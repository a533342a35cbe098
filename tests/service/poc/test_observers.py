"""The observers see what is there, and say so where they can't look: that is never taken for nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from steelyard.poc.observers.kernel import KernelProbe, ProcessProbe
from steelyard.poc.observers.simulation import SimulationProbe
from steelyard.poc.observers.tools import ToolProbe
from tests.support.stand_in import StandIn, stand_in


def test_cards_are_seen_by_uuid_and_place_with_memory_and_who_is_on_them() -> None:
    with stand_in(gpus=2, npus=1) as machine:
        machine.apps.append((machine.gpus[0].uuid, 4711, "python", 10))
        machine.show()
        probe = ToolProbe(str(machine.tools), str(machine.system))
        first, second = probe.look("gpu").devices or ()
        (npu,) = probe.look("npu").devices or ()
    assert first.names == ("GPU-00000000-aaaa-4bbb-8ccc-dddddddddddd", "0000:10:00.0")
    assert (first.memory, first.holders, second.holders) == (81559, (4711,), ())
    assert (npu.names, npu.memory, npu.holders) == (("0000:c1:00.0",), 65536, ())


def test_who_has_the_file_of_an_npu_open_is_seen_in_the_kernel() -> None:
    with stand_in(npus=1) as machine:
        probe = ToolProbe(str(machine.tools), str(machine.system))
        with open(machine.system / "dev/davinci0", "rb"):
            (npu,) = probe.look("npu").devices or ()
        assert npu.holders == (os.getpid(),)


def _hides(machine: StandIn) -> None:
    machine.remove_tool("nvidia-smi")


def _fails(machine: StandIn) -> None:
    machine.before("nvidia-smi", "exit 9")


def _breaks(machine: StandIn) -> None:
    machine.gpu(0, lost=True)  # the tool prints a sentence in place of a row


@pytest.mark.parametrize("harm", [_hides, _fails, _breaks])
def test_a_tool_that_fails_or_prints_half_a_row_is_no_answer(harm: object) -> None:
    with stand_in(gpus=1) as machine:
        harm(machine)  # type: ignore[operator]
        seen = ToolProbe(str(machine.tools)).look("gpu")
    assert seen.devices is None
    assert seen.why


def test_an_observer_without_a_place_is_not_connected() -> None:
    assert ToolProbe(None).look("gpu").devices is None
    assert KernelProbe(None).look("cpu").devices is None
    assert ProcessProbe(None).task("x").alive is None
    assert SimulationProbe(None).look("gpu").devices is None
    assert SimulationProbe(None).task("x").alive is None


def test_cores_and_memory_are_those_that_this_process_may_use() -> None:
    (cpu,) = KernelProbe().look("cpu").devices or ()
    (memory,) = KernelProbe().look("memory").devices or ()
    assert cpu.capacity is not None
    assert memory.capacity is not None
    assert 0 < cpu.capacity <= len(os.sched_getaffinity(0)) * 1000
    assert 0 < memory.capacity <= psutil.virtual_memory().total >> 20


def test_a_task_s_process_is_found_by_its_mark_with_the_devices_it_was_told_of() -> None:
    command = ["/bin/sh", "-c", "echo ready; read line", "mark-1"]
    env = {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = ProcessProbe().task("mark-1")
        process.communicate(b"\n")
    assert (held.alive, held.devices) == (True, (("GPU-a", None), ("GPU-b", None)))
    assert ProcessProbe().task("mark-1").alive is False


def test_a_simulated_cluster_s_file_tells_what_is_there_and_what_was_started(tmp_path: Path) -> None:
    spec = {
        "nodes": [{"prefix": "n", "count": 2, "cpu": "4", "devices": [{"class": "gpu", "count": 2}]}],
        "suffer": [{"fault": "device-vanishes", "match": {"device": "n-1/gpu-0"}}],
        "foreign": [{"id": "4711", "node": "n-0", "devices": ["n-0/gpu-1"]}],
    }
    members = [{"claims": [["n-0/gpu-0", 1000], ["n-0/cpu", 1]]}]
    lines = [
        {"type": "declared", "at": 1, "spec": json.dumps(spec)},
        {"type": "start", "at": 2, "attempt_id": "at_1", "name": "mine", "members": members},
    ]
    file = tmp_path / "far.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type": "st')
    probe = SimulationProbe(str(file))
    cards = {one.names[0]: one.holders for one in probe.look("gpu").devices or ()}
    assert cards == {"n-0/gpu-0": (), "n-0/gpu-1": (4711,), "n-1/gpu-1": ()}
    assert [one.capacity for one in probe.look("cpu").devices or ()] == [4000, 4000]
    held = probe.task("mine")
    assert (held.alive, held.devices) == (True, (("n-0/gpu-0", 1000), ("n-0/cpu", 1)))
    with file.open("w") as out:
        for line in [*lines, {"type": "stop", "at": 3, "attempts": ["at_1"], "grace": 0}]:
            out.write(json.dumps(line) + "\n")
    assert probe.task("mine").alive is False
