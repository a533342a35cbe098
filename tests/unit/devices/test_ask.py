"""A family's tool is asked, and its questions make one answer."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.devices.ask import Answer, Asker, merged
from steelyard.devices.probes import load_probes
from steelyard.devices.reading import Reading, incomplete
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.tool import Outcome
from steelyard.model.health import DeviceHolder, SignCode
from steelyard.model.units import SECOND
from tests.support.device_samples import SAMPLES

HEADER = (
    "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], utilization.gpu [%], "
    "temperature.gpu, power.draw [W], power.limit [W], driver_version, mig.mode.current, "
    "ecc.errors.uncorrected.volatile.total"
)
APPS = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
UUID = "GPU-00000000-aaaa-4bbb-8ccc-00000000000{}"


def row(number: int, mig: str = "Disabled") -> str:
    return (
        f"{number}, {UUID.format(number)}, NVIDIA H100 80GB HBM3, 00000000:0{number}:00.0, 81559 MiB, 1 MiB, "
        f"0 %, 40, 69.88 W, 700.00 W, 575.57.08, {mig}, 0"
    )


class Folder:
    """A folder of stand-in tools."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.limit = 60

    def write(self, name: str, script: str) -> None:
        tool = self.path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def nvidia(self, query: str, apps: str = "", listed: str = "exit 9") -> None:
        apps = apps or "exit 6"
        cases = f"--query-gpu*) {query};; --query-compute*) {apps};; -L) {listed};;"
        self.write("nvidia-smi", f'case "$1" in {cases} esac')

    def ask(self, family: str = "nvidia") -> Answer:
        settings = DeviceSettings(tools=(str(self.path),), simulated=True, time_limit=self.limit * SECOND)
        return Asker(load_probes()[family], settings, threading.Event()).ask(lambda: 7)


@pytest.fixture
def tools() -> Iterator[Folder]:
    path = Path(tempfile.mkdtemp(prefix="steelyard-tools-"))
    path.chmod(0o755)
    yield Folder(path)
    shutil.rmtree(path)


def echo(*lines: str) -> str:
    return "; ".join(f"echo '{line}'" for line in lines)


def test_a_listing_is_whole_when_every_row_of_it_is(tools: Folder) -> None:
    tools.nvidia(echo(HEADER, row(0), row(1)))
    found = tools.ask()
    assert (found.listed, found.whole, found.parts, found.sign) == (True, True, True, None)
    assert found.tool == "nvidia-smi"
    assert [reading.uuid for reading in found.readings] == [UUID.format(0), UUID.format(1)]


def test_a_row_of_nobody_leaves_the_listing_open(tools: Folder) -> None:
    tools.nvidia(echo(HEADER, row(0), "1, GP"))
    found = tools.ask()
    assert (found.listed, found.whole, len(found.readings)) == (True, False, 1)


def test_a_tool_that_is_not_there_says_so(tools: Folder) -> None:
    found = tools.ask()
    assert found.sign is not None
    assert (found.listed, found.sign.code) == (False, SignCode.TOOL_MISSING)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("sleep 60", SignCode.TOOL_TIMEOUT),
        ("echo 'Failed to initialize NVML: Driver Not Loaded'; exit 9", SignCode.DRIVER_MISSING),
        ("echo 'libx.so: cannot open shared object file' >&2; exit 127", SignCode.LIBRARY_MISSING),
        ("echo 'Permission denied' >&2; exit 1", SignCode.PERMISSION_DENIED),
        ("echo rubbish", SignCode.TOOL_FAILED),
        ("exit 3", SignCode.TOOL_FAILED),
    ],
)
def test_why_nothing_was_listed_is_told(tools: Folder, script: str, code: SignCode) -> None:
    tools.write("nvidia-smi", script)
    tools.limit = 1 if "sleep" in script else 60
    found = tools.ask()
    assert found.sign is not None
    assert (found.readings, found.whole, found.sign.code) == ((), False, code)


def test_a_tool_of_another_vendor_with_the_same_name_lists_nothing(tools: Folder) -> None:
    header = "Device ID,Device Name,UUID,Driver Version,PCI BDF Address,Memory Physical Size"
    uuid = "00000000-0000-4d00-0000-000856c08086"
    of_it = f'0,"Intel(R) Graphics [0x56c0]","{uuid}","I915_23.6.24","0000:4d:00.0","14248.00 MiB"'
    tools.write("xpu-smi", echo(header, of_it))
    foreign, own = tools.ask("kunlunxin"), tools.ask("intel-gpu")
    assert foreign.sign is not None
    assert (foreign.readings, foreign.sign.code) == ((), SignCode.TOOL_FOREIGN)
    assert [reading.pci for reading in own.readings] == ["0000:4d:00.0"]


