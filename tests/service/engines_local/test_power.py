"""The machine is started anew: nothing of before runs again, and what was on its disk is what is told."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from steelyard.engines.local import procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import MemberPhase, StartState
from tests.support.local_engine import (
    end_everything,
    kill_runner,
    make_local_engine,
    notes,
    sh,
    wait_ended,
    wait_for,
)  # fmt: skip

#: A runner on a machine whose number of the boot is in a file.
HOOKED = """
import sys
from steelyard.engines.local import procfs, runner
data = sys.argv[sys.argv.index("--data") + 1]
procfs.boot_id = lambda: open(data + "/boot").read()
sys.exit(runner.main(sys.argv[sys.argv.index("--data"):]))
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalEngine:
    """An engine on such a machine."""
    hook, program = tmp_path / "hooked.py", tmp_path / "python"
    hook.write_text(HOOKED)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {hook} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(procfs, "boot_id", (tmp_path / "data/boot").read_text)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/boot").write_text("one")
    return make_local_engine(tmp_path, path=os.defpath)


def cut_power(tmp_path: Path, members: tuple[str, ...]) -> None:
    """Everything ends at once, and of what was not synced the kernel had written nothing."""
    kill_runner(tmp_path)
    for member in members:
        run = notes(tmp_path, member, "run.json")
        for one in (run["shim"], run["child"]):
            if one is not None and procfs.is_alive(one["pid"], one["start"]):
                os.kill(one["pid"], signal.SIGKILL)
    for claim in (tmp_path / "data/local/claims").iterdir():
        claim.write_bytes(b"")
    for note in ("run.json", "swept"):
        for path in (tmp_path / "data/local/members").glob(f"*/{note}"):
            path.write_bytes(b"\0" * 40)
    (tmp_path / "data/boot").write_text("two")


def test_after_a_power_failure_nothing_runs_twice_and_known_ends_are_told(
    engine: LocalEngine, tmp_path: Path
) -> None:
    starts = [
        sh("at_runs", f"echo x >> {tmp_path}/runs; exec sleep 600"),
        sh("at_over", f"echo x >> {tmp_path}/over; exit 5"),
        sh("at_gone", f"echo x >> {tmp_path}/gone; exit 6"),
    ]
    engine.start(starts)
    for name in ("mb_over", "mb_gone"):
        wait_ended(engine, name)
    wait_for(
        engine, "mb_runs", lambda seen: seen.phase is MemberPhase.RUNNING and (tmp_path / "runs").exists()
    )
    deadline = time.monotonic() + 20
    while not engine.probe_release(["at_gone"])[0].free:
        assert time.monotonic() < deadline
    engine.forget(["at_gone"])
    engine.sample()  # answered after that
    cut_power(tmp_path, ("mb_runs",))
    lost = wait_ended(engine, "mb_runs")
    assert (lost.failure, lost.exit_code, lost.exit_signal) == ("supervisor-lost", None, None)
    assert wait_ended(engine, "mb_over").exit_code == 5
    assert {one.attempt_id for one in engine.observe(None).members} == {"at_runs", "at_over"}
    assert [one.state for one in engine.start(starts)] == [StartState.ALREADY] * 3
    assert [(tmp_path / name).read_text() for name in ("runs", "over", "gone")] == ["x\n"] * 3
    end_everything(engine)
