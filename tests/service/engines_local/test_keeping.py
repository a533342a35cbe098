"""What is kept of a member's work: results with digests, and old folders removed by the runner."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local.archive import remove_old
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.paths import Layout
from steelyard.engines.port import Artifacts
from steelyard.model.units import DAY, SECOND
from tests.support.local_engine import end_everything, make_local_engine, now, sh, wait_ended, wait_free

RESULTS = (
    "cd $STEELYARD_ARTIFACTS; echo model > model; mkdir in; echo x > in/y; ln -s /etc/passwd link; "
    "mkfifo pipe; "
    "cd ..; echo w > w; echo t > $TMPDIR/t"
)


def listed(engine: LocalEngine, seconds: float = 20.0) -> Artifacts:
    """The manifest, once it is made."""
    deadline = time.monotonic() + seconds
    while (found := engine.artifacts("at_1", "mb_1")) is None or found.at is None:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def finish(engine: LocalEngine, script: str, **fields: Any) -> None:
    """Runs it to its end, and books that."""
    engine.start([sh("at_1", script, **fields)])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    engine.forget(["at_1"])


def removed(tmp_path: Path) -> list[dict[str, Any]]:
    text = tmp_path / "data/local/removed.jsonl"
    return [json.loads(line) for line in text.read_text().splitlines()] if text.exists() else []


@pytest.mark.requirement("G12", "D3")
def test_results_are_listed_with_their_digests_after_the_temporary_files_are_gone(
    engine: LocalEngine, tmp_path: Path
) -> None:
    finish(engine, RESULTS, artifacts=("w",))
    found = listed(engine)
    digests = {one.path: one.sha256 for one in found.files}
    assert digests == {
        "artifacts/in/y": hashlib.sha256(b"x\n").hexdigest(),
        "artifacts/model": hashlib.sha256(b"model\n").hexdigest(),
        "w": hashlib.sha256(b"w\n").hexdigest(),
    }
    assert (found.complete, all(one.there for one in found.files)) == (True, True)
    assert not (tmp_path / "data/work/at_1/mb_1/tmp").exists()


def test_until_the_manifest_is_made_results_are_named_without_digests(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "echo model > $STEELYARD_ARTIFACTS/model")])
    wait_ended(engine, "mb_1")
    found = engine.artifacts("at_1", "mb_1")
    assert found is not None
    assert [(one.path, one.bytes, one.sha256) for one in found.files] == [("artifacts/model", 6, None)]


def test_a_member_that_left_nothing_has_no_results(engine: LocalEngine) -> None:
    finish(engine, "exit 0")
    assert engine.artifacts("at_1", "mb_1") is None
    assert engine.artifacts("../..", "etc") is None


@pytest.mark.requirement("G12", "D3")
def test_an_old_work_folder_goes_and_its_results_stay_listed(tmp_path: Path) -> None:
    clock = [now()]
    engine = make_local_engine(tmp_path, keep_work=2 * DAY, keep_artifacts=9 * DAY)
    engine._keeping._now = lambda: clock[0]
    try:
        finish(engine, RESULTS)
        listed(engine)
        engine.inventory()
        work = tmp_path / "data/work/at_1/mb_1"
        clock[0] += 3 * DAY
        engine.inventory()
        until(lambda: removed(tmp_path))
        assert not (work / "w").exists()
        assert (work / "artifacts/model").read_text() == "model\n"
        assert [(one["what"], one["files"], one["bytes"]) for one in removed(tmp_path)] == [("work", 1, 2)]
        clock[0] += 10 * DAY
        engine.inventory()
        until(lambda: not work.exists())
        until(lambda: len(removed(tmp_path)) == 2)
        found = listed(engine)
        assert {one.path for one in found.files} == {"artifacts/model", "artifacts/in/y"}
        assert not any(one.there for one in found.files)
    finally:
        end_everything(engine)


def until(done: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_not_forgotten_or_young_stays(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "echo x > file")])
    wait_ended(engine, "mb_1")
    layout = Layout(str(tmp_path / "data"))
    remove_old(layout, {"at_1"}, now() + SECOND, None)
    remove_old(layout, (), now() + SECOND, now() + SECOND)  # its claim is there
    engine.forget(["at_1"])
    remove_old(layout, (), now() - DAY, now() - DAY)
    assert (tmp_path / "data/work/at_1/mb_1/file").read_text() == "x\n"
    os.unlink(tmp_path / "data/work/at_1/mb_1/file")


@pytest.mark.requirement("G12")
def test_results_are_kept_for_ever_where_nothing_is_declared(engine: LocalEngine, tmp_path: Path) -> None:
    finish(engine, RESULTS)
    listed(engine)
    remove_old(Layout(str(tmp_path / "data")), (), now() + DAY, None)
    assert sorted(os.listdir(tmp_path / "data/work/at_1/mb_1")) == ["artifacts"]
