"""The environment stage with real processes: what is missing is named before anything of the program runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local import environment, launch
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import BUBBLEWRAP, HOST, USER_ID, Confinement, Wish
from steelyard.engines.local.surroundings import Surroundings
from steelyard.engines.port import DeviceBinding
from steelyard.model.resources import DeviceClass
from tests.support.local_engine import (
    attempt,
    end_everything,
    make_local_engine,
    member,
    notes,
    wait_ended,
    wait_for,
    wait_free,
)

NPU = DeviceBinding("npu-999", DeviceClass.NPU, "ascend", "910B", 1000)
GPU = DeviceBinding("GPU-7", DeviceClass.GPU, "nvidia", "A100", 1000)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"requires": ("bin:no-such-program",)}, "program-missing", "no-such-program"),
        ({"requires": ("python:numpy>=99",)}, "module-version", "numpy>=99 ("),
        ({"requires": ("python:json", "module:no_such_module")}, "module-missing", "no_such_module"),
        ({"requires": ("lib:libno-such.so.12",)}, "library-missing", "libno-such.so.12"),
        ({"requires": ("class:npu",), "devices": (GPU,)}, "environment-mismatch", "npu: npu; given: gpu"),
        ({"requires": ("python:torch_npu",), "devices": (GPU,)}, "environment-mismatch", "torch_npu"),
        ({"requires": ("class:gpu",)}, "environment-mismatch", "gpu: gpu; given: -"),
        ({"devices": (NPU,)}, "device-file-missing", "/dev/davinci999"),
    ],
)
def test_what_is_missing_is_a_failure_of_the_environment(
    engine: LocalEngine, tmp_path: Path, fields: dict[str, Any], code: str, said: str
) -> None:
    engine.start([attempt("at_1", member("mb_1", ("touch", str(tmp_path / "ran")), **fields))])
    seen = wait_ended(engine, "mb_1")
    assert (seen.failure_stage, seen.failure, seen.exit_code) == ("environment", code, None)
    assert said in (seen.failure_text or "")
    assert not (tmp_path / "ran").exists()


def test_modules_are_asked_for_once_also_when_the_supervisor_dies_meanwhile(
    engine: LocalEngine, tmp_path: Path
) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\nsleep 60\n")
    python.chmod(0o755)
    engine.start([attempt("at_1", member("mb_1", (str(python), "x"), requires=("python:json",)))])
    wait_for(engine, "mb_1", lambda _: (tmp_path / "asked").exists())
    os.kill(notes(tmp_path, "mb_1", "run.json")["shim"]["pid"], signal.SIGKILL)
    assert wait_ended(engine, "mb_1").failure == "supervisor-lost"
    wait_free(engine, "at_1")
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_what_is_there_lets_it_start(engine: LocalEngine) -> None:
    needed = ("sh", "bin:cat", "python:json", "python:numpy>=1,<99", "lib:libc.so.6", "class:gpu")
    engine.start([attempt("at_1", member("mb_1", ("true",), requires=needed, devices=(GPU,)))])
    assert wait_ended(engine, "mb_1").exit_code == 0


def test_a_script_of_an_interpreter_that_is_not_there_never_starts(
    engine: LocalEngine, tmp_path: Path
) -> None:
    script = tmp_path / "run"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    engine.start([attempt("at_1", member("mb_1", (str(script),)))])
    seen = wait_ended(engine, "mb_1")
    assert (seen.failure_stage, seen.failure) == ("environment", "interpreter-missing")


def test_modules_are_asked_of_the_interpreter_that_will_run(engine: LocalEngine, tmp_path: Path) -> None:
    """A script's own interpreter answers, not the one that Steelyard runs in."""
    script = tmp_path / "run"
    script.write_text(f"#!{tmp_path}/python3\n")
    own = tmp_path / "python3"
    own.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without its installed packages
    for path in (script, own):
        path.chmod(0o755)
    engine.start([attempt("at_1", member("mb_1", (str(script),), requires=("python:numpy",)))])
    assert wait_ended(engine, "mb_1").failure == "module-missing"


def test_a_check_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PROBE_SECONDS", 0.2)
    hangs = tmp_path / "python3"
    hangs.write_text("#!/bin/sh\nsleep 600 & exec sleep 600\n")
    hangs.chmod(0o755)
    found = environment.check(
        {"image": None, "requires": ["python:json"], "command": [str(hangs)]},
        launch.Program("", [], {"PATH": "/usr/bin:/bin"}, str(tmp_path), 2, (), None, (256, 256)),
    )
    assert found is not None
    assert (found.stage, found.code) == ("environment", "environment-timeout")


@pytest.mark.parametrize("mode", [USER_ID, BUBBLEWRAP])
def test_isolated_members_are_asked_in_their_own_surroundings(tmp_path: Path, mode: str) -> None:
    engine = make_local_engine(tmp_path, isolation=Wish(mode))
    try:
        why = dict(engine.capabilities().isolation_modes).get(mode)
        if why is not None:
            pytest.skip(f"{mode}: {why}")
        wanted = ("python:json", "bin:sh", "lib:libc.so.6")
        engine.start([
            attempt("at_1", member("mb_1", ("true",), requires=wanted)),
            attempt("at_2", member("mb_2", ("true",), requires=("python:no_such_module",))),
        ])  # fmt: skip
        assert wait_ended(engine, "mb_1").exit_code == 0
        assert wait_ended(engine, "mb_2").failure == "module-missing"
    finally:
        end_everything(engine)


def test_a_device_file_is_looked_at_as_the_projects_user(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.touch()
    group = path.stat().st_gid
    around = Confinement(USER_ID, HOST, 54_321, Surroundings(()), str(tmp_path), True, (group,))
    found = []
    for mode, groups in ((0o600, (group,)), (0o660, (group,)), (0o660, ()), (0o666, ())):
        path.chmod(mode)
        device = {"class": "gpu", "files": [str(path)]}
        failure = environment._check_devices([device], around._replace(groups=groups))
        found.append(None if failure is None else failure.code)
    assert found == ["device-not-accessible", None, "device-not-accessible", None]
