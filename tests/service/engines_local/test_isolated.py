"""Isolation changes where a program is, not what is seen of it: statuses, signals, limits, leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from steelyard.engines.local import enclosure, launch
from steelyard.engines.local.ability import Abilities
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import BUBBLEWRAP, CONTAINER, HOST, NONE, USER_ID, Confinement, Wish
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.users import UserBook
from steelyard.engines.port import Isolation, MemberPhase, StartState
from tests.support.local_engine import (
    attempt,
    end_everything,
    kill_runner,
    make_local_engine,
    member,
    notes,
    sh,
    wait_ended,
    wait_for,
    wait_free,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@cache
def why_not(mode: str) -> str | None:
    """Why this machine can't do a mode."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder)
        layout.make()
        return Abilities(layout, UserBook(layout.users)).why_not(mode)


@pytest.fixture(params=[USER_ID, BUBBLEWRAP])
def mode(request: pytest.FixtureRequest) -> str:
    if (reason := why_not(request.param)) is not None:
        pytest.skip(f"this machine can't do {request.param}: {reason}")
    return str(request.param)


@pytest.fixture
def engine(tmp_path: Path, mode: str) -> Iterator[LocalEngine]:
    made = make_local_engine(tmp_path, isolation=Wish(mode))
    yield made
    end_everything(made)


def text(engine: LocalEngine, name: str) -> str:
    return engine.logs(name, 0, 100_000).data.decode()


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 0", 0, None), ("exit 7", 7, None), ("exit 139", 139, None),
     ("kill -SEGV $$", None, 11), ("kill -TERM $$", None, 15), ("kill -KILL $$", None, 9)],
)  # fmt: skip
def test_the_status_is_the_programs_own(
    engine: LocalEngine, script: str, code: int | None, number: int | None
) -> None:
    engine.start([sh("at_1", script)])
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.exit_signal, seen.failure) == (code, number, None)
    wait_free(engine, "at_1")


def test_the_child_drops_to_the_projects_user_and_the_shim_does_not(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([
        sh("at_1", "id -u; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; sleep 30", project="a"),
        sh("at_2", "id -u", project="a"),
        sh("at_3", "id -u", project="b"),
    ])  # fmt: skip
    assert {wait_ended(engine, name).exit_code for name in ("mb_2", "mb_3")} == {0}
    wait_for(engine, "mb_1", lambda _seen: "NoNewPrivs" in text(engine, "mb_1"))
    user, *rest = text(engine, "mb_1").split()
    assert int(user) > 1_000_000_000
    assert rest == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    assert text(engine, "mb_2").strip() == user
    assert int(text(engine, "mb_3")) != int(user)
    run = notes(tmp_path, "mb_1", "run.json")
    assert os.stat(f"/proc/{run['shim']['pid']}").st_uid == os.geteuid()


def test_a_project_keeps_its_user_when_the_runner_is_another(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "id -u")])
    wait_ended(engine, "mb_1")
    kill_runner(tmp_path)
    engine.start([sh("at_2", "id -u")])
    wait_ended(engine, "mb_2")
    assert text(engine, "mb_1") == text(engine, "mb_2")


def test_an_observation_says_what_a_member_runs_in_and_what_that_does_not_enforce(
    engine: LocalEngine, mode: str
) -> None:
    engine.start([sh("at_1", "sleep 30", port=True)])
    seen = wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    assert seen.isolation == Isolation(mode, ("network",))


def test_term_reaches_the_program_and_kill_ends_what_ignores_it(engine: LocalEngine) -> None:
    script = "trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.1; done"
    deaf = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    engine.start([sh("at_1", script), sh("at_2", deaf)])
    for name in ("mb_1", "mb_2"):
        wait_for(engine, name, lambda _seen, name=name: "up" in text(engine, name))  # type: ignore[misc]
    engine.stop(["at_1"], 20_000_000)
    engine.stop(["at_2"], 200_000)
    seen = wait_ended(engine, "mb_1")
    assert (seen.exit_code, seen.stop_requested, "told" in text(engine, "mb_1")) == (3, True, True)
    assert wait_ended(engine, "mb_2").exit_signal == signal.SIGKILL
    wait_free(engine, "at_1")
    wait_free(engine, "at_2")


def test_what_forked_twice_and_stays_is_ended_with_the_program(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "(setsid sh -c 'sleep 300 & sleep 300' &) ; exit 4")])
    assert wait_ended(engine, "mb_1").exit_code == 4
    wait_free(engine, "at_1")


def test_nothing_is_left_when_the_shim_is_killed(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "setsid sleep 300 & sleep 300")])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    os.kill(notes(tmp_path, "mb_1", "run.json")["shim"]["pid"], signal.SIGKILL)
    assert wait_ended(engine, "mb_1").failure == "supervisor-lost"
    wait_free(engine, "at_1")


def test_a_program_that_is_not_there_is_told_as_without_isolation(engine: LocalEngine) -> None:
    engine.start([
        attempt("at_1", member("mb_1", ("no-such-program",))),
        attempt("at_2", member("mb_2", ("/etc/passwd",))),
    ])  # fmt: skip
    assert [wait_ended(engine, name).failure for name in ("mb_1", "mb_2")] == [
        "command-not-found", "not-executable",
    ]  # fmt: skip


