"""Supervisor and shim are killed at every step of a start and an end: nothing runs twice or is lost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from steelyard.engines.local import procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import EngineUnavailable, StartState
from tests.support.local_engine import end_everything, make_local_engine, notes, sh, wait_ended, wait_free

T = TypeVar("T")
#: A runner whose shims, and with `both` it itself, die once at the step that their member is named after.
HOOKED = """
import contextlib, os, signal, sys
from steelyard.engines.local import cgroups, claims, ending, launch, runner, shim
data, victim, me = sys.argv[sys.argv.index("--data") + 1], VICTIM, os.getpid()

def die(step, member):
    if member != "mb_" + step:
        return
    try:
        os.close(os.open(f"{data}/died-{step}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if victim != "shim" or step == "claimed":
        with contextlib.suppress(ProcessLookupError):  # another step's death took it along
            os.kill(me, signal.SIGKILL)
    if step != "claimed":
        os.kill(os.getpid(), signal.SIGKILL)

def around(place, name, before, after, who):
    inner = getattr(place, name)
    def outer(*args, **more):
        die(before, who(*args, **more))
        found = inner(*args, **more)
        die(after, who(*args, **more))
        return found
    setattr(place, name, outer)

if victim == "both, without control groups":
    cgroups.detect = lambda *_: cgroups.NONE
around(shim.Shim, "run", "begun", "", lambda one: one.id)
around(cgroups, "make", "ungrouped", "grouped", lambda _tree, member, *_: member)
around(launch, "spawn_plainly", "noted", "spawned", lambda program, _homes: program.env["STEELYARD_MEMBER"])
around(os, "posix_spawn", "inside", "inside-after", lambda _path, _line, env, **_: env["STEELYARD_MEMBER"])
around(shim.Shim, "_ends_soon", "told", "ended", lambda one: one.id)
around(ending, "clear", "written", "cleared", lambda _layout, _attempt, member, *_: member)
around(claims.Claims, "add", "", "claimed", lambda _self, claim: claim["members"][0]["member"])
sys.exit(runner.main(sys.argv[sys.argv.index("--data"):]))
"""
#: Steps before which nothing can have run: a start is tried again.
NOT_YET = ("claimed", "begun", "ungrouped", "grouped")
#: Steps at which the program may have run and nobody saw how it ended.
UNKNOWN = ("noted", "inside", "inside-after", "spawned", "told")
#: Steps at which the status is on disk, or will be.
KNOWN = ("written", "cleared")
STEPS = (*NOT_YET, *UNKNOWN, *KNOWN)


@pytest.fixture(params=["shim", "both", "both, without control groups"])
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> LocalEngine:
    """An engine whose every runner is a hooked one."""
    hook, program = tmp_path / "hooked.py", tmp_path / "python"
    hook.write_text(HOOKED.replace("VICTIM", repr(request.param)))
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {hook} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return make_local_engine(tmp_path, path=os.defpath)


def insist(act: Callable[[], T]) -> T:
    """Whoever asks meets runners that die: once more, as a server does."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return act()
        except EngineUnavailable:
            assert time.monotonic() < deadline


def groups_of(tmp_path: Path, member: str) -> list[str]:
    """Its control groups that are still there."""
    return [one for one in notes(tmp_path, member, "run.json")["groups"] if os.path.exists(one)]


def test_a_death_at_any_step_of_a_start_or_an_end(engine: LocalEngine, tmp_path: Path) -> None:
    starts = [sh(f"at_{step}", f"echo x >> {tmp_path}/{step}; exit 7") for step in STEPS]
    for start in starts:
        insist(partial(engine.start, [start]))
    ends = {step: insist(partial(wait_ended, engine, f"mb_{step}", 60)) for step in STEPS}
    assert {step for step in STEPS if not (tmp_path / f"data/died-{step}").exists()} == set()
    for step, seen in ends.items():
        wait_free(engine, f"at_{step}", 30)
        ran = (tmp_path / step).read_text() if (tmp_path / step).exists() else ""
        if step in UNKNOWN:
            assert (seen.failure, seen.exit_code, seen.exit_signal) == ("supervisor-lost", None, None), step
            assert ran in ("", "x\n"), step
        else:
            assert (seen.failure, seen.exit_code, ran) == (None, 7, "x\n"), step
        assert groups_of(tmp_path, f"mb_{step}") == []
    assert [one.state for one in engine.start(starts)] == [StartState.ALREADY] * len(STEPS)
    assert all(one.free for one in engine.probe_release([one.attempt_id for one in starts]))
    engine.forget([one.attempt_id for one in starts])
    assert engine.observe(None).members == ()
    assert os.listdir(tmp_path / "data/local/claims") == []
    homes = [procfs.environment(one.pid).get("HOME", "") for one in procfs.processes()]
    assert [one for one in homes if one.startswith(str(tmp_path))] == []
    end_everything(engine)
