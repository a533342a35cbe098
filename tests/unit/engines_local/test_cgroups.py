"""Control groups on imitated hierarchies: which is taken, and what is written for which limits."""

from __future__ import annotations

from pathlib import Path

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
    found = cgroups.detect("ours", str(tmp_path))
    assert found == Hierarchy("cgroup-v2", (("memory", f"{base}/ours"), ("cpu", f"{base}/ours")))
    assert (base / "cgroup.subtree_control").read_text() == "+memory +cpu"


def test_version_1_is_taken_in_a_hybrid_whose_version_2_has_no_controllers(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/a\n1:cpu,cpuacct:/\n0::/\n")
    write(tmp_path / "sys/fs/cgroup/memory/a/ours/cgroup.procs")
    write(tmp_path / "sys/fs/cgroup/cpu/ours/cgroup.procs")
    found = cgroups.detect("ours", str(tmp_path))
    assert found.mode == "cgroup-v1"
    assert [controller for controller, _ in found.bases] == ["memory", "cpu"]


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
    two = Hierarchy("cgroup-v2", (("memory", f"{tmp_path}/u"), ("cpu", f"{tmp_path}/u")))
    for name in ("u/mb_1/memory.max", "u/mb_1/cpu.max"):
        write(tmp_path / name)
    assert cgroups.make(two, "mb_1", 10, 64) == (f"{tmp_path}/u/mb_1",)
    assert (tmp_path / "u/mb_1/cpu.max").read_text() == "1000 100000"


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
