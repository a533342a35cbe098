"""What is read of processes: names with brackets, start times, marks, handlers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from steelyard.engines.local import procfs


def test_this_process_is_found_with_its_parent_and_start() -> None:
    me = procfs.read_process(os.getpid())
    assert me is not None
    assert (me.parent, me.session, me.alive) == (os.getppid(), os.getsid(0), True)
    assert procfs.is_alive(os.getpid(), me.start)
    assert not procfs.is_alive(os.getpid(), me.start + 1)
    assert me in [one._replace(cpu=me.cpu, pages=me.pages) for one in procfs.processes()]


def test_a_name_with_brackets_and_spaces_shifts_no_field(tmp_path: Path) -> None:
    program = tmp_path / "a ) b ("
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "30"]) as child:
        try:
            seen = procfs.read_process(child.pid)
            while seen is not None and seen.name != "a ) b (":  # until it has executed
                seen = procfs.read_process(child.pid)
            assert seen is not None
            assert seen.parent == os.getpid()
            # this process may have children of other tests: a database, a server
            assert child.pid in {one.pid for one in procfs.descendants(os.getpid(), procfs.processes())}
        finally:
            child.kill()


def test_a_process_that_is_only_waited_for_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    seen = procfs.read_process(pid)
    os.waitpid(pid, 0)
    assert seen is not None
    assert not seen.alive
    assert procfs.read_process(pid) is None


def test_marks_and_handlers_of_another_process_are_seen() -> None:
    code = "import signal as s,sys\ns.signal(s.SIGUSR1, print)\nprint('up', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={"MARK": "a=b"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        assert procfs.environment(child.pid)["MARK"] == "a=b"
        assert procfs.catches(child.pid, signal.SIGUSR1)
        assert not procfs.catches(child.pid, signal.SIGUSR2)
        assert child.stdin is not None
        child.stdin.close()
    assert procfs.environment(child.pid) == {}
    assert not procfs.catches(child.pid, signal.SIGUSR1)
