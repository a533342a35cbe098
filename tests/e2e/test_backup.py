"""A backup taken while workloads run and are submitted, restored, and proven against its head."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.evidence.checkpoint import parse_checkpoint, parse_note, short_code
from steelyard.evidence.merkle import verify_consistency
from tests.support import postgresql
from tests.support.books import check_books
from tests.support.server import OPEN_DOCUMENTS, PROGRAM, Server, environment

LONG = 6  # workloads that run across the backup


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server with this machine as its cluster."""
    on_sqlite = request.param == "sqlite"
    database = "" if on_sqlite else request.getfixturevalue("postgresql_database")
    made = Server(tmp_path / "data", database=database)
    try:
        made.start()
        made.apply(OPEN_DOCUMENTS)
        yield made
    finally:
        made.close()


def steelyard(folder: Path, *arguments: str) -> str:
    """A command of the operator; what it says."""
    done = subprocess.run(
        [str(PROGRAM), *arguments, "--lang", "en"], env=environment(folder), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Load:
    """Submits until it is stopped."""

    def __init__(self, server: Server, marks: Path) -> None:
        self._server, self._marks = server, marks
        marks.mkdir()
        self._stop = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        self._server.wait_for(lambda: self.count >= 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            name = f"short-{self.count}"
            script = f"echo $STEELYARD_ATTEMPT >> {self._marks}/{name}"
            self._server.submit(name, ["/bin/sh", "-c", script], key=name)
            self.count += 1


@pytest.mark.requirement("K8")
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_backup_under_load_is_restored_and_its_log_proves_that_it_goes_on(
    server: Server, tmp_path: Path, request: pytest.FixtureRequest, whole: bool
) -> None:
    gate, file = tmp_path / "gate", tmp_path / "copy.zip"
    wait = f"while [ ! -e {gate} ]; do sleep 0.1; done; exit "
    ids = [server.submit(f"long-{n}", ["/bin/sh", "-c", wait + str(n + 1)]) for n in range(LONG)]
    server.wait_for(lambda: {server.get(f"/v1/workloads/{i}")["phase"] for i in ids} == {"running"})
    where = ["--data", str(server.folder), *(["--database", server.database] if server.database else [])]
    with Load(server, tmp_path / "marks") as load:
        said = steelyard(tmp_path, "backup", str(file), *where)
        taken_at = load.count
        server.wait_for(lambda: load.count >= taken_at + 3)
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert "private key of the log is not in it" in said
    fingerprint = server.get("/v1/audit/checkpoint")["key"]["fingerprint"]
    assert fingerprint in steelyard(tmp_path, "backup", "verify", str(file), "--key", fingerprint)
    server.kill()
    gate.touch()  # they end while no server is there: the runner alone sees how
    if server.database:
        with postgresql.fresh_database(request.getfixturevalue("postgresql_server")) as fresh:
            server.database = fresh
            prove(server, tmp_path, file, ids, fingerprint)
            if whole:
                wait_lost(server, tmp_path / "marks", file)
            server.kill()
    else:
        for path in server.folder.glob("steelyard.db*"):
            path.unlink()
        prove(server, tmp_path, file, ids, fingerprint)
        if whole:
            wait_lost(server, tmp_path / "marks", file)


def prove(server: Server, tmp_path: Path, file: Path, ids: list[str], fingerprint: str) -> None:
    """Restored and started: the work is adopted, the books hold, the old head is the new one's beginning."""
    where = ["--data", str(server.folder), *(["--database", server.database] if server.database else [])]
    said = steelyard(tmp_path, "restore", str(file), *where, "--key", fingerprint)
    assert "checkpoint of the restored log is signed" in said
    head = manifest_head(file)
    server.launch()
    server.wait_ready()
    assert server.client.get("/v1/me").status_code == 401, "sessions end"
    server.sign_in()
    server.wait_for(lambda: {server.get(f"/v1/workloads/{i}")["phase"] for i in ids} == {"finished"})
    codes = [server.get(f"/v1/workloads/{i}")["attempts"][0]["members"][0]["exit_code"] for i in ids]
    assert codes == [n + 1 for n in range(LONG)]
    check_books(server)
    size, root = head
    proof = server.get("/v1/audit/consistency", **{"from": size})
    new = server.get("/v1/audit/checkpoint")
    steps = [
        bytes.fromhex(step)
        for step in server.get("/v1/audit/consistency", **{"from": size, "to": new["size"]})["proof"]
    ]
    assert proof["to"] >= new["size"] > size
    assert verify_consistency(size, new["size"], steps, bytes.fromhex(root), bytes.fromhex(new["root"]))
    verify_bundle(server, tmp_path / "bundle", file, fingerprint)


def waiting(file: Path) -> set[str]:
    """Names of what waited when the copy was made."""
    with zipfile.ZipFile(file) as archive:
        files = json.loads(archive.read("manifest.json"))["files"]
        (entry,) = (one for one in files if one["path"] == "rows/workload.jsonl")
        rows = [json.loads(line) for line in archive.read(entry["path"]).splitlines()]
    named = [dict(zip(entry["columns"], row, strict=True)) for row in rows]
    return {row["name"] for row in named if row["phase"] == "queued"}


def wait_lost(server: Server, marks: Path, file: Path) -> None:
    """What had started at the copy and ended since is not known to end well, and is not run again."""
    server.wait_for(lambda: {r["phase"] for r in server.pages("/v1/workloads")} == {"finished"}, 180.0, 0.5)
    for row in server.pages("/v1/workloads"):
        for attempt in server.get(f"/v1/workloads/{row['id']}")["attempts"]:
            if attempt["outcome"] == "lost":
                assert [member["exit_code"] for member in attempt["members"]] == [None]
    lines = {path.name: path.read_text().split() for path in marks.iterdir()}
    twice = {name for name, attempts in lines.items() if len(set(attempts)) < len(attempts)}
    assert twice <= waiting(file), "an attempt that had started is not started again (a lost one is retried)"
    check_books(server)


def manifest_head(file: Path) -> tuple[int, str]:
    """(size, root) as the copy has them."""
    with zipfile.ZipFile(file) as archive:
        log = json.loads(archive.read("manifest.json"))["log"]
    return log["size"], log["root"]


def verify_bundle(server: Server, folder: Path, file: Path, fingerprint: str) -> None:
    """The bundle's own verifier finds the anchor of the copied head in the log that goes on."""
    with zipfile.ZipFile(file) as copy:
        note = json.loads(copy.read("manifest.json"))["log"]["note"]
    anchor = short_code(parse_checkpoint(parse_note(note).body))
    answer = server.client.post("/v1/audit/bundle", json={}, timeout=120.0)
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        archive.extractall(folder, filter="data")
    command = [sys.executable, str(folder / "verify" / "verify.py"), str(folder)]
    done = subprocess.run(
        [*command, "--key", fingerprint, "--anchor", anchor], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "restored from a backup" in done.stdout
