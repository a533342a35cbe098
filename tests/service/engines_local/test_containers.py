"""Members in containers of a real podman: statuses, limits, ends, the image stage, what is left."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import CONTAINER, PRIVATE, USER_ID, Wish
from steelyard.engines.port import AttemptStart, DeviceBinding, MemberObservation, MemberPhase
from steelyard.model.execution import Channel, Execution
from steelyard.model.resources import DeviceClass
from tests.support import containers
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

if (_reason := containers.why_not()) is not None:
    pytest.skip(_reason, allow_module_level=True)

IMAGE = f"localhost/steelyard-test-{os.getpid()}:1"
SECONDS = 60.0


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    with containers.image(IMAGE) as name:
        yield name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("boxes")


@pytest.fixture(scope="module")
def engine(folder: Path, image: str) -> Iterator[LocalEngine]:
    made = make_local_engine(folder, isolation=Wish(USER_ID, PRIVATE), runner_idle_seconds=30.0)
    yield made
    end_everything(made)


def boxed(name: str, script: str, image: str, **fields: Any) -> AttemptStart:
    return sh(f"at_{name}", script, image=image, **fields)


def run(engine: LocalEngine, attempt: AttemptStart) -> tuple[MemberObservation, str]:
    """How it ended, and its log, once its release is proven."""
    engine.start([attempt])
    name = attempt.members[0].member_id
    seen = wait_ended(engine, name, SECONDS)
    wait_free(engine, attempt.attempt_id, SECONDS)
    return seen, engine.logs(name, 0, 100_000).data.decode()


def test_a_program_of_an_image_runs_as_the_projects_user_and_its_status_is_told(
    engine: LocalEngine, folder: Path, image: str
) -> None:
    script = "id -u; echo $HOME; echo kept > kept; echo t > /tmp/t; cat /proc/self/status; ls /etc; exit 7"
    seen, said = run(engine, boxed("runs", script, image, env=(("WORD", "a b"),)))
    assert (seen.exit_code, seen.exit_signal, seen.failure) == (7, None, None)
    assert seen.isolation is not None
    assert seen.isolation.mode == CONTAINER
    assert seen.isolation.not_enforced == ()
    work = folder / "data/work/at_runs/mb_runs"
    assert said.splitlines()[:2] == [str(work.stat().st_uid), str(work)]
    assert work.stat().st_uid > 0
    assert "CapBnd:\t0000000000000000" in said
    assert "NoNewPrivs:\t1" in said
    assert (work / "kept").read_text() == "kept\n"


def test_podmans_failures_are_not_the_programs_and_the_programs_are_not_podmans(
    engine: LocalEngine, image: str
) -> None:
    seen, _ = run(engine, boxed("own", "exit 125", image))
    assert (seen.exit_code, seen.failure) == (125, None)
    missing = boxed("nothing", "", image)
    missing = replace(missing, members=(replace(missing.members[0], command=("/no/such",)),))
    seen, _ = run(engine, missing)
    assert (seen.exit_code, seen.failure_stage, seen.failure) == (None, "launch", "command-not-found")


def test_secrets_stand_in_no_command_line_and_the_projects_variables_reach_it(
    engine: LocalEngine, folder: Path, image: str
) -> None:
    engine.start([boxed("env", "env; echo there; sleep 60", image, env=(("SECRET", "hush = x"),), grace=0)])
    wait_for(engine, "mb_env", lambda _: b"there" in engine.logs("mb_env", 0, 9999).data, SECONDS)
    assert b"SECRET=hush = x\n" in engine.logs("mb_env", 0, 9999).data
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"mb_env" in line for line in lines)
    assert not any(b"hush" in line for line in lines)
    assert (folder / "data/local/members/mb_env/container.env").stat().st_mode & 0o777 == 0o600
    engine.stop(["at_env"], 0)
    wait_free(engine, "at_env", SECONDS)


def test_more_memory_than_declared_is_told_as_such(engine: LocalEngine, image: str) -> None:
    seen, _ = run(engine, boxed("oom", "x=12345678; while true; do x=$x$x; done", image, memory=64))
    assert (seen.failure, seen.failure_stage) == ("oom-killed", "application")


def test_its_time_ends_it(engine: LocalEngine, image: str) -> None:
    seen, _ = run(engine, boxed("slow", "sleep 600", image, time_limit=300_000, grace=60_000_000))
    assert (seen.failure, seen.timed_out) == ("timed-out", True)  # TERM was enough for one without a handler


def test_what_ignores_term_and_what_forked_twice_is_ended(engine: LocalEngine, image: str) -> None:
    script = "trap '' TERM; (setsid setsid sleep 600 &) ; echo up; while true; do sleep 1; done"
    engine.start([boxed("deaf", script, image)])
    wait_for(engine, "mb_deaf", lambda _: b"up" in engine.logs("mb_deaf", 0, 99).data, SECONDS)
    engine.stop(["at_deaf"], 200_000)
    seen = wait_ended(engine, "mb_deaf", SECONDS)
    assert (seen.exit_code, seen.stop_requested) == (137, True)
    wait_free(engine, "at_deaf", SECONDS)


def test_a_handler_of_term_is_given_its_time(engine: LocalEngine, image: str) -> None:
    script = "trap 'echo bye; exit 4' TERM; echo up; while true; do sleep 0.1; done"
    engine.start([boxed("polite", script, image)])
    wait_for(engine, "mb_polite", lambda _: b"up" in engine.logs("mb_polite", 0, 99).data, SECONDS)
    engine.stop(["at_polite"], 60_000_000)
    seen = wait_ended(engine, "mb_polite", SECONDS)
    assert seen.exit_code == 4
    assert b"bye\n" in engine.logs("mb_polite", 0, 99).data


def test_what_is_stopped_before_it_runs_leaves_no_container(engine: LocalEngine, image: str) -> None:
    engine.start([boxed(f"early{number}", "sleep 600", image, grace=0) for number in range(3)])
    engine.stop(["at_early0"], 0)
    wait_for(engine, "mb_early1", lambda seen: seen.sub_stage == "image" or bool(seen.started_at), SECONDS)
    engine.stop(["at_early1", "at_early2"], 0)
    for number in range(3):
        seen = wait_ended(engine, f"mb_early{number}", SECONDS)
        assert (seen.stop_requested, seen.failure) == (True, None)
        wait_free(engine, f"at_early{number}", SECONDS)


@pytest.mark.requirement("F1")
def test_an_image_that_is_not_there_is_not_fetched_unasked(engine: LocalEngine, image: str) -> None:
    seen, _ = run(engine, boxed("absent", "true", "localhost/steelyard-none:1"))
    assert (seen.failure_stage, seen.failure, seen.started_at) == ("image", "image-not-found", None)


def test_a_digest_is_the_images_or_it_does_not_start(engine: LocalEngine, image: str) -> None:
    seen, _ = run(engine, boxed("exact", "exit 3", f"{image}@{containers.digest(image)}"))
    assert (seen.exit_code, seen.failure) == (3, None)
    seen, _ = run(engine, boxed("other", "exit 3", f"{image}@sha256:{'0' * 64}"))
    assert (seen.failure_stage, seen.failure) == ("image", "image-digest-mismatch")


@pytest.mark.requirement("F2")
def test_an_image_for_other_devices_does_not_start(engine: LocalEngine, image: str) -> None:
    name = image.replace(":1", "-npu:1")
    gpu = DeviceBinding("gpu-0", DeviceClass.GPU, "nvidia", "model", 1000, 1024)
    with containers.image(name, "LABEL org.steelyard.class=npu"):
        seen, _ = run(engine, boxed("npu", "true", name))
    assert (seen.failure_stage, seen.failure) == ("image", "image-class-mismatch")
    with containers.image(name, "ENV ASCEND_HOME_PATH=/usr/local/Ascend"):
        seen, _ = run(engine, boxed("ascend", "true", name, devices=(gpu,)))
    assert (seen.failure_stage, seen.failure) == ("image", "image-class-mismatch")


def test_files_and_processes_of_others_are_not_there(engine: LocalEngine, folder: Path, image: str) -> None:
    engine.start([boxed("victim", "echo s > secret; echo up; sleep 60", image, project="other")])
    wait_for(engine, "mb_victim", lambda _: b"up" in engine.logs("mb_victim", 0, 99).data, SECONDS)
    data = folder / "data"
    assert (data / "work/at_victim/mb_victim/secret").exists()
    script = f"ls {data} {data}/work; cat {data}/work/at_victim/mb_victim/secret; ls -d /proc/[0-9]* | wc -l"
    _, said = run(engine, boxed("thief", script, image))
    assert "at_thief" in said
    assert "at_victim/mb_victim/secret': No such file" in said
    assert "local" not in said.replace("/local", "").split()
    assert int(said.split()[-1]) <= 4
    engine.stop(["at_victim"], 0)
    wait_free(engine, "at_victim", SECONDS)


def test_a_command_beside_it_is_in_the_container_and_is_what_it_is(engine: LocalEngine, image: str) -> None:
    engine.start([boxed("beside", "echo up; sleep 600", image)])
    wait_for(engine, "mb_beside", lambda _: b"up" in engine.logs("mb_beside", 0, 99).data, SECONDS)
    script = "id -u; ls /bin/busybox; cat /proc/self/status; exit 6"
    stream = engine.exec("mb_beside", Execution(("/bin/sh", "-c", script)))
    parts: dict[int, bytes] = {}
    while (one := stream.read()) is not None:
        parts[one[0]] = parts.get(one[0], b"") + one[1]
    stream.close()
    assert (json.loads(parts[Channel.STATUS])["code"], parts.get(Channel.STDERR, b"")) == (6, b"")
    uid, program, *status = parts[Channel.STDOUT].decode().splitlines()
    assert int(uid) > 0
    assert program == "/bin/busybox"
    assert {"CapEff:\t0000000000000000", "NoNewPrivs:\t1"} <= set(status)
    engine.stop(["at_beside"], 0)
    wait_free(engine, "at_beside", SECONDS)


def test_a_container_whose_supervisor_was_killed_is_removed(
    engine: LocalEngine, folder: Path, image: str
) -> None:
    engine.start([boxed("orphan", "echo up; sleep 600", image)])
    wait_for(engine, "mb_orphan", lambda _: b"up" in engine.logs("mb_orphan", 0, 99).data, SECONDS)
    assert not engine.probe_release(["at_orphan"])[0].free
    os.kill(notes(folder, "mb_orphan", "run.json")["shim"]["pid"], 9)
    seen = wait_ended(engine, "mb_orphan", SECONDS)
    assert seen.failure == "supervisor-lost"
    wait_free(engine, "at_orphan", SECONDS)
    names = subprocess.run(["podman", "ps", "-a", "--format={{.Names}}"], capture_output=True, text=True)
    assert "steelyard-mb_orphan" not in names.stdout.split()


def test_what_it_goes_on_from_is_there_and_no_folder_that_a_submitter_names(
    engine: LocalEngine, folder: Path, image: str
) -> None:
    run(engine, boxed("first", "echo 41 > step", image))
    script = "cat $STEELYARD_RESUME_DIR/step; echo > $STEELYARD_RESUME_DIR/new"
    seen, said = run(engine, boxed("second", script, image, resume_from="at_first"))
    assert said.startswith("41\n")
    assert "Read-only file system" in said
    (folder / "shown").mkdir(mode=0o755)
    (folder / "shown/file").touch(0o644)
    env = (("STEELYARD_RESUME_DIR", str(folder / "shown")),)
    seen, said = run(engine, boxed("liar", "cat $STEELYARD_RESUME_DIR/file", image, env=env))
    assert seen.exit_code == 1
    assert "No such file" in said


def test_a_container_outlives_the_runner(engine: LocalEngine, folder: Path, image: str) -> None:
    engine.start([boxed("stays", "echo up; while ! test -e go; do sleep 0.1; done; exit 5", image)])
    wait_for(engine, "mb_stays", lambda _: b"up" in engine.logs("mb_stays", 0, 99).data, SECONDS)
    kill_runner(folder)
    seen = wait_for(engine, "mb_stays", lambda _: True, SECONDS)
    assert seen.phase is MemberPhase.RUNNING
    (folder / "data/work/at_stays/mb_stays/go").touch()
    assert wait_ended(engine, "mb_stays", SECONDS).exit_code == 5
    wait_free(engine, "at_stays", SECONDS)
