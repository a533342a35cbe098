"""Folders, ports, files and disks that a server can't use: it says so by a code and leaves no process."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.books import check_books
from tests.support.server import (
    OPEN_DOCUMENTS,
    PROGRAM,
    Server,
    environment,
    free_port,
    processes_of,
    running,
)

LEAKS = ("Traceback", "sqlalchemy", "site-packages")
AS_NOBODY = """
import os, sys
from pathlib import Path
from steelyard.bootstrap import up
from steelyard.model.errors import SteelyardError
os.setgid(65534); os.setuid(65534)
try:
    up(Path(sys.argv[1]), "127.0.0.1", 0, "en")
except SteelyardError as error:
    print(f"[{error.code}]", file=sys.stderr); sys.exit(1)
"""


def start_fails(folder: Path, lang: str = "en", port: int | None = None) -> tuple[str, str]:
    """(code, what it said) of a server that ends at once."""
    where = ["--data", str(folder), "--port", str(port or free_port()), "--lang", lang]
    done = subprocess.run(
        [str(PROGRAM), "up", *where],
        env=environment(folder.parent),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout
    assert not any(leak in done.stderr for leak in LEAKS), done.stderr
    assert processes_of(folder) == []
    return said_code(done.stderr), done.stderr


def said_code(text: str) -> str:
    """The code that ends an error message."""
    found = re.search(r"\[([a-z-]+)\]\s*$", text)
    assert found, text
    return found[1]


def test_a_data_folder_that_is_a_file_is_refused_in_both_languages(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    english = start_fails(tmp_path / "data")
    chinese = start_fails(tmp_path / "data", "zh")
    assert english[0] == chinese[0] == "data-folder-unusable"
    assert english[1] != chinese[1]
    assert (tmp_path / "data").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else's")
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_a_data_folder_of_somebody_else_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, said_code(done.stderr)) == (1, "data-folder-unusable")
    assert list(folder.iterdir()) == []


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "victim").write_text("precious")
    (folder / "server.lock").symlink_to(tmp_path / "victim")
    assert start_fails(folder)[0] == "data-folder-unusable"
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_second_server_on_a_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with running(tmp_path / "data") as first:
        second = Server(first.folder)
        second.launch()
        assert second.process is not None
        assert second.process.wait(60) == 1
        assert said_code(second.said().replace(first.said(), "") or second.said()) == "data-folder-in-use"
        assert first.get("/v1/me")["name"] == "admin"


def test_a_port_in_use_or_out_of_range_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert start_fails(tmp_path / "data", port=taken.getsockname()[1])[0] == "port-unusable"
    assert start_fails(tmp_path / "data", port=70000)[0] == "port-unusable"


@pytest.fixture(scope="module")
def used_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with some history, no server on it."""
    folder = tmp_path_factory.mktemp("used") / "data"
    with running(folder) as server:
        server.stop()
    return folder


