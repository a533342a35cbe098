"""From a tool's text to devices with names, for every family: each sample goes the whole way."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.devices.ask import Answer, Asker
from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.found import devices_of
from steelyard.devices.health import Rules
from steelyard.devices.probes import load_probes
from steelyard.devices.roster import Roster
from steelyard.devices.roster_json import read_roster, written
from steelyard.devices.scan import Scan
from steelyard.devices.settings import DeviceSettings
from steelyard.model.resources import FoundDevice, Provenance
from steelyard.model.units import MINUTE
from tests.support.device_samples import SAMPLES

#: family, tool, sample, devices, of them partitions
WAYS = [
    ("nvidia", "nvidia-smi", "nvidia-smi_query_ok.csv", 2, 0),
    ("nvidia", "nvidia-smi", "nvidia-smi_query_faulty_rows.csv", 3, 0),
    ("ascend", "npu-smi", "npu-smi_info_910b_ok.txt", 2, 0),
    ("ascend", "npu-smi", "npu-smi_info_910c_two_dies.txt", 4, 0),
    ("ascend", "npu-smi", "npu-smi_info_310_legacy_20.2.txt", 2, 0),
    ("amd", "amd-smi", "amd-smi_static_rocm7.json", 1, 0),
    ("amd", "amd-smi", "amd-smi_static_rocm6.json", 2, 0),
    ("amd", "rocm-smi", "rocm-smi_json_ok.json", 1, 0),
    ("hygon-dcu", "hy-smi", "hy-smi_json_dcu_ok.json", 1, 0),
    ("hygon-dcu", "hy-smi", "hy-smi_json_hcu_renamed.json", 2, 0),
    ("cambricon-mlu", "cnmon", "cnmon_table_5x_ok.txt", 2, 0),
    ("metax", "mx-smi", "mx-smi_table_2.1_ok.txt", 2, 0),
    ("moorethreads", "mthreads-gmi", "mthreads-gmi_q_json_ok.json", 1, 0),
    ("moorethreads", "mthreads-gmi", "mthreads-gmi_table_ok.txt", 2, 0),
    ("iluvatar", "ixsmi", "ixsmi_query_ok.csv", 2, 0),
    ("kunlunxin", "xpu-smi", "xpu-smi_kunlunxin_q_ok.txt", 1, 0),
    ("enflame", "efsmi", "efsmi_q_new_ok.txt", 1, 0),
    ("biren", "brsmi", "brsmi_query.csv", 2, 0),
    ("intel-gpu", "xpu-smi", "xpu-smi_intel_v1_dump.csv", 2, 0),
    ("intel-gaudi", "hl-smi", "hl-smi_query_ok.csv", 2, 0),
    ("aws-neuron", "neuron-ls", "neuron-ls_json_ok.json", 2, 0),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="steelyard-way-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def ask(folder: Path, family: str, tool: str, sample: str) -> Answer:
    shutil.copy(SAMPLES / sample, folder / "sample")
    script = folder / tool
    script.write_text('#!/bin/sh\ncat "${0%/*}/sample"\n')
    script.chmod(0o755)
    settings = DeviceSettings(tools=(str(folder),), simulated=True, time_limit=MINUTE)
    return Asker(load_probes()[family], settings, threading.Event()).ask(lambda: 7)


def devices(roster: Roster) -> tuple[FoundDevice, ...]:
    return devices_of(roster.known.values(), {}, load_catalogue(), Provenance.SIMULATED, 7)


@pytest.mark.parametrize(("family", "tool", "sample", "count", "parts"), WAYS)
def test_a_sample_becomes_devices_that_keep_their_names(
    folder: Path, family: str, tool: str, sample: str, count: int, parts: int
) -> None:
    answer = ask(folder, family, tool, sample)
    assert answer.sign is None, answer.sign
    roster = Roster(Rules())
    nothing = Scan((), (), False)
    roster.update(nothing, {family: answer}, 7)
    found = devices(roster)
    assert len(found) == len({device.uid for device in found}) == count
    assert sum(device.parent_uid is not None for device in found) == parts
    assert {device.family for device in found} == {family}
    again = read_roster(json.loads(json.dumps(written(roster))), Rules())
    again.update(nothing, {family: answer}, 8)
    assert [(d.uid, d.model, d.memory) for d in devices(again)] == [(d.uid, d.model, d.memory) for d in found]
