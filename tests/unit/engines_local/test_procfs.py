"""What is read of processes: names with brackets, start times, marks, handlers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def idle() -> int:
    """A child that waits to be ended."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_what_is_known_of_older_processes_is_what_a_plain_look_finds() -> None:
    """Whoever comes and goes between the looks, and however old those are that are read again."""
    chance, known, mine = random.Random(7), procfs.Known(), [idle() for _ in range(20)]
    try:
        for _ in range(12):
            for _ in range(chance.randrange(6)):
                end(mine.pop(chance.randrange(len(mine))))
            mine += [idle() for _ in range(chance.randrange(6))]
            starts = sorted(procfs.start_time(pid) or 0 for pid in mine)
            since = chance.choice([None, 0, starts[0], starts[len(starts) // 2], 1 << 62])
            found = {one.pid: one for one in known.processes(since)}
            plain = {one.pid: one for one in procfs.processes()}
            assert {pid for pid in mine if pid in found} == set(mine)
            for pid in found.keys() & plain.keys():  # other programs of the machine come and go, too
                if found[pid].start != plain[pid].start:
                    assert plain[pid].start >= plain[os.getpid()].start
            assert all(found[pid].start == plain[pid].start and found[pid].alive for pid in mine)
            children = {one.pid for one in found.values() if one.parent == os.getpid() and one.alive}
            assert set(mine) <= children
    finally:
        for pid in mine:
            end(pid)


def test_a_number_that_is_given_out_again_is_another_process() -> None:
    known, first = procfs.Known(), idle()
    before = {one.pid: one for one in known.processes(1 << 62)}[first]
    end(first)
    time.sleep(0.03)  # a start is told in hundredths of a second
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(first - 1))
    except OSError:
        pytest.skip("numbers of processes can't be chosen here")
    second = idle()
    try:
        if second != first:
            pytest.skip("somebody else was given the number")
        after = {one.pid: one for one in known.processes(1 << 62)}[second]
        assert after.start > before.start
    finally:
        end(second)
