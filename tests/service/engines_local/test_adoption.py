"""Server, runner and shim may die at any moment: nothing is lost, nothing runs twice, no status invented."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
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
    runner_pid,
    sh,
    wait_ended,
    wait_for,
    wait_free,
)


def all_notes_removed(tmp_path: Path) -> None:
    """They are, once nothing else is to be done."""
    deadline = time.monotonic() + 30
    while os.listdir(tmp_path / "data/local/members"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(engine: LocalEngine, member_id: str) -> None:
    wait_for(engine, member_id, lambda seen: seen.phase is MemberPhase.RUNNING)


def test_a_new_server_adopts_what_runs(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "sleep 0.3; exit 5")])
    running(engine, "mb_1")
    engine.close()
    assert wait_ended(make_local_engine(tmp_path), "mb_1").exit_code == 5


def test_a_runner_killed_mid_run_is_followed_by_one_that_knows_all_ends(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh(f"at_{i}", f"sleep 0.{i}; exit {i}") for i in range(1, 6)])
    running(engine, "mb_5")
    kill_runner(tmp_path)
    time.sleep(0.35)  # some end while no runner is there
    assert [wait_ended(engine, f"mb_{i}").exit_code for i in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_runner_told_to_end_leaves_the_work_alone(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "sleep 0.3; exit 6")])
    running(engine, "mb_1")
    before = runner_pid(tmp_path)
    os.kill(before, signal.SIGTERM)
    assert wait_ended(engine, "mb_1").exit_code == 6
    assert runner_pid(tmp_path) != before


def test_a_stop_works_on_what_was_adopted(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "sleep 60")])
    running(engine, "mb_1")
    kill_runner(tmp_path)
    engine.stop(["at_1"], 1_000_000)
    assert wait_ended(engine, "mb_1").exit_signal == 15
    wait_free(engine, "at_1")


@pytest.mark.requirement("D1")
def test_a_hundred_starts_told_twice_with_the_runner_killed_in_between_run_once_each(
    engine: LocalEngine, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    starts = [sh(f"at_{i}", f"echo x >> {marks}/{i}; exit {i % 100}") for i in range(100)]
    engine.start(starts[:50])
    for pause in (0.0, 0.01, 0.03, 0.1, 0.2):  # forks are under way: each kill meets another instant
        time.sleep(pause)
        kill_runner(tmp_path)
        engine.start(starts)
    for i in range(100):
        assert wait_ended(engine, f"mb_{i}", 30).exit_code == i % 100
    assert all(state.state is StartState.ALREADY for state in engine.start(starts))
    assert {path.read_text() for path in marks.iterdir()} == {"x\n"}
    assert len(list(marks.iterdir())) == 100


def test_two_servers_that_start_the_same_at_once_run_it_once(engine: LocalEngine, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    other = make_local_engine(tmp_path)
    start = [sh("at_1", f"echo x >> {mark}")]
    states: list[StartState] = []
    threads = [
        threading.Thread(target=lambda one=one: states.append(one.start(start)[0].state))
        for one in (engine, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert sorted(states) == [StartState.ACCEPTED, StartState.ALREADY]
    wait_ended(engine, "mb_1")
    assert mark.read_text() == "x\n"


def test_a_late_start_of_what_was_forgotten_runs_nothing(engine: LocalEngine, tmp_path: Path) -> None:
    start = [sh("at_1", f"echo x >> {tmp_path}/mark")]
    engine.start(start)
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    engine.forget(["at_1"])
    assert engine.start(start)[0].state is StartState.ALREADY
    kill_runner(tmp_path)
    assert engine.start(start)[0].state is StartState.ALREADY
    assert engine.observe(None).members == ()
    assert (tmp_path / "mark").read_text() == "x\n"
    all_notes_removed(tmp_path)


def test_a_word_that_nobody_waits_for_finds_the_next_runner(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "exit 0")])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    kill_runner(tmp_path)
    engine.forget(["at_1"])
    assert engine.observe(None).members == ()
    all_notes_removed(tmp_path)


def test_what_has_not_ended_is_not_forgotten(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 60")])
    running(engine, "mb_1")
    engine.forget(["at_1"])
    assert [seen.member_id for seen in engine.observe(None).members] == ["mb_1"]


def test_only_what_changed_is_observed_until_the_runner_is_another(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh("at_1", "exit 0"), sh("at_2", "sleep 60")])
    wait_ended(engine, "mb_1")
    running(engine, "mb_2")
    first = engine.observe(None)
    assert first.complete
    quiet = engine.observe(first.cursor)
    assert (quiet.complete, quiet.members) == (False, ())
    assert quiet.sequence > first.sequence
    engine.stop(["at_2"], 0)
    wait_ended(engine, "mb_2")
    assert [seen.member_id for seen in engine.observe(quiet.cursor).members] == ["mb_2"]
    kill_runner(tmp_path)
    after = engine.observe(quiet.cursor)
    assert after.complete
    assert after.sequence > quiet.sequence
    assert {seen.member_id for seen in after.members} == {"mb_1", "mb_2"}


def test_a_stranger_under_a_number_that_was_ours_is_not_taken_for_ours(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """The shim, its child and the runner die, and another program now has the child's number."""
    engine.start([sh("at_1", "exec sleep 60")])
    running(engine, "mb_1")
    kill_runner(tmp_path)
    run = notes(tmp_path, "mb_1", "run.json")
    os.kill(run["shim"]["pid"], signal.SIGKILL)
    os.kill(run["child"]["pid"], signal.SIGKILL)
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        path = tmp_path / "data/local/members/mb_1/run.json"
        for role in ("child", "shim"):
            text = path.read_text().replace(f'"pid":{run[role]["pid"]},', f'"pid":{stranger.pid},')
            path.write_text(text)
        seen = wait_ended(engine, "mb_1")
        assert (seen.failure, seen.exit_code, seen.exit_signal) == ("supervisor-lost", None, None)
        assert stranger.poll() is None
        wait_free(engine, "at_1")
    finally:
        stranger.kill()
        stranger.wait()


def test_what_another_install_started_is_shown_and_not_touched(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "sleep 60")])
    running(engine, "mb_1")
    other = make_local_engine(tmp_path, install_id="in_other")
    seen = other.observe(None)
    assert [one.id for one in seen.foreign] == ["at_1"]
    assert seen.members == ()
    other.stop(["at_1"], 0)
    other.forget(["at_1"])
    other.close()
    time.sleep(0.2)
    running(engine, "mb_1")


def test_five_hundred_members_run_at_once_and_all_end(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path)
    names = [f"at_{i}" for i in range(500)]
    engine.start([sh(name, "exec sleep 300") for name in names])
    deadline = time.monotonic() + 60
    while sum(one.phase is MemberPhase.RUNNING for one in engine.observe(None).members) < 500:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kill_runner(tmp_path)
    assert len(engine.sample()) == 500
    end_everything(engine)
    assert all(probe.free for probe in engine.probe_release(names))


def test_a_runner_without_work_and_server_ends_by_itself(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path, runner_idle_seconds=0.2)
    engine.start([sh("at_1", "exit 0")])
    wait_ended(engine, "mb_1")
    pid = runner_pid(tmp_path)
    start = procfs.start_time(pid)
    assert start is not None
    engine.close()
    deadline = time.monotonic() + 5
    while procfs.is_alive(pid, start):
        assert time.monotonic() < deadline
        time.sleep(0.02)
