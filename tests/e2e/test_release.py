"""The whole way of a release that can't be proven, on a real server and by its command line: a program that
ignores TERM and double forks, a mount, its port, a file and shared memory that somebody else holds; never
offered meanwhile; quarantined with reasons; refused, fenced, proven free; next on the same device."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local import kerneltables
from tests.support.books import check_books
from tests.support.server import LOCAL_DOCUMENTS, PROGRAM, Server, environment, running

#: Ignores TERM, double forks into a session of its own without its mark, leaves files and shared memory.
STUBBORN = """
import ctypes, os, signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
tmp = Path(os.environ["TMPDIR"])
(tmp / "mnt").mkdir()
(tmp / "held").write_text("precious")
(Path(os.environ["STEELYARD_ARTIFACTS"]) / "model").write_text("model")
segment = ctypes.CDLL(None).shmget(0, 65536, 0o1600)
print("up", os.environ["STEELYARD_PORT"], segment, flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["none", pytest.param("auto", marks=pytest.mark.soak)])
def mode(request: pytest.FixtureRequest) -> str:
    """How projects are kept apart."""
    return str(request.param)


@pytest.fixture
def server(tmp_path: Path, mode: str) -> Iterator[Server]:
    """A server whose releases must be proven within two seconds."""
    spec = f"spec: {{engine: local, releaseWithin: 2s, isolation: {{mode: {mode}}}}}"
    documents = LOCAL_DOCUMENTS.replace("spec: {engine: local}", spec, 1)
    with running(tmp_path / "data", documents) as made:
        yield made


