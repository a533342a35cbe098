"""A local engine of a test's own, in a folder of its own, and starts to give it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import AttemptStart, MemberObservation, MemberPhase, MemberStart

INSTALL = "in_test"


def now() -> int:
    """µs UTC."""
    return time.time_ns() // 1000


def make_local_engine(tmp_path: Path, *, install_id: str = INSTALL, **options: Any) -> LocalEngine:
    """An engine on `tmp_path/data`. Its runner ends by itself soon after it is of no use any more."""
    options.setdefault("runner_idle_seconds", 2.0)
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
