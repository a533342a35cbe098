"""A program that is started without a gate finds exactly what it finds behind one, whoever starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from steelyard.engines.local import cgroups

#: Prints what a program inherits, by programs that change nothing of it.
SHOW = r"""
pwd -P
grep -E "^(Sig[PBIC]|Shd|Cap|No|Seccomp|Groups|Uid|Gid|Umask|Cpus_allowed|Mems_allowed)" /proc/self/status
cd /proc/$$ && cat limits cgroup oom_score_adj personality timerslack_ns
cut -d " " -f 5-8,19 stat | sed "s/$$/ME/g"
readlink fd/0 fd/1 fd/2; echo fd/*; grep flags fdinfo/0 fdinfo/1 fdinfo/2; tr "\\0" "\\n" < environ
"""

#: Does what a shim does before it starts a program, then starts it in both ways.
SHIM = """
import encodings.ascii, json, os, resource, signal, sys
from steelyard.engines.local import cgroups, forked, launch, shim
folder, groups, user = sys.argv[1], tuple(json.loads(sys.argv[2])), int(sys.argv[3])
lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
os.chdir("/")
os.umask(0o077)
if user:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
signal.pthread_sigmask(signal.SIG_BLOCK, shim.WATCHED)
signal.signal(signal.SIGTERM, lambda *_: None)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
forked.become_subreaper()
before = open("/proc/self/oom_score_adj").read(), open("/proc/self/cgroup").read(), os.getcwd()
for way in ("gated", "plain"):
    log = os.open(f"{folder}/{way}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    command = ["/bin/sh", "-c", sys.argv[4]]
    program = launch.Program("/bin/sh", command, {"A": "b"}, folder + "/in", log, groups, None, (64, hard))
    if way == "plain":
        homes = cgroups.homes(groups)
        assert homes is not None
        gated = launch.spawn_plainly(program, homes)
    else:
        gated = launch.spawn(program)
        assert launch.open_gate(gated) is None
    assert os.waitpid(gated.pid, 0)[1] == 0, open(f"{folder}/{way}").read()
after = open("/proc/self/oom_score_adj").read(), open("/proc/self/cgroup").read(), os.getcwd()
assert before == after, (before, after)
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def both(folder: Path, groups: tuple[str, ...], user: int) -> tuple[list[str], list[str]]:
    """What the program found, behind a gate and without one."""
    (folder / "in").mkdir()
    for path in (folder, folder / "in"):
        os.chown(path, user or -1, -1)
    command = [sys.executable, "-c", SHIM, str(folder), json.dumps(groups), str(user), SHOW]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    gated, plain = ((folder / way).read_text().replace(f"/{way}", "/log") for way in ("gated", "plain"))
    return _as_if_forked(gated), _as_if_forked(plain)


def _as_if_forked(text: str) -> list[str]:
    """Without the two signals of the C library's own, which its posix_spawn leaves ignored."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("SigIgn:"))
    lines[at] = f"SigIgn:\t{int(lines[at].split()[1], 16) & ~(3 << 31):016x}"
    return lines


def test_what_a_program_inherits_is_the_same_without_a_gate(tmp_path: Path) -> None:
    name = f"steelyard-test-{os.getpid()}"
    hierarchy = cgroups.detect(name)
    groups = cgroups.make(hierarchy, "mb_1", 1000, 256)
    try:
        gated, plain = both(tmp_path, groups, 0)
        assert gated == plain
        assert {"SigBlk:\t" + "0" * 16, "SigIgn:\t" + "0" * 16, "Umask:\t0077", "A=b"} <= set(plain)
        assert sum(f"{name}/mb_1" in line for line in plain) == len(groups)
    finally:
        assert cgroups.remove(groups)
        cgroups.remove(tuple(base for _, base in hierarchy.bases))


def test_an_ordinary_user_starts_a_program_in_the_same_way(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can be another user")
    way = [tmp_path, *tmp_path.parents]
    for folder in way[: way.index(Path(tempfile.gettempdir()))]:
        folder.chmod(folder.stat().st_mode | 0o011)
    gated, plain = both(tmp_path, (), 4321)
    assert gated == plain
    assert "Uid:\t4321\t4321\t4321\t4321" in plain


#: Starts what can't be started, then a program, and says where it is itself.
FAILING = """
import json, os, resource, sys
from steelyard.engines.local import cgroups, launch
folder, groups = sys.argv[1], tuple(json.loads(sys.argv[2]))
log = os.open(folder + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
def here():
    return [open(f"/proc/self/{name}").read() for name in ("oom_score_adj", "cgroup")] + [os.getcwd()]
os.chdir("/")
before = here(), len(os.listdir("/proc/self/fd"))
busy = open(folder + "/busy", "r+b")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for path in ("/busy", "/text", "/none", "/in", "/program"):
    where = "/none" if path == "/program" else "/in"
    program = launch.Program(folder + path, ["x"], {}, folder + where, log, groups, None, (64, hard))
    try:
        launch.spawn_plainly(program, cgroups.homes(groups))
    except OSError as failed:
        print(failed.errno, str(failed).rpartition("(")[2].rstrip(")"))
busy.close()
assert before == (here(), len(os.listdir("/proc/self/fd")))
"""


def test_a_program_that_can_not_be_started_leaves_its_supervisor_where_it_was(tmp_path: Path) -> None:
    hierarchy = cgroups.detect(f"steelyard-test-{os.getpid()}")
    groups = cgroups.make(hierarchy, "mb_1", 1000, 256)
    (tmp_path / "in").mkdir()
    for name, content in (("busy", "#!/bin/sh\n"), ("text", "just text"), ("program", "#!/bin/sh\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    try:
        command = [sys.executable, "-c", FAILING, str(tmp_path), json.dumps(groups)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, timeout=60)
        assert done.stderr == ""
        said = [(26, "exec"), (8, "exec"), (2, "exec"), (13, "exec"), (2, "working directory")]
        assert done.stdout.splitlines() == [f"{number} {where}" for number, where in said]
    finally:
        assert cgroups.remove(groups)
        cgroups.remove(tuple(base for _, base in hierarchy.bases))
