"""Families are asked side by side: one that hangs keeps nobody waiting."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.kernel_log import KernelLog
from steelyard.devices.prober import Look, Prober
from steelyard.devices.settings import DeviceSettings
from steelyard.model.health import SignCode
from steelyard.model.units import SECOND
from tests.support.pci_tree import add_card

GENEROUS = 60.0


class Bench:
    """Stand-in tools, an imitated machine and a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tools, self.system = path / "tools", path / "system"
        self.tools.mkdir(mode=0o755)
        self.system.mkdir()
        self.clock = 0.0
        self.prober = self.make()

    def make(self, **said: Any) -> Prober:
        values = {"tools": (str(self.tools),), "system": str(self.system), "simulated": True,
                  "time_limit": 60 * SECOND, **said}  # fmt: skip
        return Prober(DeviceSettings(**values), load_catalogue(), lambda: 7, lambda: self.clock)

    def write(self, name: str, script: str) -> None:
        tool = self.tools / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def calls(self) -> int:
        log = self.path / "calls"
        return len(log.read_text()) if log.exists() else 0

    def until(self, done: Callable[[Look], bool]) -> Look:
        deadline = time.monotonic() + GENEROUS
        while not done(found := self.prober.look()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found


@pytest.fixture
def bench() -> Iterator[Bench]:
    path = Path(tempfile.mkdtemp(prefix="steelyard-bench-"))
    path.chmod(0o755)
    made = Bench(path)
    yield made
    made.prober.close()
    shutil.rmtree(path)


def test_a_tool_that_hangs_keeps_no_other_family_waiting(bench: Bench) -> None:
    bench.write("npu-smi", "sleep 600")
    bench.write("nvidia-smi", "echo 'No devices were found'")
    found = bench.until(lambda look: "nvidia" in look.answers)
    assert "ascend" not in found.answers


def test_the_first_look_waits_for_answers_as_long_as_it_is_told_to(bench: Bench) -> None:
    bench.write("nvidia-smi", "echo 'No devices were found'")
    found = bench.prober.look(wait=GENEROUS)
    assert found.answers["nvidia"].listed


def test_a_family_is_asked_no_more_often_than_is_declared(bench: Bench) -> None:
    bench.write("nvidia-smi", f"echo x >> {bench.path}/calls.$$; echo 'No devices were found'")
    first = bench.prober.look(wait=GENEROUS).answers["nvidia"]
    for _ in range(5):
        bench.prober.look()
    assert bench.prober.look().answers["nvidia"].number == first.number == 0
    bench.clock += 15.0
    assert bench.until(lambda look: look.answers["nvidia"].number == 1)


def test_a_family_on_the_bus_whose_tool_is_missing_has_an_answer_that_says_so(bench: Bench) -> None:
    add_card(bench.system, "0000:3b:00.0", "0x19e5", "0x120000")
    answer = bench.prober.look(wait=GENEROUS).answers["ascend"]
    assert answer.sign is not None
    assert answer.sign.code is SignCode.TOOL_MISSING


def test_a_machine_without_any_accelerator_is_asked_nothing(bench: Bench) -> None:
    assert bench.prober.look(wait=GENEROUS).answers == {}


def test_a_tool_that_is_installed_later_is_found(bench: Bench) -> None:
    assert bench.prober.look(wait=GENEROUS).answers == {}
    bench.write("nvidia-smi", "echo 'No devices were found'")
    bench.clock += 15.0
    assert bench.until(lambda look: "nvidia" in look.answers)


def test_a_family_that_was_found_before_is_asked_though_nothing_shows_it_now(bench: Bench) -> None:
    assert "ascend" in bench.prober.look(["ascend"], wait=GENEROUS).answers


def test_a_family_that_is_being_asked_for_too_long_has_not_answered(bench: Bench) -> None:
    bench.write("nvidia-smi", "sleep 600")
    assert bench.prober.look().answers == {}
    bench.clock += 194.0
    assert bench.prober.look().answers == {}
    bench.clock += 1.0  # a round and three calls of a minute
    late = bench.prober.look().answers["nvidia"]
    assert late.sign is not None
    assert (late.number, late.sign.code) == (0, SignCode.TOOL_TIMEOUT)
    assert bench.prober.look().answers["nvidia"].number == 0
    bench.clock += 15.0
    assert bench.prober.look().answers["nvidia"].number == 1


def test_closing_ends_a_tool_that_runs(bench: Bench) -> None:
    bench.write("nvidia-smi", "sleep 600")
    bench.prober.look()
    began = time.monotonic()
    bench.prober.close()
    assert time.monotonic() - began < 30
    assert bench.prober.look().answers["nvidia"].listed is False


# ---- the kernel's log --------------------------------------------------------------------------------


def line(text: str, at: float) -> str:
    return f"6,77,{int(at * 1_000_000)},-;{text}\n SUBSYSTEM=pci\n"


def test_lines_of_the_kernels_log_are_read_once_with_their_time(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    up = time.clock_gettime(time.CLOCK_MONOTONIC)
    log.write_text(line("NVRM: Xid (PCI:0000:44:00): 48, pid=1, name=x", up - 60) + line("usb 1-1: new", up))
    reader = KernelLog(str(log))
    now = time.time_ns() // 1000
    events = reader.read(now)
    assert [(event.reading.pci, event.reading.signs[0].code) for event in events] == [
        ("0000:44:00.0", SignCode.XID)
    ]
    assert abs(now - 60 * SECOND - events[0].at) < SECOND
    assert reader.read(now) == []
    with log.open("a") as more:
        more.write(line("NVRM: Xid (PCI:0000:45:00): 79, pid=1, GPU has fallen off the bus.", up))
    assert [event.reading.signs[0].code for event in reader.read(now)] == [SignCode.FELL_OFF_BUS]
    reader.close()


def test_a_log_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert KernelLog(str(tmp_path / "none")).read(0) == []


def test_this_machines_own_log_can_be_read_or_not_without_harm() -> None:
    reader = KernelLog("/dev/kmsg")
    assert isinstance(reader.read(time.time_ns() // 1000), list)
    reader.close()