def test_a_relative_working_directory_is_the_projects(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "pwd; touch here && stat -c %u . here | sort -u | wc -l",
                     working_directory="a/b")])  # fmt: skip
    assert wait_ended(engine, "mb_1").exit_code == 0
    where, owners = text(engine, "mb_1").split()
    assert where.endswith("/mb_1/a/b")
    assert owners == "1"


def test_the_standard_output_can_be_opened_anew(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "echo one; echo two > /dev/stdout; echo three >> /dev/stderr")])
    assert wait_ended(engine, "mb_1").exit_code == 0
    assert text(engine, "mb_1").split()[-1] == "three"


def test_what_is_hidden_is_told_before_the_start(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([
        attempt("at_1", member("mb_1", ("sh", "-c", "pwd"), working_directory=str(tmp_path))),
        attempt("at_2", member("mb_2", (str(tmp_path / "program"),))),
        attempt("at_3", member("mb_3", ("python", "-V"), venv=str(tmp_path / "venv"))),
    ])  # fmt: skip
    for name, path in (("mb_1", tmp_path), ("mb_2", tmp_path / "program"), ("mb_3", tmp_path / "venv")):
        seen = wait_ended(engine, name)
        assert (seen.failure, seen.failure_stage, seen.failure_text) == (
            "path-hidden", "environment", str(path),
        )  # fmt: skip


def test_a_program_can_ask_who_it_is(engine: LocalEngine) -> None:
    code = "import getpass, os; print(getpass.getuser(), os.path.expanduser('~') == os.getcwd())"
    engine.start([attempt("at_1", member("mb_1", ("python3", "-c", code)), project="vision")])
    assert wait_ended(engine, "mb_1").exit_code == 0
    assert text(engine, "mb_1").split() == ["vision", "True"]


def test_an_attempt_goes_on_from_one_that_ran_without_isolation(tmp_path: Path, mode: str) -> None:
    before = make_local_engine(tmp_path, isolation=Wish(NONE))
    before.start([sh("at_1", "umask 077; echo 58 > artifacts/step; echo x > other; ln other second")])
    wait_ended(before, "mb_1")
    wait_free(before, "at_1")
    before.close()
    after = make_local_engine(tmp_path, isolation=Wish(mode))
    try:
        after.start([sh("at_2", "cat $STEELYARD_RESUME_DIR/artifacts/step", resume_from="at_1")])
        assert wait_ended(after, "mb_2").exit_code == 0
        assert text(after, "mb_2").strip() == "58"
        assert (tmp_path / "data/work/at_1/mb_1/other").stat().st_uid == os.geteuid()
    finally:
        end_everything(after)


def test_shared_folders_and_the_attempt_before_can_be_read(mode: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="steelyard-shared-"))
    folder.chmod(0o755)
    (folder / "shared").mkdir()
    (folder / "shared/data.csv").write_text("shared")
    os.chmod(folder / "shared", 0o777)
    engine = make_local_engine(folder, isolation=Wish(mode, shared=(str(folder / "shared"),)))
    try:
        engine.start([sh("at_1", "echo before > result")])
        wait_ended(engine, "mb_1")
        script = f"cat {folder}/shared/data.csv $STEELYARD_RESUME_DIR/result; echo x > {folder}/shared/new"
        engine.start([sh("at_2", script, resume_from="at_1")])
        assert wait_ended(engine, "mb_2").exit_code != 0
        assert text(engine, "mb_2").startswith("sharedbefore")
        assert not (folder / "shared/new").exists()
    finally:
        end_everything(engine)
        shutil.rmtree(folder, ignore_errors=True)  # a shim may still be clearing up


def test_what_was_wished_for_and_cannot_be_had_is_refused(tmp_path: Path) -> None:
    hostile = tmp_path / "a,b"  # no path that podman mounts
    hostile.mkdir()
    engine = make_local_engine(hostile, isolation=Wish(CONTAINER))
    try:
        (reply,) = engine.start([sh("at_1", f"touch {tmp_path}/ran")])
        assert (reply.state, reply.code) == (StartState.REFUSED, "isolation-unavailable")
        assert "container" in (reply.text or "")
        able = engine.capabilities()
        assert (able.isolation_mode, able.isolation) == (CONTAINER, ())
    finally:
        end_everything(engine)
    assert not (tmp_path / "ran").exists()


def test_what_runs_already_is_not_refused_when_the_wish_changes(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path, isolation=Wish(NONE))
    other = make_local_engine(tmp_path, isolation=Wish(CONTAINER))
    try:
        engine.start([sh("at_1", "sleep 30")])
        assert [reply.state for reply in other.start([sh("at_1", "sleep 30")])] == [StartState.ALREADY]
    finally:
        other.close()
        end_everything(engine)


def test_a_program_whose_isolation_fails_is_not_executed(tmp_path: Path, mode: str) -> None:
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    there = enclosure.around(layout, 1_900_000_000, (), ())
    nowhere = str(tmp_path / "no-such-folder")
    confinement = Confinement(mode, HOST, 1_900_000_000, there, nowhere, devices=False)
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    program = launch.Program(
        "/bin/sh", ["sh", "-c", f"touch {tmp_path}/ran"], {"PATH": os.defpath}, "/", log, (), None, (64, 64),
        confinement,
    )  # fmt: skip
    gated = launch.spawn(program)
    failed = launch.open_gate(gated)
    os.close(log)
    os.waitpid(gated.pid, 0)
    assert failed is not None
    assert launch.NOT_CONFINED in str(failed)
    assert not (tmp_path / "ran").exists()
