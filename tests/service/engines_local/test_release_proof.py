"""The live probe on real processes and real leftovers: what it sees, what is removed and counted, what a
fence ends, and that no stranger is touched. Each test lets go of what it held itself."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.engines.local import cards as cards_module
from steelyard.engines.local import kerneltables
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import USER_ID, Wish
from steelyard.engines.port import DeviceBinding, ReleaseProbe
from steelyard.model.resources import DeviceClass
from tests.support.local_engine import (
    attempt,
    end_everything,
    kill_runner,
    make_local_engine,
    member,
    sh,
    wait_ended,
    wait_for,
    wait_free,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
SHARED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
name = libc.shmget(0, 65536, 0o1600)
print("segment", name, flush=True)
time.sleep(float(sys.argv[1]))
"""


def probe(engine: LocalEngine, name: str = "at_1") -> ReleaseProbe:
    return engine.probe_release([name])[0]


def wait_seen(engine: LocalEngine, text: str, seconds: float = 15.0) -> ReleaseProbe:
    """The first probe in whose residue the text stands and nothing else is left."""
    deadline = time.monotonic() + seconds
    while True:
        seen = probe(engine)
        if len(seen.residue) == 1 and text in seen.residue[0]:
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)


def said(engine: LocalEngine, text: bytes) -> bytes:
    """The member's log, once something stands in it."""
    wait_for(engine, "mb_1", lambda _seen: text in engine.logs("mb_1", 0, 4096).data)
    return engine.logs("mb_1", 0, 4096).data


