"""The local engine finds accelerators, tells who is on them, and shows each member only its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.devices.settings import settings_of
from steelyard.engines.local import procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import DeviceBinding
from steelyard.model.health import Health
from steelyard.model.resources import DeviceClass, FoundDevice, FoundNode, Provenance
from tests.support.local_engine import end_everything, make_local_engine, sh, wait_ended
from tests.support.stand_in import StandIn, stand_in

GENEROUS = 60.0
SLEEP = "exec sleep 600"


@contextmanager
def engine_on(machine: StandIn, tmp_path: Path, **said: Any) -> Iterator[LocalEngine]:
    engine = make_local_engine(tmp_path, devices=settings_of(machine.settings(**said)))
    try:
        yield engine
    finally:
        end_everything(engine)


def look(engine: LocalEngine) -> dict[str, FoundDevice]:
    return {device.uid: device for device in engine.inventory()[0].devices}


def until(engine: LocalEngine, done: Callable[[dict[str, FoundDevice]], bool]) -> dict[str, FoundDevice]:
    deadline = time.monotonic() + GENEROUS
    while not done(found := look(engine)):
        assert time.monotonic() < deadline, {uid: (d.health, d.signs, d.holders) for uid, d in found.items()}
        time.sleep(0.05)
    return found


def binding(device: FoundDevice) -> DeviceBinding:
    return DeviceBinding(device.uid, device.device_class, device.family, device.model, 1000, device.memory)


@contextmanager
def stranger(script: str) -> Iterator[int]:
    """A process that this one, which is the engine's server here, is no ancestor of; its pid."""
    begin = ["/bin/sh", "-c", '/bin/sh -c "$1" </dev/null >/dev/null 2>&1 & echo $!', "sh", script]
    pid = int(subprocess.run(begin, stdout=subprocess.PIPE, check=True).stdout)
    start = procfs.start_time(pid)
    try:
        yield pid
    finally:
        if start is not None and procfs.is_alive(pid, start):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.requirement("B18")
def test_accelerators_stand_beside_cpu_and_memory_with_class_family_and_facts(tmp_path: Path) -> None:
    with stand_in(gpus=2, npus=1) as machine, engine_on(machine, tmp_path) as engine:
        found = look(engine)
        told = [(d.device_class, d.family, d.model, d.capacity) for d in found.values()]
        assert told[2:] == [
            (DeviceClass.NPU, "ascend", "910B3", 1000),
            *[(DeviceClass.GPU, "nvidia", "NVIDIA H100 80GB HBM3", 1000)] * 2,
        ]
        card = found[machine.gpus[0].uuid]
        assert (card.health, card.holders) == (Health.HEALTHY, ())
        assert {fact.provenance for fact in card.facts.values()} == {Provenance.SIMULATED}
        assert card.facts["driver"].value == "575.57.08"
        assert {fact.provenance for fact in found["host-cpu"].facts.values()} == {
            Provenance.DETECTED, Provenance.DECLARED,
        }  # fmt: skip


def test_a_machine_without_accelerators_has_only_cpu_and_memory(tmp_path: Path) -> None:
    with stand_in() as machine, engine_on(machine, tmp_path) as engine:
        assert list(look(engine)) == ["host-cpu", "host-memory"]


def test_the_same_machine_seen_again_is_the_same_object(tmp_path: Path) -> None:
    with stand_in(gpus=1) as machine, engine_on(machine, tmp_path) as engine:
        seen: list[FoundNode] = [engine.inventory()[0] for _ in range(2)]
        assert seen[0] is seen[1]
        machine.driver = "580.1"
        machine.show()
        uid = machine.gpus[0].uuid
        until(engine, lambda found: found[uid].facts["driver"].value == "580.1")
        assert engine.inventory()[0] is not seen[0]


def test_names_and_health_outlive_the_engine(tmp_path: Path) -> None:
    with stand_in(gpus=1) as machine:
        uid = machine.gpus[0].uuid
        with engine_on(machine, tmp_path) as engine:
            look(engine)
            machine.gpu(0, words="[GPU requires reset]")
            until(engine, lambda found: found[uid].health is Health.UNHEALTHY)
        machine.gpu(0, words=None)
        with engine_on(machine, tmp_path) as engine:
            assert look(engine)[uid].health is Health.UNHEALTHY


def test_a_member_sees_the_cards_it_was_given_by_the_names_of_their_runtimes(tmp_path: Path) -> None:
    with stand_in(gpus=2, npus=2) as machine, engine_on(machine, tmp_path) as engine:
        found = look(engine)
        gpu = found[machine.gpus[1].uuid]
        npu = next(d for d in found.values() if d.family == "ascend" and d.facts["index"].value == 1)
        script = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $ASCEND_RT_VISIBLE_DEVICES"
        engine.start([sh("at_1", script, devices=(binding(gpu), binding(npu))), sh("at_2", script)])
        for name in ("mb_1", "mb_2"):
            wait_ended(engine, name)
        assert engine.logs("mb_1", 0, 1000).data.decode().split() == [gpu.uid, "PCI_BUS_ID", "1"]
        assert engine.logs("mb_2", 0, 1000).data.decode().split() == []


