"""Servers and runners of different releases: adopted where they have a version in common, else watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.engines.local import procfs, protocol
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import EngineUnavailable, MemberPhase, Signal, StartState
from steelyard.locale import LANGUAGES, text
from steelyard.model.resources import Availability
from steelyard.services import doctor
from tests.support.local_engine import (
    attempt,
    end_everything,
    kill_runner,
    make_local_engine,
    member,
    runner_pid,
    sh,
    wait_ended,
    wait_for,
)

#: Holds the folder as a runner does, and answers every greeting with a version that nobody speaks any more.
STAND_IN = """
import fcntl, json, os, socket, sys
data = sys.argv[2]
lock = os.open(data + "/runner.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
os.ftruncate(lock, 0); os.write(lock, b"%d\\n" % os.getpid())
if os.path.exists(data + "/runner.sock"): os.unlink(data + "/runner.sock")
listener = socket.socket(socket.AF_UNIX); os.chdir(data); listener.bind("runner.sock"); listener.listen(8)
print("ready", flush=True)
while True:
    peer = listener.accept()[0]
    line = peer.makefile("rb").readline()
    if line:
        refused = {"id": json.loads(line)["id"], "ok": False, "code": "protocol-version", "text": "0"}
        peer.sendall(json.dumps(refused).encode() + b"\\n")
    peer.close()
"""


@pytest.fixture
def stand_in(engine: LocalEngine, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A runner of version 0, under which two members run that a runner of today started."""
    engine.start([
        attempt("at_1", member("mb_1", ("sleep", "600"))),
        sh("at_2", "trap 'exit 7' TERM; while :; do sleep 0.05; done"),
    ])  # fmt: skip
    for name in ("mb_1", "mb_2"):
        wait_for(engine, name, lambda seen: seen.phase is MemberPhase.RUNNING)
    kill_runner(tmp_path)
    data = str(tmp_path / "data")
    process = subprocess.Popen(
        [sys.executable, "-c", STAND_IN, "--data", data], stdout=subprocess.PIPE, cwd="/"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.wait(10)
    process.stdout.close()


def test_under_a_runner_of_another_version_nothing_new_starts_and_what_runs_is_watched(
    engine: LocalEngine, stand_in: subprocess.Popen[bytes]
) -> None:
    seen = engine.observe(None)
    assert seen.complete
    assert {one.member_id: one.phase for one in seen.members} == {
        "mb_1": MemberPhase.RUNNING, "mb_2": MemberPhase.RUNNING,
    }  # fmt: skip
    (node,) = engine.inventory()
    assert (node.availability, node.reason) == (Availability.UNPLANNED, "runner-protocol")
    able = engine.capabilities()
    assert (able.problem, able.can_exec) == ("runner-protocol", False)
    assert dict(able.problem_params) == {"theirs": "0", "ours": "1, 2, 3"}
    (check,) = doctor._runner("here", engine)
    assert (check.ok, check.code) == (False, "runner-protocol")
    for lang in LANGUAGES:
        assert "1, 2" in text(f"doctor.{check.code}", check.params, lang)
    with pytest.raises(EngineUnavailable) as refused:
        engine.start([attempt("at_3", member("mb_3", ("true",)))])
    assert refused.value.code == "runner-protocol"
    assert {one.member_id for one in engine.sample()} == {"mb_1", "mb_2"}


def _is_followed(engine: LocalEngine) -> bool:
    """Whether a runner of today answers. Between two of them nobody may."""
    try:
        return engine.observe(None).cursor != ""
    except EngineUnavailable:
        return False


def test_it_is_replaced_once_nothing_runs_and_no_end_is_lost(
    engine: LocalEngine, stand_in: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    engine.stop(["at_1"], 5_000_000)
    assert wait_ended(engine, "mb_1").exit_signal == signal.SIGTERM
    assert stand_in.poll() is None  # mb_2 still runs
    engine.signal("at_2", Signal.TERM)
    assert wait_ended(engine, "mb_2").exit_code == 7
    deadline = time.monotonic() + 60
    while not _is_followed(engine):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert stand_in.wait(10) == -signal.SIGTERM
    assert runner_pid(tmp_path) != stand_in.pid
    assert engine.inventory()[0].availability is Availability.AVAILABLE
    assert engine.start([attempt("at_3", member("mb_3", ("true",)))])[0].state is StartState.ACCEPTED
    assert wait_ended(engine, "mb_3").exit_code == 0
    assert wait_ended(engine, "mb_2").exit_code == 7


def test_a_claim_that_can_not_be_read_makes_no_member_lost(
    engine: LocalEngine, stand_in: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    claim = tmp_path / "data/local/claims/at_1.json"
    whole = claim.read_text()
    claim.write_text(json.dumps({"v": 0, "who": "knows"}))
    try:
        assert not engine.observe(None).complete
        assert stand_in.poll() is None
    finally:
        claim.write_text(whole)


@pytest.mark.parametrize("versions", [(1,), (1, 2), (2, 3)])
def test_a_server_and_a_runner_with_a_version_in_common_adopt_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[int, ...]
) -> None:
    monkeypatch.setattr(protocol, "ADOPTABLE", versions)
    engine = make_local_engine(tmp_path)
    try:
        engine.start([attempt("at_1", member("mb_1", ("true",)))])
        assert wait_ended(engine, "mb_1").exit_code == 0
        assert engine.capabilities().protocol == min(versions[-1], protocol.VERSION)
    finally:
        end_everything(engine)


def test_nobody_but_the_runner_of_the_folder_is_told_to_end(engine: LocalEngine, tmp_path: Path) -> None:
    """The number in the lock may be another's by now."""
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        engine.observe(None)
        kill_runner(tmp_path)
        (tmp_path / "data/runner.lock").write_text(f"{stranger.pid}\n")
        assert engine._watcher.observe()["complete"]
        assert procfs.is_alive(stranger.pid, procfs.start_time(stranger.pid) or 0)
        assert stranger.poll() is None
        assert os.path.exists(f"/proc/{stranger.pid}")
    finally:
        stranger.kill()
        stranger.wait(10)
