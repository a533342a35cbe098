"""This machine's CPU and memory as devices: what affinity, cpuset and control groups really allow.

Inside a container the machine's own counts are wrong; the quota and the cpuset bound what can be used.
Times are passed in. Format of the control group files: the kernel's cgroup-v1 and cgroup-v2 documents.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from steelyard.model.resources import DeviceClass, Fact, FoundDevice, FoundNode, Provenance

_MIB = 1024 * 1024
_NO_LIMIT_V1 = 1 << 60
CPU_UID = "host-cpu"
MEMORY_UID = "host-memory"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What was read, and from where."""

    cpu: int  # milli-cores
    cpu_source: str
    cpu_model: str
    memory: int  # MiB
    memory_source: str
    name: str


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def group_folders(controller: str, root: Path = Path("/")) -> list[tuple[int, Path]]:
    """(version, folder) of this process's control group for a controller, then of each of its parents."""
    found = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0":
            base, version = root / "sys/fs/cgroup", 2
        elif controller in names.split(","):
            base, version = root / "sys/fs/cgroup" / controller, 1
        else:
            continue
        own = base / path.strip("/")
        chain = [own, *own.parents]
        found += [(version, folder) for folder in chain if folder == base or base in folder.parents]
    return found


def _cpu_quota(root: Path) -> int | None:
    """The smallest CPU quota on the way up, in milli-cores; None where there is none."""
    quotas = []
    for version, folder in group_folders("cpu", root):
        if version == 2:
            quota, _, period = (_read(folder / "cpu.max") or "max").partition(" ")
        else:
            quota = _read(folder / "cpu.cfs_quota_us") or "-1"
            period = _read(folder / "cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) * 1000 // int(period))
    return min(quotas, default=None)


def _memory_limit(root: Path) -> int | None:
    """The smallest memory limit on the way up, in MiB; None where there is none."""
    limits = []
    for version, folder in group_folders("memory", root):
        text = _read(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")) or ""
        if text.isdigit() and int(text) < _NO_LIMIT_V1:
            limits.append(int(text) // _MIB)
    return min(limits, default=None)


def _cpu_model(root: Path) -> str:
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model Name", "Hardware", "cpu model"):
            return value.strip()[:120]
    return os.uname().machine


def read_host(root: Path = Path("/")) -> HostFacts:
    """Looks at the machine. `root` is another folder in tests."""
    cpu, cpu_source = len(os.sched_getaffinity(0)) * 1000, "sched_getaffinity"
    quota = _cpu_quota(root)
    if quota is not None and quota < cpu:
        cpu, cpu_source = quota, "cgroup cpu quota"
    memory, memory_source = psutil.virtual_memory().total // _MIB, "psutil.virtual_memory"
    limit = _memory_limit(root)
    if limit is not None and limit < memory:
        memory, memory_source = limit, "cgroup memory limit"
    return HostFacts(cpu, cpu_source, _cpu_model(root), memory, memory_source, os.uname().nodename)


def host_node(
    facts: HostFacts, now: int, *, reserve_cpu: int = 0, reserve_memory: int = 0, name: str | None = None
) -> FoundNode:
    """The machine as a node. What is reserved for the control plane (milli-cores, MiB) is not offered."""

    def fact(value: str | int, source: str, provenance: Provenance = Provenance.DETECTED) -> Fact:
        return Fact(value, provenance, source, now)

    cpu = FoundDevice(
        uid=CPU_UID,
        device_class=DeviceClass.CPU,
        capacity=max(0, facts.cpu - reserve_cpu),
        family="cpu",
        model=facts.cpu_model,
        facts={
            "total": fact(facts.cpu, facts.cpu_source),
            "model": fact(facts.cpu_model, "/proc/cpuinfo"),
            "reserved": fact(reserve_cpu, "cluster document", Provenance.DECLARED),
        },
    )
    memory = FoundDevice(
        uid=MEMORY_UID,
        device_class=DeviceClass.MEMORY,
        capacity=max(0, facts.memory - reserve_memory),
        family="memory",
        model="host memory",
        facts={
            "total": fact(facts.memory, facts.memory_source),
            "model": fact("host memory", facts.memory_source),
            "reserved": fact(reserve_memory, "cluster document", Provenance.DECLARED),
        },
    )
    label = {"kubernetes.io/arch": os.uname().machine, "kubernetes.io/os": "linux"}
    return FoundNode(
        name=name or facts.name,
        labels=label,
        devices=(cpu, memory),
        facts={"hostname": fact(facts.name, "uname"), "kernel": fact(os.uname().release, "uname")},
    )