def test_processes_are_joined_to_their_cards(tools: Folder) -> None:
    rows = (APPS, f"{UUID.format(1)}, 4242, python a, b, 300 MiB", f"{UUID.format(1)}, 4243, x, [N/A]")
    tools.nvidia(echo(HEADER, row(0), row(1)), echo(*rows))
    assert [reading.holders for reading in tools.ask().readings] == [
        (), (DeviceHolder(4242, "python a, b", 300), DeviceHolder(4243, "x", None)),
    ]  # fmt: skip


def test_no_process_is_an_answer_and_a_failed_question_is_none(tools: Folder) -> None:
    tools.nvidia(echo(HEADER, row(0)), echo(APPS))
    assert tools.ask().readings[0].holders == ()
    tools.nvidia(echo(HEADER, row(0)), "exit 1")
    assert tools.ask().readings[0].holders is None


@pytest.mark.parametrize("cut", ["GPU-0, 42, x", f"{UUID.format(0)}, 42", f"{UUID.format(0)}, 4x, y, 3 MiB"])
def test_who_is_on_a_card_is_not_known_where_a_row_is_not_whole(tools: Folder, cut: str) -> None:
    tools.nvidia(echo(HEADER, row(0)), echo(APPS, cut))
    assert tools.ask().readings[0].holders is None


def test_partitions_are_asked_for_only_where_a_card_is_split(tools: Folder) -> None:
    listed = echo(
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID.format(0)})",
        "  MIG 1g.10gb     Device  0: (UUID: MIG-66666666-aaaa-5bbb-8ccc-000000000000)",
    )
    tools.nvidia(echo(HEADER, row(0, "Enabled")), listed=listed)
    told = [(one.parent, one.partition) for one in tools.ask().readings]
    assert told == [(None, None), (UUID.format(0), "1g.10gb")]
    tools.nvidia(echo(HEADER, row(0, "Enabled")))
    assert (tools.ask().whole, tools.ask().parts) == (True, False)


def test_the_second_tool_is_asked_where_the_first_is_not_there(tools: Folder) -> None:
    tools.write("rocm-smi", "echo '{\"card0\": {}}'")
    assert tools.ask("amd").tool == "rocm-smi"


def test_a_figure_is_filled_in_but_never_into_an_incomplete_row() -> None:
    whole = Reading("nvidia", "a", "x", True, "", index=0, uuid=UUID.format(0))
    more = Reading("nvidia", "a", "y", True, "", index=0, uuid=UUID.format(0), temperature=40)
    assert merged([whole], [more])[0].temperature == 40
    assert merged([incomplete(whole)], [more])[0].temperature is None


def test_the_chips_of_ascend_cards_get_their_logic_ids_by_card_and_chip(tools: Folder) -> None:
    for name in ("npu-smi_info_910b_ok.txt", "npu-smi_info_m_ok.txt"):
        shutil.copy(SAMPLES / name, tools.path / name)
    listed, mapped = (f"cat {tools.path}/npu-smi_info_{name}_ok.txt" for name in ("910b", "m"))
    tools.write("npu-smi", f"if [ $# = 1 ]; then {listed}; else {mapped}; fi")
    found = tools.ask("ascend")
    told = [(one.pci, one.in_container) for one in found.readings]
    assert told == [("0000:c1:00.0", 0), ("0000:c2:00.0", 1)]
    assert not found.whole  # the map tells of two more


def test_a_tool_that_could_not_be_ended_is_not_started_anew_while_it_lives(tools: Folder) -> None:
    tools.nvidia(echo(HEADER, row(0)))
    settings = DeviceSettings(tools=(str(tools.path),), simulated=True, time_limit=60 * SECOND)
    asker = Asker(load_probes()["nvidia"], settings, threading.Event())
    with subprocess.Popen(["sleep", "600"]) as stuck:
        asker._hanging = Outcome("", left=stuck)
        waiting = asker.ask(lambda: 7)
        stuck.kill()
    assert waiting.sign is not None
    assert (waiting.listed, waiting.sign.code) == (False, SignCode.TOOL_TIMEOUT)
    assert asker.ask(lambda: 8).listed
