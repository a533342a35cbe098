"""Control groups on imitated hierarchies: which is taken, and what is written for which limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.engines.local import cgroups
from steelyard.engines.local.cgroups import Hierarchy


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_2_is_taken_where_it_is_delegated(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/svc\n")
    base = tmp_path / "sys/fs/cgroup/svc"
    write(base / "cgroup.controllers", "cpu memory pids\n")
    write(base / "cgroup.subtree_control")
    write(base / "ours/cgroup.subtree_control")
    write(base / "ours/cpu.weight", "100")
    found = cgroups.detect("ours", str(tmp_path))
    ours = f"{base}/ours"
    assert found == Hierarchy("cgroup-v2", (("memory", ours), ("cpu", ours), ("pids", ours)))
    assert (base / "ours/cpu.weight").read_text() == str(min(10_000, 400 * (os.cpu_count() or 1)))
    assert (base / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    assert (base / "ours/cgroup.subtree_control").read_text() == "+memory +cpu +pids"


def test_version_1_is_taken_in_a_hybrid_whose_version_2_has_no_controllers(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/a\n1:cpu,cpuacct:/\n0::/\n")
    write(tmp_path / "sys/fs/cgroup/memory/a/ours/cgroup.procs")
    write(tmp_path / "sys/fs/cgroup/cpu/ours/cgroup.procs")
    shares = tmp_path / "sys/fs/cgroup/cpu/ours/cpu.shares"
    write(shares, "1024")
    found = cgroups.detect("ours", str(tmp_path))
    assert found.mode == "cgroup-v1"
    assert shares.read_text() == str(min(262_144, 4096 * (os.cpu_count() or 1)))
    assert [controller for controller, _ in found.bases] == ["memory", "cpu"]


def test_a_version_1_with_a_controller_of_processes_bounds_them(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/\n1:cpu,cpuacct:/\n7:pids:/x\n0::/\n")
    for place in ("memory", "cpu", "pids/x"):
        write(tmp_path / f"sys/fs/cgroup/{place}/ours/cgroup.procs")
    found = cgroups.detect("ours", str(tmp_path))
    assert [controller for controller, _ in found.bases] == ["memory", "cpu", "pids"]


class Kernel:
    """Plays the kernel of a version 2 tree: a group with processes can't be split, a process is in one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, delegated: bool) -> None:
        self.folder = folder
        self._write = cgroups._write
        monkeypatch.setattr(cgroups, "_write", self.write)
        monkeypatch.setattr(os, "getxattr", lambda *_: b"1" if delegated else b"0")

    def write(self, path: str, text: str) -> None:
        here = Path(path)
        procs = self.folder / "cgroup.procs"
        if here == self.folder / "cgroup.subtree_control" and procs.read_text().split():
            raise OSError(16, "busy")
        if here.name == "cgroup.procs":
            procs.write_text("\n".join(pid for pid in procs.read_text().split() if pid != text))
            here.parent.mkdir(exist_ok=True)
            here.touch()
            text = here.read_text() + text + "\n"
        if here.name == "cgroup.subtree_control":
            here.parent.mkdir(exist_ok=True)
            here.touch()
        self._write(path, text)


@pytest.mark.parametrize("delegated", [True, False])
def test_a_group_with_processes_is_split_only_where_it_was_delegated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delegated: bool
) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/steelyard.service\n")
    base = tmp_path / "sys/fs/cgroup/steelyard.service"
    write(base / "cgroup.controllers", "cpu memory pids\n")
    write(base / "cgroup.procs", "11\n12\n")
    Kernel(monkeypatch, base, delegated)
    found = cgroups.detect("ours", str(tmp_path))
    assert found.mode == ("cgroup-v2" if delegated else "rlimit")
    assert (base / "cgroup.procs").read_text().split() == ([] if delegated else ["11", "12"])
    if delegated:
        assert (base / "steelyard-server/cgroup.procs").read_text().split() == ["11", "12"]


def test_a_group_of_version_2_is_ended_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "a/cgroup.kill")
    assert cgroups.kill((f"{tmp_path}/a", f"{tmp_path}/a"))
    assert (tmp_path / "a/cgroup.kill").read_text() == "1"
    assert not cgroups.kill((f"{tmp_path}/none",))


def test_without_any_there_are_rlimits(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    assert cgroups.detect("ours", str(tmp_path)) == cgroups.NONE


def test_limits_are_written_in_the_kernels_units(tmp_path: Path) -> None:
    one = Hierarchy("cgroup-v1", (("memory", f"{tmp_path}/m"), ("cpu", f"{tmp_path}/c")))
    for name in ("m/mb_1/memory.limit_in_bytes", "c/mb_1/cpu.cfs_period_us", "c/mb_1/cpu.cfs_quota_us"):
        write(tmp_path / name)
    assert cgroups.make(one, "mb_1", 1500, 256) == (f"{tmp_path}/m/mb_1", f"{tmp_path}/c/mb_1")
    assert (tmp_path / "m/mb_1/memory.limit_in_bytes").read_text() == str(256 << 20)
    assert (tmp_path / "c/mb_1/cpu.cfs_quota_us").read_text() == "150000"
    two = Hierarchy("cgroup-v2", tuple((one, f"{tmp_path}/u") for one in ("memory", "cpu", "pids")))
    for name in ("u/mb_1/memory.max", "u/mb_1/cpu.max", "u/mb_1/pids.max"):
        write(tmp_path / name)
    assert cgroups.make(two, "mb_1", 10, 64) == (f"{tmp_path}/u/mb_1",)
    assert (tmp_path / "u/mb_1/cpu.max").read_text() == "1000 100000"
    assert (tmp_path / "u/mb_1/memory.max").read_text() == str(64 << 20)
    assert (tmp_path / "u/mb_1/pids.max").read_text() == "5120"


def test_what_is_too_small_for_the_kernel_is_charged_and_not_limited(tmp_path: Path) -> None:
    one = Hierarchy("cgroup-v1", (("memory", f"{tmp_path}/m"), ("cpu", f"{tmp_path}/c")))
    cgroups.make(one, "mb_1", 1, 8)
    assert list((tmp_path / "m/mb_1").iterdir()) == list((tmp_path / "c/mb_1").iterdir()) == []


def test_kills_for_want_of_memory_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    write(tmp_path / "b/memory.events", "oom 3\noom_kill 1\n")
    assert cgroups.oom_kills((f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/none")) == 3


def test_a_group_that_is_gone_counts_as_removed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b/inner").mkdir(parents=True)
    assert cgroups.remove((f"{tmp_path}/a", f"{tmp_path}/never"))
    assert not cgroups.remove((f"{tmp_path}/b",))


def test_a_process_that_could_not_come_back_to_its_group_is_in_none_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []

    def busy(path: str, text: str) -> None:
        asked.append((path, text))
        raise OSError(16, "it has groups of its own")

    monkeypatch.setattr(cgroups, "_own", lambda: {"v2": "/svc-that-is-split"})
    monkeypatch.setattr(cgroups, "_write", busy)
    member = ("/sys/fs/cgroup/svc-that-is-split/ours/mb_1",)
    assert cgroups.homes(member) is None
    assert asked == [("/sys/fs/cgroup/svc-that-is-split/cgroup.procs", "0")]
