"""A local engine of a test's own, in a folder of its own, and starts to give it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steelyard.engines.local import procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import NONE, Wish
from steelyard.engines.port import AttemptStart, MemberObservation, MemberPhase, MemberStart

#: Tests that run at the same time look for the marks of their own processes only.
INSTALL = f"in_{os.getpid()}"


def now() -> int:
    """µs UTC."""
    return time.time_ns() // 1000


def make_local_engine(tmp_path: Path, *, install_id: str = INSTALL, **options: Any) -> LocalEngine:
    """An engine on `tmp_path/data`, which isolates nothing if it is not asked to. Its runner ends by itself
    soon after it is of no use any more."""
    options.setdefault("runner_idle_seconds", 2.0)
    options.setdefault("isolation", Wish(NONE))  # programs of tests often write outside of their folder
    return LocalEngine("here", tmp_path / "data", install_id, now=now, **options)


def member(name: str, command: tuple[str, ...], **fields: Any) -> MemberStart:
    """A member that runs a command; one milli-core and 8 MiB if nothing else is said."""
    values: dict[str, Any] = {"role": "main", "index": 0, "node": "here", "env": (), "devices": (), "cpu": 1}
    values |= {"memory": 8, **fields}
    return MemberStart(member_id=name, command=command, **values)


def attempt(name: str, *members: MemberStart, **fields: Any) -> AttemptStart:
    """An attempt of these members."""
    values: dict[str, Any] = {
        "workload_id": "wl_" + name[3:], "name": name, "number": 1, "namespace": "ns", "project": "pr",
        "install_id": INSTALL, "time_limit": None, "grace": 2_000_000,
    }
    return AttemptStart(attempt_id=name, members=members, **{**values, **fields})


def sh(name: str, script: str, **fields: Any) -> AttemptStart:
    """An attempt of one member that runs a shell script; its member is named after it."""
    inner = {key: fields.pop(key) for key in list(fields) if key in MemberStart.__dataclass_fields__}
    inner.pop("grace", None)
    return attempt(name, member("mb_" + name[3:], ("/bin/sh", "-c", script), **inner), **fields)


def wait_for(
    engine: LocalEngine, member_id: str, until: Callable[[MemberObservation], bool], seconds: float = 15.0
) -> MemberObservation:
    """The first observation of a member that `until` accepts. Fails the test when none comes."""
    deadline = time.monotonic() + seconds
    seen = None
    while time.monotonic() < deadline:
        seen = {one.member_id: one for one in engine.observe(None).members}.get(member_id)
        if seen is not None and until(seen):
            return seen
        time.sleep(0.01)
    raise AssertionError(f"{member_id}: still {seen}")


def wait_ended(engine: LocalEngine, member_id: str, seconds: float = 15.0) -> MemberObservation:
    """The observation of a member's end."""
    return wait_for(engine, member_id, lambda seen: seen.phase is MemberPhase.ENDED, seconds)


def wait_free(engine: LocalEngine, attempt_id: str, seconds: float = 10.0) -> None:
    """Returns when the live probe finds nothing left. Fails the test when something stays."""
    deadline = time.monotonic() + seconds
    while not (seen := engine.probe_release([attempt_id])[0]).free:
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)


def end_everything(engine: LocalEngine) -> None:
    """Ends all that still runs, and the runner. Fails the test when something can't be ended."""
    deadline = time.monotonic() + 30
    while live := [one for one in engine.observe(None).members if one.phase is not MemberPhase.ENDED]:
        engine.stop([one.attempt_id for one in live], 0)
        assert time.monotonic() < deadline, live
        time.sleep(0.05)
    while not engine.retire():
        assert time.monotonic() < deadline, "the runner stays"
        time.sleep(0.02)
    engine.close()


def runner_pid(tmp_path: Path) -> int:
    """The process of the runner that serves `tmp_path/data`, or served it last."""
    return int((tmp_path / "data" / "runner.lock").read_text())


def kill_runner(tmp_path: Path) -> None:
    """Kill -9, and wait until it is gone."""
    pid = runner_pid(tmp_path)
    start = procfs.start_time(pid)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while start is not None and procfs.is_alive(pid, start):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def notes(tmp_path: Path, member_id: str, name: str) -> dict[str, Any]:
    """A note of a member, as it is on disk."""
    found: dict[str, Any] = json.loads((tmp_path / "data/local/members" / member_id / name).read_text())
    return found
