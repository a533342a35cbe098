"""What was cleared away stays away, whatever the supervisor has not noticed yet."""

from __future__ import annotations

from pathlib import Path

from steelyard.engines.local.files import touch, write_json
from steelyard.engines.local.runner import Runner
from tests.support.local_engine import INSTALL, make_local_engine, sh


def test_a_stop_that_comes_when_all_is_cleared_brings_no_temporary_files_back(
    runner: Runner, tmp_path: Path
) -> None:
    engine = make_local_engine(tmp_path)
    claim = engine._attempt(sh("at_x", "true"))
    assert runner.book.claim(claim) == "accepted"
    record = runner.book.members["mb_x"]
    runner.keeper.make_notes(record)
    runner.keeper.provision(record)
    work = Path(runner.layout.member_work("at_x", "mb_x"))
    (work / "tmp").rmdir()  # the shim ended and cleared, and its hint is not read yet
    write_json(runner.layout.notes("mb_x", "exit.json"), {"v": 1, "exit_code": 0})
    touch(runner.layout.notes("mb_x", "swept"))
    runner.handle({"install": INSTALL}, {"op": "stop", "attempts": ["at_x"], "grace": 0})
    assert not (work / "tmp").exists()
    runner.keeper._settle(record)
    assert not (work / "tmp").exists()
    assert engine.probe_release(["at_x"])[0].free