def cli(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the installed program says."""
    token = server.client.headers["Authorization"].partition(" ")[2]
    env = {
        **environment(server.folder.parent),
        "STEELYARD_URL": f"http://127.0.0.1:{server.port}",
        "STEELYARD_TOKEN": token,
    }
    return subprocess.run(
        [str(PROGRAM), *arguments, "--lang", "en"], env=env, capture_output=True, text=True, timeout=120
    )


def view(server: Server, workload: str) -> Any:
    return server.get(f"/v1/workloads/{workload}")


def phase(server: Server, workload: str) -> str:
    return str(view(server, workload)["phase"])


def cores(server: Server) -> dict[str, int]:
    """held, free and unavailable milli-cores of the machine."""
    rows = server.get("/v1/inventory/summary")["classes"]
    found = [row for row in rows if row["class"] == "cpu"]
    return {part: sum(row[part] for row in found) for part in ("held", "free", "unavailable")}


def said(server: Server, workload: str) -> list[str]:
    """Its port and its segment, once it is up."""

    def words() -> list[str] | None:
        answer = server.client.get(f"/v1/workloads/{workload}/logs")
        text = base64.b64decode(answer.json()["data_base64"]).decode() if answer.is_success else ""
        return text.split()[1:3] if text.endswith("\n") else None

    return list(server.wait_for(words))


@contextlib.contextmanager
def strangers(mode: str, port: int, segment: int, held: Path) -> Iterator[None]:
    """This process has the file open, listens on the port, and is attached to the shared memory, which in a
    mode with namespaces is not to be had from outside."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    at = libc.shmat(segment, None, 0) if mode == "none" else None
    try:
        with open(held, "rb"), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            listener.listen()
            yield
    finally:
        if at is not None:
            assert libc.shmdt(at) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.requirement("G1", "G2", "G3", "G4", "G7", "G8", "G9", "G10", "G11", "G12")
def test_what_can_not_be_proven_free_is_kept_back_until_it_is(
    server: Server, tmp_path: Path, mode: str
) -> None:
    whole = server.wait_for(lambda: cores(server)["free"])
    first = server.submit(
        "stubborn", ["python3", "-c", STUBBORN], requests={"cpu": f"{whole}m", "memory": "64Mi"}, grace="1s",
        role={"port": True},
    )  # fmt: skip
    port, segment = map(int, said(server, first))
    attempt = view(server, first)["attempts"][0]
    work = server.folder / "work" / attempt["id"] / attempt["members"][0]["id"]
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    point = work / "tmp/mnt"
    subprocess.run(["mount", "--bind", precious, point], check=True)
    try:
        with strangers(mode, port, segment, work / "tmp/held"):
            server.post(f"/v1/workloads/{first}/cancel")
            server.wait_for(lambda: phase(server, first) == "finished", every=0.05)
            _is_kept_back(server, first, whole, mode)
            _is_refused_and_fenced(server, first, point)
            assert (precious / "file").read_text() == "kept"
        _is_proven(server, first, whole)
    finally:
        if kerneltables.mounts_below(str(point)):
            subprocess.run(["umount", point], check=True)
    assert (work / "artifacts/model").read_text() == "model"
    check_books(server)


def _is_kept_back(server: Server, first: str, whole: int, mode: str) -> None:
    """Quarantined with every reason, and not offered however long somebody waits."""
    attempt = view(server, first)["attempts"][0]
    assert attempt["receipt"]["state"] == "quarantined"
    assert attempt["unproven"]["state"] == "quarantined"
    receipt = attempt["receipt"]
    assert receipt["counts"]["processes"] >= 1  # it ignored TERM, and its grandchild left its session
    order = [receipt[name] for name in ("requested_at", "ended_at", "probed_at", "confirmed_at")]
    assert order == sorted(order)
    checks = {reason["check"] for reason in attempt["receipt"]["reasons"]}
    wanted = {"mounts", "temporary-files", "open-files", "port"}
    assert wanted | ({"shared-memory"} if mode == "none" else set()) <= checks
    assert cores(server) == {"held": 0, "free": 0, "unavailable": whole}
    waits = server.submit("next", ["/bin/true"])
    listed = cli(server, "release", "list")
    assert (listed.returncode, "stubborn" in listed.stdout, "quarantined" in listed.stdout) == (0, True, True)
    shown = cli(server, "release", "show", "stubborn")
    assert (shown.returncode, "left behind: mount " in shown.stdout) == (0, True), shown
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert phase(server, waits) == "queued"
        assert cores(server)["free"] == 0
        time.sleep(0.2)


def _is_refused_and_fenced(server: Server, first: str, point: Path) -> None:
    """A new probe refuses; a fence takes the mount away and leaves the stranger alone."""
    refused = cli(server, "release", "confirm", "stubborn")
    assert (refused.returncode, "stays in quarantine" in refused.stdout) == (1, True), refused
    assert cli(server, "release", "fence", "stubborn").returncode == 2  # no reason given
    fenced = cli(server, "release", "fence", first, "--reason", "left a mount")
    assert (fenced.returncode, "mounts taken away: 1" in fenced.stdout) == (1, True), fenced
    assert f"process {os.getpid()} (" in fenced.stdout
    assert not kerneltables.mounts_below(str(point))
    assert cores(server)["free"] == 0


def _is_proven(server: Server, first: str, whole: int) -> None:
    """Once the stranger let go, by proof; the waiting workload is next on the same device."""
    done = cli(server, "release", "confirm", "stubborn", "--reason", "looked at it")
    assert (done.returncode, "proven free" in done.stdout) == (0, True), done
    server.wait_for(lambda: cores(server)["free"] == whole)
    release = server.get("/v1/releases", closed=True)["items"][0]
    assert (release["state"], release["answer"]["reason"]) == ("proven", "looked at it")
    assert all(item["t1"] == release["closed_at"] for item in release["held"])
    (following,) = server.get("/v1/workloads", q="next")["items"]
    server.wait_for(lambda: phase(server, following["id"]) == "finished")
    devices = {d["device"] for m in view(server, first)["attempts"][0]["members"] for d in m["devices"]}
    then = view(server, following["id"])["attempts"][0]
    assert {d["device"] for m in then["members"] for d in m["devices"]} <= devices
    holders = {one["attempt"] for one in view(server, first)["attempts"][0]["next_holders"]}
    assert holders == {then["id"]}
