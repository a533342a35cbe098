"""This machine as a node: limits of control groups bound what is offered, facts carry their source."""

from __future__ import annotations

from pathlib import Path

from steelyard.devices.host import HostFacts, host_node, read_host
from steelyard.model.resources import DeviceClass, Provenance


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_version_2_group_above_us_bounds_cpu_and_memory(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path / "sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    write(tmp_path / "sys/fs/cgroup/a/cpu.max", "50000 100000\n")
    write(tmp_path / "sys/fs/cgroup/a/b/memory.max", "104857600\n")
    facts = read_host(tmp_path)
    assert (facts.cpu, facts.cpu_source) == (500, "cgroup cpu quota")
    assert (facts.memory, facts.memory_source) == (100, "cgroup memory limit")


def test_a_version_1_group_without_limits_bounds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/\n")
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(tmp_path / "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n")
    facts = read_host(tmp_path)
    assert facts.cpu_source == "sched_getaffinity"
    assert facts.memory_source == "psutil.virtual_memory"


def test_what_is_reserved_is_not_offered_and_each_fact_says_how_it_is_known() -> None:
    facts = HostFacts(4000, "sched_getaffinity", "some cpu", 8192, "psutil.virtual_memory", "here")
    node = host_node(facts, 77, reserve_cpu=500, reserve_memory=512)
    by_class = {device.device_class: device for device in node.devices}
    assert by_class[DeviceClass.CPU].capacity == 3500
    assert by_class[DeviceClass.MEMORY].capacity == 7680
    total = by_class[DeviceClass.CPU].facts["total"]
    assert (total.value, total.provenance, total.at) == (4000, Provenance.DETECTED, 77)
    model = by_class[DeviceClass.MEMORY].facts["model"]
    assert (model.provenance, model.source) == (Provenance.DETECTED, "psutil.virtual_memory")
    assert by_class[DeviceClass.CPU].facts["reserved"].provenance is Provenance.DECLARED


def test_a_reserve_beyond_the_machine_leaves_nothing_rather_than_less() -> None:
    facts = HostFacts(1000, "x", "m", 256, "y", "here")
    assert [
        device.capacity for device in host_node(facts, 0, reserve_cpu=2000, reserve_memory=512).devices
    ] == [0, 0]


def test_this_machine_has_cpu_and_memory() -> None:
    node = host_node(read_host(), 1)
    assert all(device.capacity > 0 for device in node.devices)