@pytest.mark.requirement("B24")
def test_a_strangers_process_is_told_on_its_card_and_a_members_own_is_not(tmp_path: Path) -> None:
    with stand_in(gpus=2) as machine, engine_on(machine, tmp_path) as engine, stranger(SLEEP) as pid:
        first, second = (one.uuid for one in machine.gpus)
        card = look(engine)[first]
        engine.start([sh("at_1", "echo $$; exec sleep 600", devices=(binding(card),))])
        deadline = time.monotonic() + GENEROUS
        while not (said := engine.logs("mb_1", 0, 100).data):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        mine = int(said)
        machine.apps = [(first, mine, "python", 300), (second, pid, "python", 500)]
        machine.show()
        found = until(engine, lambda found: bool(found[second].holders))
        assert found[first].holders == ()
        holder = (found[second].holders or ())[0]
        assert (holder.pid, holder.name, holder.memory) == (pid, "python", 500)
        assert holder.start_time is not None
        # A member is a stranger on a card that it was not given.
        machine.apps = [(second, mine, "python", 300)]
        machine.show()
        until(engine, lambda found: [h.pid for h in found[second].holders or ()] == [mine])


def test_a_process_that_is_gone_holds_nothing_whatever_the_tool_still_says(tmp_path: Path) -> None:
    with stand_in(gpus=1) as machine, engine_on(machine, tmp_path) as engine:
        uid = machine.gpus[0].uuid
        with stranger(SLEEP) as pid:
            machine.apps = [(uid, pid, "python", 500)]
            machine.show()
            until(engine, lambda found: bool(found[uid].holders))
        until(engine, lambda found: found[uid].holders == ())


def test_a_device_file_held_open_is_a_holder_where_the_tool_tells_no_processes(tmp_path: Path) -> None:
    with stand_in() as machine:
        file = machine.add_npu()
        machine.show()
        with engine_on(machine, tmp_path) as engine, stranger(f"exec 3<{file}; {SLEEP}") as pid:
            uid = next(uid for uid, device in look(engine).items() if device.family == "ascend")
            found = until(engine, lambda found: bool(found[uid].holders))
            assert [holder.pid for holder in found[uid].holders or ()] == [pid]


def test_a_stranger_that_takes_much_cpu_for_long_is_told_with_its_amount(tmp_path: Path) -> None:
    burn = "while :; do :; done"
    hogs = {"cpu": "10m", "looks": 2}  # on a busy machine it may not get much
    with stand_in() as machine, engine_on(machine, tmp_path, hogs=hogs) as engine:
        engine.start([sh("at_1", burn)])  # a member's own use is no hog
        with stranger(burn) as pid:
            found = until(engine, lambda found: pid in {h.pid for h in found["host-cpu"].holders or ()})
            shells = {h.pid: h.cpu for h in found["host-cpu"].holders or () if h.name == "sh"}
            assert list(shells) == [pid]
            assert (shells[pid] or 0) >= 10
        until(engine, lambda found: pid not in {h.pid for h in found["host-cpu"].holders or ()})


def test_a_tool_that_hangs_holds_up_neither_the_first_inventory_nor_other_families(tmp_path: Path) -> None:
    with stand_in(gpus=1, npus=1) as machine:
        machine.before("npu-smi", "sleep 600")
        with engine_on(machine, tmp_path, timeLimit="60s") as engine:
            began = time.monotonic()
            found = look(engine)
            assert time.monotonic() - began < 30
            assert found[machine.gpus[0].uuid].health is Health.HEALTHY
            assert [d.health for d in found.values() if d.family == "ascend"] == [Health.UNKNOWN]


def test_a_card_whose_tool_is_missing_is_shown(tmp_path: Path) -> None:
    with stand_in(gpus=1, npus=1) as machine:
        machine.remove_tool("npu-smi")
        with engine_on(machine, tmp_path) as engine:
            card = next(d for d in look(engine).values() if d.family == "ascend")
            assert (card.health, card.signs[0].code) == (Health.UNKNOWN, "tool-missing")


def test_a_cut_answer_makes_cards_unknown_and_never_missing_and_a_slow_tool_nothing(tmp_path: Path) -> None:
    with stand_in(gpus=2) as machine, engine_on(machine, tmp_path, timeLimit="60s") as engine:
        machine.before("nvidia-smi", "sleep 1")
        cards = {uid for uid, device in look(engine).items() if device.family == "nvidia"}
        until(engine, lambda found: all(found[uid].health is Health.HEALTHY for uid in cards))
        machine.before("nvidia-smi", "head -c 200 $here/query; exit 0")
        seen = set()

        def unknown(found: dict[str, FoundDevice]) -> bool:
            seen.update(found[uid].health for uid in cards)
            return all(found[uid].health is Health.UNKNOWN for uid in cards)

        found = until(engine, unknown)
        assert seen == {Health.HEALTHY, Health.UNKNOWN}
        assert {found[uid].signs[0].code for uid in cards} == {"tool-failed"}
        assert {found[uid].memory for uid in cards} == {81559}
