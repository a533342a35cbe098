"""Two real servers on one PostgreSQL: the lease holder is stopped under load, the other takes over, and what
the first one still wanted to write is refused when it goes on.

The machine that both drive is the first one's: the second server's folder links to its runner and notes.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.books import check_books
from tests.support.leases import lease, wait_taken
from tests.support.server import OPEN_DOCUMENTS, Server, document, end_folder

WORKLOADS = 60
TAKE_OVER_SECONDS = 15.0
SHARED = ("local", "work", "runner.sock")


@pytest.fixture
def servers(tmp_path: Path, postgresql_database: str) -> Iterator[tuple[Server, Server]]:
    """Two servers; the first one holds the lease."""
    first = Server(tmp_path / "first", database=postgresql_database)
    second = Server(tmp_path / "second", database=postgresql_database)
    try:
        first.start()
        first.apply(OPEN_DOCUMENTS)
        first.wait_for(lambda: first.get("/v1/inventory")["items"])
        second.folder.mkdir(mode=0o700)
        for name in SHARED:
            (second.folder / name).symlink_to(first.folder / name)
        second.password = first.password
        second.launch()
        second.wait_ready()
        second.sign_in()
        yield first, second
    finally:
        second.close()
        first.close()
        end_folder(second.folder)


class Load:
    """Workloads submitted to both servers, each until one of them has answered."""

    def __init__(self, servers: tuple[Server, Server], marks: Path) -> None:
        self.servers = servers
        self.marks = marks
        marks.mkdir()
        self.names = [f"two-{index:03d}" for index in range(WORKLOADS)]
        self.stopped = threading.Event()
        self.answered_by: Counter[str] = Counter()

    def submit(self, name: str) -> None:
        """To one of the two by its number; to the other when that one is silent."""
        number = int(name.rpartition("-")[2])
        script = f"echo $STEELYARD_ATTEMPT >> {self.marks}/{name}; sleep {number % 7 + 1}; exit {number % 5}"
        body = document(name, ["/bin/sh", "-c", script])
        time.sleep(number / 8)
        turn = number
        while True:
            server = self.servers[turn % 2]
            try:
                answer = server.client.post(
                    "/v1/workloads", json=body, headers={"Idempotency-Key": name}, timeout=2.0
                )
            except httpx.TransportError:
                turn += 1
                continue
            if answer.status_code == 201:
                self.answered_by[server.folder.name] += 1
                return
            assert answer.status_code in (409, 503), answer.text


def ended(server: Server) -> bool:
    """Whether everything has ended."""
    rows = server.pages("/v1/workloads")
    return len(rows) == WORKLOADS and all(row["phase"] == "finished" for row in rows)


@pytest.mark.requirement("K8", "G2")
def test_a_stopped_lease_holder_is_replaced_and_starts_nothing_twice(
    servers: tuple[Server, Server], postgresql_database: str, tmp_path: Path
) -> None:
    first, second = servers
    load = Load(servers, tmp_path / "marks")
    with ThreadPoolExecutor(12) as pool:
        submits = [pool.submit(load.submit, name) for name in load.names]
        time.sleep(2.5)
        holder, epoch = lease(postgresql_database)
        first.signal(signal.SIGSTOP)
        taken = wait_taken(postgresql_database, epoch)
        assert taken <= TAKE_OVER_SECONDS
        time.sleep(2.0)
        first.signal(signal.SIGCONT)
        for each in submits:
            each.result()
    assert lease(postgresql_database)[0] != holder
    second.wait_for(lambda: ended(second), 60, 0.5)
    first.wait_for(lambda: "lease-lost" in first.said() or "control-tick-failed" in first.said(), 20)
    assert lease(postgresql_database) == (lease(postgresql_database)[0], epoch + 1), "it took the lease back"
    check_all(load, second, first)
    print({"taken_after_s": round(taken, 1), "answered_by": dict(load.answered_by)})


def check_all(load: Load, server: Server, other: Server) -> None:
    """Each started once and ended as it should; both servers tell the same; the books hold."""
    for server_rows in (server.pages("/v1/workloads"), other.pages("/v1/workloads")):
        assert sorted(row["name"] for row in server_rows) == load.names
        assert {row["attempt"] for row in server_rows} == {1}
    wrong: dict[str, Any] = {}
    for row in server.pages("/v1/workloads"):
        attempt = server.get(f"/v1/workloads/{row['id']}")["attempts"][0]
        seen = (attempt["members"][0]["exit_code"], attempt["receipt"]["state"])
        if seen != (int(row["name"].rpartition("-")[2]) % 5, "confirmed"):
            wrong[row["name"]] = seen
        lines = (load.marks / row["name"]).read_text().split()
        if lines != [attempt["id"]]:
            wrong[row["name"]] = (lines, attempt["id"])
    assert not wrong
    check_books(server)
    check_books(other)


def test_what_a_stopped_lease_holder_still_wanted_to_write_is_refused(
    servers: tuple[Server, Server], postgresql_database: str
) -> None:
    first, second = servers
    short = first.submit("short", ["/bin/sh", "-c", "sleep 3; exit 4"])
    first.wait_for(lambda: first.get(f"/v1/workloads/{short}")["phase"] == "running", 20, 0.05)
    with psycopg.connect(postgresql_database) as blocker, ThreadPoolExecutor(1) as pool:
        blocker.execute("SELECT size FROM log WHERE id = 1 FOR UPDATE")
        asked = pool.submit(_submit_once, first, document("asked", ["/bin/true"]))
        time.sleep(5.0)  # behind it in the writer's queue: that `short` has ended, under the old epoch
        epoch = lease(postgresql_database)[1]
        first.signal(signal.SIGSTOP)
        blocker.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        blocker.commit()
        wait_taken(postgresql_database, epoch)
        second.wait_for(lambda: second.get(f"/v1/workloads/{short}")["phase"] == "finished", 30)
        first.signal(signal.SIGCONT)
        assert asked.result() == 503
    refused = f"lease-lost(epoch={epoch + 1}, held={epoch})"
    first.wait_for(lambda: refused in first.said(), 20)
    attempts = second.get(f"/v1/workloads/{short}")["attempts"]
    assert [(a["number"], a["members"][0]["exit_code"]) for a in attempts] == [(1, 4)]
    check_books(second)


def _submit_once(server: Server, body: dict[str, Any]) -> int:
    return server.client.post("/v1/workloads", json=body, timeout=90.0).status_code


@pytest.mark.soak
def test_a_killed_lease_holder_is_replaced_and_its_work_is_adopted(
    servers: tuple[Server, Server], postgresql_database: str, tmp_path: Path
) -> None:
    first, second = servers
    load = Load(servers, tmp_path / "marks")
    with ThreadPoolExecutor(12) as pool:
        submits = [pool.submit(load.submit, name) for name in load.names]
        time.sleep(2.0)
        epoch = lease(postgresql_database)[1]
        first.kill()
        assert wait_taken(postgresql_database, epoch) <= TAKE_OVER_SECONDS
        first.launch()
        first.wait_ready()
        for each in submits:
            each.result()
    second.wait_for(lambda: ended(second), 60, 0.5)
    check_all(load, second, first)
