"""How members end: status, signals, stops, limits, and nothing left behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import MemberPhase, Signal
from tests.support.local_engine import attempt, member, notes, sh, wait_ended, wait_for, wait_free


def is_running(seen: object) -> bool:
    return getattr(seen, "phase", None) is MemberPhase.RUNNING


def wait_for_log(engine: LocalEngine, member_id: str, text: bytes) -> None:
    deadline = time.monotonic() + 10
    while text not in engine.logs(member_id, 0, 1 << 20).data:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 3, 255])
def test_an_exit_code_is_the_programs_own(engine: LocalEngine, code: int) -> None:
    engine.start([sh("at_1", f"exit {code}")])
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.exit_signal, seen.failure) == (code, None, None)
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert seen.started_at <= seen.ended_at


@pytest.mark.parametrize("number", [9, 11, 15])
def test_a_death_by_signal_has_no_exit_code(engine: LocalEngine, number: int) -> None:
    engine.start([sh("at_1", f"kill -{number} $$")])
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.exit_signal, seen.stop_requested) == (None, number, False)


def test_a_program_that_ignores_term_is_killed_after_its_grace(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "trap '' TERM; echo up; while :; do sleep 0.05; done")])
    wait_for_log(engine, "mb_1", b"up")
    begin = time.monotonic()
    engine.stop(["at_1"], 400_000)
    engine.stop(["at_1"], 60_000_000)  # told again with more time: the first word stands
    seen = wait_ended(engine, "mb_1")
    assert 0.4 <= time.monotonic() - begin < 3
    assert (seen.exit_signal, seen.stop_requested, seen.timed_out) == (9, True, False)
    wait_free(engine, "at_1")


def test_a_program_that_heeds_term_ends_with_its_own_code(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done")])
    wait_for_log(engine, "mb_1", b"up")
    engine.stop(["at_1"], 10_000_000)
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.stop_requested) == (7, True)


def test_descendants_in_sessions_of_their_own_are_told_and_ended_too(engine: LocalEngine) -> None:
    inner = "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"
    engine.start([sh("at_1", f'setsid sh -c "{inner}" & trap "" TERM; wait; wait; sleep 30')])
    wait_for_log(engine, "mb_1", b"up")
    engine.stop(["at_1"], 500_000)
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    assert b"told" in engine.logs("mb_1", 0, 1000).data


@pytest.mark.requirement("G12")
def test_what_a_program_leaves_behind_is_ended_with_it(engine: LocalEngine, tmp_path: Path) -> None:
    script = "setsid sh -c 'sleep 300' & (sleep 300 &) ; echo x > $TMPDIR/file; exit 0"
    engine.start([sh("at_1", script)])
    assert wait_ended(engine, "mb_1").exit_code == 0
    wait_free(engine, "at_1")
    checks = dict(engine.probe_release(["at_1"])[0].checks)
    assert checks["process-group"] == checks["marked-processes"] == checks["shim"] == "gone"
    assert not (tmp_path / "data/work/at_1/mb_1/tmp").exists()
    assert (tmp_path / "data/work/at_1/mb_1/artifacts").is_dir()


def test_a_running_attempt_is_not_free_and_says_what_remains(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 60")])
    wait_for(engine, "mb_1", is_running)
    probe = engine.probe_release(["at_1"])[0]
    assert probe.free is False
    assert any("process" in line for line in probe.residue)


def test_an_attempt_that_nobody_knows_has_left_nothing(engine: LocalEngine) -> None:
    assert engine.probe_release(["at_none", "../../etc"])[0].free is True


def test_a_time_limit_is_kept_by_the_shim(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 60", time_limit=300_000)])
    seen = wait_ended(engine, "mb_1")
    assert (seen.timed_out, seen.failure, seen.exit_signal) == (True, "timed-out", 15)
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert seen.ended_at - seen.started_at >= 300_000


def test_a_stop_that_comes_before_the_program_runs_still_stops_it(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 60")])
    engine.stop(["at_1"], 0)
    seen = wait_ended(engine, "mb_1")
    assert seen.stop_requested is True
    assert seen.exit_code is None


def test_stopping_what_is_not_known_or_has_ended_does_nothing(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "exit 4")])
    before = wait_ended(engine, "mb_1")
    engine.stop(["at_1", "at_2"], 0)
    engine.signal("at_2", Signal.KILL)
    assert wait_ended(engine, "mb_1") == before


def test_a_checkpoint_reaches_only_a_program_that_knows_it(engine: LocalEngine) -> None:
    engine.start([
        sh("at_1", "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.05; done"),
        sh("at_2", "echo up; exec sleep 60"),
    ])
    for name in ("mb_1", "mb_2"):
        wait_for_log(engine, name, b"up")
    engine.signal("at_1", Signal.CHECKPOINT)
    engine.signal("at_2", Signal.CHECKPOINT)
    assert wait_ended(engine, "mb_1").exit_code == 0
    assert b"saved" in engine.logs("mb_1", 0, 100).data
    wait_for(engine, "mb_2", is_running)
    engine.signal("at_2", Signal.KILL)
    assert wait_ended(engine, "mb_2").exit_signal == 9


def test_more_memory_than_declared_is_told_as_such(engine: LocalEngine) -> None:
    if not engine.capabilities().limits.startswith("cgroup"):
        pytest.skip("no control groups here")
    hungry = "x = bytearray(400 << 20); x[::4096] = b'1' * len(x[::4096])"
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", hungry), memory=128))])
    seen = wait_ended(engine, "mb_1")
    assert (seen.failure, seen.failure_stage) == ("oom-killed", "application")
    wait_free(engine, "at_1")


def test_the_members_of_an_attempt_end_each_with_its_own_status(engine: LocalEngine) -> None:
    members = [member(f"mb_{i}", ("/bin/sh", "-c", f"exit {i}"), index=i) for i in range(3)]
    engine.start([attempt("at_1", *members)])
    assert [wait_ended(engine, f"mb_{i}").exit_code for i in range(3)] == [0, 1, 2]


def test_the_end_is_on_disk_as_it_is_told(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "exit 9")])
    seen = wait_ended(engine, "mb_1")
    written = notes(tmp_path, "mb_1", "exit.json")
    assert (written["exit_code"], written["ended_at"]) == (9, seen.ended_at)