@contextmanager
def attached(segment: int) -> Iterator[None]:
    """This process has the segment in its memory."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    at = libc.shmat(segment, None, 0)
    assert at not in (None, ctypes.c_void_p(-1).value)
    try:
        yield
    finally:
        assert libc.shmdt(at) == 0


@pytest.mark.requirement("G1", "G2", "G11")
def test_what_was_ended_and_removed_is_counted(engine: LocalEngine) -> None:
    script = (
        "for i in 1 2 3; do printf 0123456789 > $TMPDIR/$i; done; mkdir $TMPDIR/in; echo x > $TMPDIR/in/4; "
        "setsid sh -c 'trap \"\" TERM; sleep 300' & (sleep 300 &) ; echo kept > $STEELYARD_ARTIFACTS/model"
    )
    engine.start([sh("at_1", script)])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    seen = probe(engine)
    cleared = dict(seen.cleared)
    assert cleared["processes"] >= 2
    assert (cleared["files"], cleared["bytes"]) == (4, 32)
    assert (dict(seen.checks)["kept-files"], dict(seen.numbers)["kept-files"]) == ("kept", 1)
    assert set(dict(seen.numbers)) == set(dict(seen.checks))


@pytest.mark.requirement("G2", "G3")
def test_a_process_that_hides_its_mark_and_leaves_its_session_is_ended_all_the_same(
    engine: LocalEngine,
) -> None:
    script = "env -i setsid sh -c 'trap \"\" TERM; echo $$ > /dev/null; sleep 300' & sleep 0.2; exit 0"
    engine.start([sh("at_1", script)])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    assert dict(probe(engine).cleared)["processes"] >= 1


@pytest.mark.requirement("G1", "G2")
def test_system_v_shared_memory_is_removed_with_the_program_that_made_it(engine: LocalEngine) -> None:
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", SHARED, "0")))])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    cleared = dict(probe(engine).cleared)
    assert (cleared["shared-memory"], cleared["shared-bytes"]) == (1, 65536)
    segment = int(said(engine, b"segment").split()[1])
    assert segment not in {one.id for one in kerneltables.all_objects() if one.kind == "shm"}


@pytest.mark.requirement("G2", "G3", "G8")
def test_shared_memory_that_a_stranger_is_attached_to_is_held_until_it_is_not(engine: LocalEngine) -> None:
    engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", SHARED, "300")))])
    segment = int(said(engine, b"segment").split()[1])
    with attached(segment):
        engine.stop(["at_1"], 0)
        wait_ended(engine, "mb_1")
        seen = wait_seen(engine, f"shm {segment}: 65536 bytes, 1 attached")
        assert seen.free is False
        assert engine.fence(["at_1"])[0].left == seen.residue
    wait_free(engine, "at_1")


@pytest.mark.requirement("G2")
def test_a_strangers_shared_memory_that_a_program_used_last_is_left_alone(engine: LocalEngine) -> None:
    libc = ctypes.CDLL(None)
    strangers = libc.shmget(0, 4096, 0o1600)
    try:
        uses = f"import ctypes; ctypes.CDLL(None).shmat({strangers}, None, 0)"
        engine.start([attempt("at_1", member("mb_1", (sys.executable, "-c", uses)))])
        wait_ended(engine, "mb_1")
        wait_free(engine, "at_1")
        assert strangers in {one.id for one in kerneltables.all_objects() if one.kind == "shm"}
    finally:
        assert libc.shmctl(strangers, 0, None) == 0


@pytest.mark.requirement("G1", "G2")
def test_posix_shared_memory_that_bears_its_name_is_removed_and_no_other(engine: LocalEngine) -> None:
    strangers = Path(f"/dev/shm/stranger-{os.getpid()}")
    strangers.write_bytes(b"x")
    try:
        script = "printf 12345 > /dev/shm/$STEELYARD_MEMBER-cache; printf 1234 > /dev/shm/psm_$$; exit 0"
        engine.start([sh("at_1", script)])
        wait_ended(engine, "mb_1")
        wait_free(engine, "at_1")
        cleared = dict(probe(engine).cleared)
        assert (cleared["shared-memory"], cleared["shared-bytes"]) == (2, 9)
        assert strangers.read_bytes() == b"x"
    finally:
        strangers.unlink()


@needs_root
@pytest.mark.requirement("G2", "G3", "G8", "G11")
def test_a_mount_is_held_and_what_is_in_it_survives_until_a_fence_takes_it_away(
    engine: LocalEngine, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    engine.start([sh("at_1", "mkdir $TMPDIR/mnt; echo up; sleep 300")])
    said(engine, b"up")
    point = tmp_path / "data/work/at_1/mb_1/tmp/mnt"
    subprocess.run(["mount", "--bind", precious, point], check=True)
    try:
        engine.stop(["at_1"], 0)
        wait_ended(engine, "mb_1")
        deadline = time.monotonic() + 15
        while len(left := probe(engine).residue) != 2:
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        assert left == (f"mount {point}", "temporary files of mb_1: 1, 4 bytes")
        fenced = engine.fence(["at_1"])[0]
        assert (dict(fenced.done)["mounts"], fenced.left) == (1, ())
    finally:
        if kerneltables.mounts_below(str(point)):
            subprocess.run(["umount", point], check=True)
    assert probe(engine).free is True
    assert (precious / "file").read_text() == "kept"
    assert not point.parent.exists()


@pytest.mark.requirement("G2", "G11")
@pytest.mark.parametrize("how", ["temporary", "log"])
def test_a_file_that_a_stranger_has_open_is_held_and_no_fence_touches_the_stranger(
    engine: LocalEngine, tmp_path: Path, how: str
) -> None:
    engine.start([sh("at_1", "echo x > $TMPDIR/file; echo up; sleep 300")])
    said(engine, b"up")
    work, log = tmp_path / "data/work/at_1/mb_1/tmp/file", tmp_path / "data/local/logs/mb_1.log"
    with open(work if how == "temporary" else log, "ab"):
        engine.stop(["at_1"], 0)
        wait_ended(engine, "mb_1")
        seen = wait_seen(engine, f"process {os.getpid()} (")
        assert ("(deleted)" in seen.residue[0]) == (how == "temporary")
        assert engine.fence(["at_1"])[0].left == seen.residue
    assert probe(engine).free is True


@pytest.mark.requirement("G12")
def test_whoever_reads_what_is_kept_holds_nothing(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "echo model > $STEELYARD_ARTIFACTS/model")])
    wait_ended(engine, "mb_1")
    with open(tmp_path / "data/work/at_1/mb_1/artifacts/model", "rb") as kept:
        wait_free(engine, "at_1")
        assert dict(probe(engine).checks)["open-files"] == "read-only"
        assert kept.read() == b"model\n"


@pytest.mark.requirement("G2", "G3")
def test_the_port_is_held_by_whoever_listens_on_it_and_named(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "echo $STEELYARD_PORT up; sleep 300", port=True)])
    port = int(said(engine, b"up").split()[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        engine.stop(["at_1"], 0)
        wait_ended(engine, "mb_1")
        wait_seen(engine, f": port {port}")
    assert probe(engine).free is True


@pytest.mark.requirement("G2", "G3", "G8")
def test_a_device_is_held_by_whoever_opened_it_since_and_free_for_those_before(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "device0"
    stand_in.write_bytes(b"")
    monkeypatch.setattr(cards_module, "device_files", lambda _bound: (str(stand_in),))
    binding = DeviceBinding("GPU-0", DeviceClass.GPU, "nvidia", "A100", 1000)
    with open(stand_in, "rb"):  # the machine's own: it had the device before
        engine.start([sh("at_1", "echo up; sleep 300", devices=(binding,))])
        said(engine, b"up")
        holder = subprocess.Popen(
            ["/bin/sh", "-c", f"exec 3<{stand_in}; echo open; exec sleep 300"], stdout=subprocess.PIPE
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"open\n"
            engine.stop(["at_1"], 0)
            wait_ended(engine, "mb_1")
            wait_seen(engine, f"process {holder.pid} (sleep): device {stand_in}")
            assert engine.fence(["at_1"])[0].left == (f"process {holder.pid} (sleep): device {stand_in}",)
            assert holder.poll() is None
        finally:
            holder.kill()
            holder.wait()
            if holder.stdout is not None:
                holder.stdout.close()
        assert probe(engine).free is True


@pytest.mark.requirement("G2", "G8")
def test_a_socket_left_in_the_work_folder_is_held_by_whoever_has_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    engine.start([sh("at_1", "exit 0")])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    path = tmp_path / "data/work/at_1/mb_1/s"
    with socket.socket(socket.AF_UNIX) as left:
        if len(str(path)) > 100:
            pytest.skip("the path of the test's folder is too long for a socket's name")
        left.bind(str(path))
        assert probe(engine).residue == (f"socket {path}",)
    assert probe(engine).free is True


@pytest.mark.requirement("G8")
def test_a_fence_ends_what_bears_the_mark_and_nothing_else(engine: LocalEngine, tmp_path: Path) -> None:
    mine = {"STEELYARD_INSTALL": f"in_{os.getpid()}", "STEELYARD_ATTEMPT": "at_1", "PATH": os.defpath}
    other = {**mine, "STEELYARD_ATTEMPT": "at_2"}
    engine.start([sh("at_1", "exit 0"), sh("at_2", "exit 0")])
    wait_ended(engine, "mb_1")
    wait_ended(engine, "mb_2")
    left = subprocess.Popen(["sleep", "300"], env=mine)
    strangers = subprocess.Popen(["sleep", "300"], env=other)
    try:
        wait_seen(engine, f"process {left.pid} (sleep)")
        fenced = engine.fence(["at_1"])[0]
        assert dict(fenced.done) == {"processes": 1}
        assert left.wait(10) == -9
        assert probe(engine).free is True
        assert strangers.poll() is None
        assert probe(engine, "at_2").free is False
    finally:
        for process in (left, strangers):
            process.kill()
            process.wait()


@pytest.mark.requirement("G2")
def test_one_look_serves_a_whole_batch(engine: LocalEngine) -> None:
    names = [f"at_{number}" for number in range(1, 21)]
    engine.start([sh(name, "exit 0") for name in names])
    for name in names:
        wait_ended(engine, "mb_" + name[3:])
        wait_free(engine, name)
    assert all(one.free for one in engine.probe_release([*names, "at_unknown"]))


def test_the_proof_does_not_need_the_runner(engine: LocalEngine, tmp_path: Path) -> None:
    engine.start([sh("at_1", "echo x > $TMPDIR/a; exit 0")])
    wait_ended(engine, "mb_1")
    wait_free(engine, "at_1")
    before = probe(engine)
    kill_runner(tmp_path)
    after = probe(engine)
    assert (after.checks, after.cleared, after.free) == (before.checks, before.cleared, True)


@needs_root
@pytest.mark.requirement("G2", "G3")
def test_a_process_of_the_projects_user_that_nobody_answers_for_is_held(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path, isolation=Wish(USER_ID))
    try:
        engine.start([sh("at_1", "echo up; sleep 300"), sh("at_2", "echo up; env -i sleep 300")])
        said(engine, b"up")
        claim = json.loads((tmp_path / "data/local/claims/at_1.json").read_text())
        stray = subprocess.Popen(["sleep", "300"], user=claim["isolation"]["user"], env={}, cwd="/")
        try:
            engine.stop(["at_1"], 0)
            wait_ended(engine, "mb_1")
            wait_seen(engine, f"process {stray.pid} (sleep)")
            assert dict(probe(engine).checks)["user-processes"] == "remains"
            assert engine.fence(["at_1"])[0].left == (f"process {stray.pid} (sleep)",)
            assert stray.poll() is None
        finally:
            stray.kill()
            stray.wait()
        assert probe(engine).free is True  # at_2 runs on as the same user, below its own shim
    finally:
        end_everything(engine)
