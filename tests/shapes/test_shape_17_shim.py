"""Shape 17: a shim for each local member outlives the runner and writes how it ended before it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.engines.local import cgroups, procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import USER_ID, Wish
from steelyard.engines.port import MemberPhase
from tests.support.local_engine import (
    end_everything,
    kill_runner,
    make_local_engine,
    notes,
    sh,
    wait_ended,
    wait_for,
    wait_free,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    made = make_local_engine(tmp_path)
    yield made
    end_everything(made)


def test_the_shim_outlives_the_runner_and_keeps_the_supervisors_user(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh("at_1", "sleep 0.3; exit 42")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    kill_runner(tmp_path)
    shim, child = (notes(tmp_path, "mb_1", "run.json")[who] for who in ("shim", "child"))
    assert procfs.is_alive(shim["pid"], shim["start"])
    assert os.stat(f"/proc/{shim['pid']}").st_uid == os.geteuid()
    inner = procfs.read_process(child["pid"])
    outer = procfs.read_process(shim["pid"])
    assert inner is not None
    assert outer is not None
    assert (inner.session, inner.group) == (child["pid"], child["pid"])
    assert outer.session == shim["pid"]
    assert wait_ended(engine, "mb_1").exit_code == 42


def _user_once_executed(pid: int) -> int:
    """Whose process it is when the program has taken the place of the child that prepared for it."""
    deadline = time.monotonic() + 60
    while b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return os.stat(f"/proc/{pid}").st_uid


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_child_drops_to_its_projects_user_while_the_shim_keeps_the_supervisors(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path, isolation=Wish(USER_ID))
    try:
        if not engine.capabilities().isolation:
            pytest.skip(f"this machine can't do it: {engine.capabilities().isolation_text}")
        engine.start([sh("at_1", "sleep 60", project="a"), sh("at_2", "sleep 60", project="b")])
        users = set()
        for name in ("mb_1", "mb_2"):
            wait_for(engine, name, lambda seen: seen.phase is MemberPhase.RUNNING)
            run = notes(tmp_path, name, "run.json")
            users.add(_user_once_executed(run["child"]["pid"]))
            assert os.stat(f"/proc/{run['shim']['pid']}").st_uid == os.geteuid()
        assert len(users) == 2
        assert os.geteuid() not in users
    finally:
        end_everything(engine)


def test_the_status_is_on_disk_although_nobody_was_there_to_be_told(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh("at_1", "sleep 0.2; exit 43")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    shim = notes(tmp_path, "mb_1", "run.json")["shim"]
    kill_runner(tmp_path)
    while procfs.is_alive(shim["pid"], shim["start"]):
        os.sched_yield()
    assert notes(tmp_path, "mb_1", "exit.json")["exit_code"] == 43
    assert wait_ended(engine, "mb_1").exit_code == 43


@pytest.mark.parametrize("runner_too", [False, True])
def test_a_status_that_nobody_wrote_is_unknown_and_never_zero(
    engine: LocalEngine, tmp_path: Path, runner_too: bool
) -> None:
    engine.start([sh("at_1", "(sleep 60 &); sleep 60")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    run = notes(tmp_path, "mb_1", "run.json")
    if runner_too:
        kill_runner(tmp_path)
    os.kill(run["shim"]["pid"], signal.SIGKILL)
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.exit_signal, seen.failure) == (None, None, "supervisor-lost")
    wait_free(engine, "at_1")
    assert not procfs.is_alive(run["child"]["pid"], run["child"]["start"])


def test_a_member_of_another_boot_is_neither_watched_nor_started_again(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """Another boot is played by another boot id in the notes: no number in them means anything then."""
    engine.start([sh("at_1", f"echo x >> {tmp_path}/mark; exec sleep 60")])
    wait_for(
        engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING and (tmp_path / "mark").exists()
    )
    run = notes(tmp_path, "mb_1", "run.json")
    kill_runner(tmp_path)
    for pid in (run["shim"]["pid"], run["child"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    boot = procfs.boot_id()
    for path in (
        tmp_path / "data/local/members/mb_1/run.json",
        tmp_path / "data/local/claims/at_1.json",
    ):
        path.write_text(path.read_text().replace(boot, "0" * len(boot)))
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.failure) == (None, "supervisor-lost")
    assert (tmp_path / "mark").read_text() == "x\n"
    cgroups.remove(tuple(run["groups"]))  # a real start of the machine leaves none


def test_what_was_claimed_and_never_executed_is_started_by_the_next_runner(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """The runner dies between its claim and its fork: played by taking the notes of the shim away."""
    engine.start([sh("at_1", f"echo x >> {tmp_path}/mark")])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    kill_runner(tmp_path)
    (tmp_path / "mark").unlink()
    for name in ("run.json", "exit.json", "swept"):
        (tmp_path / "data/local/members/mb_1" / name).unlink()
    assert wait_ended(engine, "mb_1").exit_code == 0
    assert (tmp_path / "mark").read_text() == "x\n"
