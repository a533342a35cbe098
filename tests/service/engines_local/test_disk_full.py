"""A full disk, or a removed folder: nothing new is accepted, and no status that is already known is lost."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.engines.local import procfs
from steelyard.engines.port import EngineUnavailable, MemberPhase, StartState
from tests.support.local_engine import (
    end_everything,
    kill_runner,
    make_local_engine,
    notes,
    runner_pid,
    sh,
    wait_ended,
    wait_for,
)


def test_a_folder_that_was_removed_keeps_no_supervisor_waiting(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path)
    engine.start([sh("at_1", "sleep 0.3")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    watched = [notes(tmp_path, "mb_1", "run.json")["shim"]]
    runner = runner_pid(tmp_path)
    watched.append({"pid": runner, "start": procfs.start_time(runner)})
    shutil.rmtree(tmp_path / "data")
    engine.close()
    deadline = time.monotonic() + 10
    while any(procfs.is_alive(one["pid"], one["start"]) for one in watched):
        assert time.monotonic() < deadline, watched
        time.sleep(0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 KiB. Where none can be mounted the test is skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if done.returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_status_waits_for_room_on_the_disk_and_a_start_is_refused_meanwhile(small_disk: Path) -> None:
    engine = make_local_engine(small_disk)
    engine.start([sh("at_1", "sleep 0.5; exit 11"), sh("at_2", "head -c 2000000 /dev/zero; exit 12")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    time.sleep(0.8)
    with pytest.raises(EngineUnavailable) as caught:
        engine.start([sh("at_3", "exit 13")])
    assert caught.value.params["reason"] == "runner-disk"
    assert all(seen.phase is MemberPhase.RUNNING for seen in engine.observe(None).members)
    (small_disk / "data/local/logs/mb_2.log").unlink()
    assert (wait_ended(engine, "mb_1").exit_code, wait_ended(engine, "mb_2").exit_code) == (11, 12)
    assert engine.start([sh("at_3", "exit 13")])[0].state is StartState.ACCEPTED
    assert wait_ended(engine, "mb_3").exit_code == 13
    end_everything(engine)


def test_a_runner_that_comes_when_the_disk_is_full_adopts_what_runs(small_disk: Path) -> None:
    engine = make_local_engine(small_disk)
    engine.start([sh("at_1", "while [ ! -e go ]; do sleep 0.05; done; exit 11")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    go, filler = small_disk / "data/work/at_1/mb_1/go", small_disk / "filler"
    with pytest.raises(OSError, match="space"):
        filler.write_bytes(bytes(2_000_000))
    kill_runner(small_disk)
    assert [one.phase for one in engine.observe(None).members] == [MemberPhase.RUNNING]
    filler.unlink()
    go.touch()
    assert wait_ended(engine, "mb_1").exit_code == 11
    end_everything(engine)
