"""The end of a member: the note of it, what is left behind, and what is done where a shim died before it.

Standard library only: the runner imports this.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from steelyard.engines.local import cgroups, container, kerneltables, procfs
from steelyard.engines.local.environment import Failure
from steelyard.engines.local.files import (
    is_empty_folder,
    measure,
    note_plainly,
    read_json,
    remove_tree,
    write_once,
)
from steelyard.engines.local.leftovers import remove_memory
from steelyard.engines.local.paths import Layout

_MOST_PIDS = 4096
#: Processes of this shim's member that ended: what they left in shared memory is the member's.
_gone: set[int] = set()
#: Those that had to be ended by force.
_killed: set[int] = set()


def begin() -> None:
    """What is counted of a member begins: the process may have supervised another one before."""
    _gone.clear()
    _killed.clear()


def note_gone(pid: int) -> None:
    """A process of the member that was waited for, or ended by force."""
    if len(_gone) < _MOST_PIDS:
        _gone.add(pid)


def now() -> int:
    """µs UTC."""
    return time.time_ns() // 1000


def exit_note(
    failure: Failure | None, started: int | None, ended: int, code: int | None, *,
    stop_requested: bool = False, timed_out: bool = False,
) -> dict[str, Any]:
    """What exit.json holds. `code` as of `os.waitstatus_to_exitcode`; None: nobody saw a status."""
    return {
        "v": 1,
        "exit_code": code if code is not None and code >= 0 else None,
        "exit_signal": -code if code is not None and code < 0 else None,
        "started_at": started,
        "ended_at": ended,
        "stop_requested": stop_requested,
        "timed_out": timed_out,
        "failure": failure.code if failure else None,
        "failure_stage": failure.stage if failure else None,
        "failure_text": (failure.text or None) if failure else None,
    }


def insist(act: Callable[[], None], slow: Callable[[], None] = lambda: None) -> None:
    """Tries until the disk takes it: a status that is known must not be lost to a full disk. `slow` is called
    whenever it does not.

    A folder that somebody removed is another matter: there is nobody left who would read it.
    """
    while True:
        try:
            act()
        except FileNotFoundError:
            return
        except OSError:
            slow()
            time.sleep(1.0)
        else:
            return


def hint(layout: Layout, member: str) -> None:
    """Wakes the runner, if one listens. Losing it costs time, never truth."""
    try:
        fd = os.open(layout.hints, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with suppress(OSError):
        os.write(fd, member.encode("ascii") + b"\n")
    os.close(fd)


def kill(pid: int, number: int) -> None:
    """Signals a process; one that is gone, or not ours to signal, is passed over."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        if number == signal.SIGKILL and len(_killed) < _MOST_PIDS:
            _killed.add(pid)


def clear(
    layout: Layout, attempt: str, member: str, groups: tuple[str, ...], slow: Callable[[], None]
) -> None:
    """Ends what the program left behind, removes its temporary files, shared memory and groups, and notes how
    much that was. `slow` is called before what may take long.

    Returns only when no process is left; one that can't be ended keeps the shim, and so the lock, alive.
    What is mounted in the temporary folder stays, with the folder: what is in it may be somebody else's.
    """
    container.remove(layout, member)
    wait = 0.02
    while rest := leftovers(groups):
        slow()
        cgroups.kill(groups)
        for pid in rest:
            kill(pid, signal.SIGKILL)
            note_gone(pid)
        signal.sigtimedwait({signal.SIGCHLD}, wait)
        wait = min(wait * 2, 1.0)
    temporary = os.path.join(layout.member_work(attempt, member), "tmp")
    if os.path.lexists(temporary) and not is_empty_folder(temporary):
        slow()
    files, size = clear_temporary(temporary)
    run = read_json(layout.notes(member, "run.json")) or {}
    pids = sorted(_gone | {(run.get("child") or {}).get("pid") or 0} - {0})
    objects, memory = remove_memory(pids, (attempt, member), (run.get("started_at") or 0) // 1_000_000)
    while not cgroups.remove(groups) and wait < 1.0:
        time.sleep(wait)
        wait *= 2
    note = {"v": 1, "pids": pids, "processes": len(_killed), "files": files, "bytes": size,
            "shared-memory": objects, "shared-bytes": memory, "at": now()}  # fmt: skip
    insist(lambda: note_plainly(layout.notes(member, "swept"), note))


def clear_temporary(folder: str) -> tuple[int, int]:
    """Removes a temporary folder unless something is mounted in it; (files, bytes) that were removed. One
    that is empty stays: broom.py says what removing may cost."""
    if is_empty_folder(folder):
        with suppress(OSError):
            os.utime(os.path.dirname(folder), follow_symlinks=False)  # the age of what is kept begins here
        return 0, 0
    if not os.path.lexists(folder) or kerneltables.mounts_below(folder):
        return 0, 0
    counted = measure(folder)
    return counted if remove_tree(folder) else (0, 0)


def leftovers(groups: tuple[str, ...]) -> set[int]:
    """Processes that are still there: own descendants, or in the member's groups."""
    me = os.getpid()
    try:
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            note_gone(pid)
        everyone = procfs.processes()
        found = {process.pid for process in procfs.descendants(me, everyone)}
    except ChildProcessError:
        found = set()
    return (found | cgroups.members(groups)) - {me}


def sweep(
    layout: Layout, attempt: dict[str, Any], member: str, text: str, named: tuple[str, ...] = ()
) -> None:
    """In place of a shim that died: see the module's text. Runs in a process of its own, under the lock.
    `named`: the member's control groups, which may have been made before anything was noted."""
    run = read_json(layout.notes(member, "run.json")) or {}
    same_boot = run.get("boot") == procfs.boot_id()
    groups = tuple(dict.fromkeys((*(run.get("groups", ()) if same_boot else ()), *named)))
    while same_boot:
        found = marked(attempt, member, run.get("child")) | cgroups.members(groups)
        if not found - {os.getpid()}:
            break
        cgroups.kill(groups)
        for pid in found - {os.getpid()}:
            kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
    if read_json(layout.notes(member, "exit.json")) is None:
        started = run.get("started_at") if isinstance(run.get("started_at"), int) else None
        failure = Failure("infrastructure", "supervisor-lost", text)
        stopped = read_json(layout.notes(member, "stop.json")) is not None
        note = exit_note(failure, started, max(now(), started or 0), None, stop_requested=stopped)
        insist(lambda: write_once(layout.notes(member, "exit.json"), note))
    hint(layout, member)
    clear(layout, attempt["attempt"], member, groups, lambda: None)


def marked(attempt: dict[str, Any], member: str, child: dict[str, Any] | None) -> set[int]:
    """Living processes that are a member's for certain: by its mark, or the very child that was noted."""
    found = set()
    for process in procfs.processes():
        if not process.alive:
            continue
        if child is not None and process.pid == child.get("pid") and process.start == child.get("start"):
            found.add(process.pid)
            continue
        env = procfs.environment(process.pid)
        ours = (env.get("STEELYARD_INSTALL"), env.get("STEELYARD_ATTEMPT"), env.get("STEELYARD_MEMBER"))
        if ours == (attempt["install"], attempt["attempt"], member):
            found.add(process.pid)
    return found