@pytest.mark.parametrize(
    "damage", ["no database", "cut short", "random pages", "a folder", "a link to nothing"]
)
def test_a_damaged_database_is_said_and_not_touched(tmp_path: Path, used_folder: Path, damage: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(used_folder, folder, ignore=shutil.ignore_patterns("*.sock", "hints"))
    file = folder / "steelyard.db"
    whole = file.read_bytes()
    file.unlink()
    if damage == "no database":
        file.write_bytes(b"not a database, but long enough to look like one. " * 500)
    elif damage == "cut short":
        file.write_bytes(whole[: len(whole) // 3 + 77])
    elif damage == "random pages":
        file.write_bytes(whole[:4096] + random.Random(5).randbytes(len(whole) - 4096))
    elif damage == "a folder":
        file.mkdir()
    else:
        file.symlink_to(tmp_path / "nothing" / "here")
    before = file.read_bytes() if file.is_file() else None
    assert start_fails(folder)[0] == "database-unusable"
    assert before is None or file.read_bytes() == before


def test_a_configuration_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "steelyard"
    folder.mkdir(parents=True)
    for text in ("= = =", "url = 5", "\x00", "[" * 1000, "url = 'http://127.0.0.1:1'\nurl = 'x'"):
        (folder / "config.toml").write_text(text)
        done = subprocess.run(
            [str(PROGRAM), "list"], env=environment(tmp_path), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert not any(leak in done.stderr for leak in LEAKS), done.stderr
        assert said_code(done.stderr) == "config-invalid"


# --- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB of the test's own."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "steelyard-test", str(place)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(
            f"NOT TESTED WITH A FULL DISK: no file system can be mounted here ({done.stderr.strip()})"
        )
    yield place
    for _ in range(50):
        if subprocess.run(["umount", str(place)], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("the file system is still in use")


def fill(place: Path) -> None:
    """Take all the room that is left."""
    with open(place / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 4096, 1):
            try:
                while True:
                    file.write(b"\xff" * size)
            except OSError:
                continue


@pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED WITH A FULL DISK: only root can mount a file system"
)
@pytest.mark.requirement("K8")
def test_a_full_disk_refuses_new_work_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    # Nothing is kept free: that programs end while the disk is full is what is tried.
    documents = OPEN_DOCUMENTS.replace("mode: none}}", "mode: none}, workFolder: {minFree: 1Mi}}")
    with running(small_disk / "data", documents) as server:
        marks = tmp_path / "marks"
        before = [
            server.submit(
                f"before-{code}", ["/bin/sh", "-c", f"echo >> {marks}-{code}; sleep 4; exit {code}"]
            )
            for code in (0, 3, 5)
        ]
        server.wait_for(lambda: all(server.get(f"/v1/workloads/{w}")["phase"] == "running" for w in before))
        fill(small_disk)
        for lang in ("zh", "en"):
            answer = server.client.post(
                "/v1/workloads",
                json={**_small(), "metadata": {"name": f"full-{lang}", "namespace": "detect-dev"}},
                headers={"Accept-Language": lang},
            )
            assert (answer.status_code, answer.json()["code"]) == (503, "database-failed"), answer.text
            assert not any(leak in answer.text for leak in LEAKS)
        assert server.client.get("/readyz").status_code in (200, 503)
        assert server.get("/v1/workloads")["items"]
        time.sleep(5)  # they end meanwhile, and nothing can be written down
        (small_disk / "filler").unlink()
        after = server.wait_for(lambda: _submitted(server), 60)
        ended = server.wait_for(lambda: _all_ended(server, [*before, after]), 60)
        codes = [view["attempts"][0]["members"][0]["exit_code"] for view in ended]
        assert codes == [0, 3, 5, 0]
        assert [len(view["attempts"]) for view in ended] == [1, 1, 1, 1]
        assert [len((tmp_path / f"marks-{code}").read_text().splitlines()) for code in (0, 3, 5)] == [1, 1, 1]
        names = {row["name"] for row in server.pages("/v1/workloads")}
        assert names == {"before-0", "before-3", "before-5", "after"}
        check_books(server)
        server.stop()


def _small() -> dict[str, object]:
    role = {"name": "main", "command": ["/bin/true"], "requests": {"cpu": "1m", "memory": "8Mi"}}
    return {"kind": "Workload", "spec": {"kind": "batch", "roles": [role]}}


def _submitted(server: Server) -> str | None:
    document = {**_small(), "metadata": {"name": "after", "namespace": "detect-dev"}}
    answer = server.client.post("/v1/workloads", json=document, headers={"Idempotency-Key": "after"})
    return str(answer.json()["id"]) if answer.status_code == 201 else None


def _all_ended(server: Server, ids: list[str]) -> list[dict[str, object]] | None:
    views = [server.get(f"/v1/workloads/{one}") for one in ids]
    return views if all(view["phase"] == "finished" for view in views) else None
