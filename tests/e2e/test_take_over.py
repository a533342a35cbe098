"""The lease holder is killed, stopped or told to end, again and again, while work comes in at both servers:
the other one takes over in time, nothing is written by who lost the lease, nothing starts twice.

The machine that both drive is the first one's: the second server's folder links to its runner and notes.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.books import check_books
from tests.support.leases import lease, wait_taken
from tests.support.server import OPEN_DOCUMENTS, Server, document, end_folder, note

TAKE_OVER_SECONDS = 10.0
TOLD_SECONDS = 4.0  # a holder that is told to end gives the lease back
SHARED = ("local", "work", "runner.sock")
SUBMITTERS = 3
WAYS = ("stop", "kill", "term")
ROUNDS = int(os.environ.get("STEELYARD_SOAK_TAKE_OVERS", "50"))


@pytest.fixture
def servers(tmp_path: Path, postgresql_database: str) -> Iterator[list[Server]]:
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
        yield [first, second]
    finally:
        second.close()
        first.close()
        end_folder(second.folder)


class Load:
    """Submits to both servers, each workload until one of them has answered, until it is stopped."""

    def __init__(self, servers: list[Server], marks: Path) -> None:
        self.servers, self.marks = servers, marks
        marks.mkdir()
        self.names: list[str] = []
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._pool = ThreadPoolExecutor(SUBMITTERS)
        self._running = [self._pool.submit(self._run, number) for number in range(SUBMITTERS)]

    def end(self) -> None:
        """No more; raises what went wrong."""
        self._stop.set()
        for each in self._running:
            each.result(120)
        self._pool.shutdown()

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            with self._lock:
                name = f"load-{len(self.names):05d}"
                self.names.append(name)
            self._submit(name, number)
            time.sleep(0.4)

    def _submit(self, name: str, turn: int) -> None:
        number = int(name.rpartition("-")[2])
        script = f"echo $STEELYARD_ATTEMPT >> {self.marks}/{name}; sleep {number % 3 + 1}; exit {number % 5}"
        body = document(name, ["/bin/sh", "-c", script])
        while True:
            server = self.servers[turn % 2]
            turn += 1
            try:
                answer = server.client.post(
                    "/v1/workloads", json=body, headers={"Idempotency-Key": name}, timeout=2.0
                )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code == 201:
                return
            assert answer.status_code in (409, 503), answer.text
            time.sleep(0.1)


def end_holder(way: str, holder: Server, other: Server, database: str) -> float:
    """One take-over; seconds until the other had the lease. Both serve again afterwards."""
    epoch = lease(database)[1]
    if way == "stop":
        holder.signal(signal.SIGSTOP)
    elif way == "kill":
        holder.kill()
    else:
        assert holder.process is not None
        holder.process.terminate()
    taken = wait_taken(database, epoch)
    assert lease(database)[1] == epoch + 1
    if way == "stop":
        time.sleep(1.0)
        holder.signal(signal.SIGCONT)
    else:
        assert holder.process is not None
        assert holder.process.wait(30) == (0 if way == "term" else -signal.SIGKILL)
        holder.launch()
    holder.wait_ready()
    other.wait_ready()
    return taken


def check_all(load: Load, servers: list[Server]) -> None:
    """Each started once and ended as it should; both servers tell the same; the books hold."""
    for server in servers:
        rows = server.pages("/v1/workloads")
        assert sorted(row["name"] for row in rows) == sorted(load.names)
        assert {row["attempt"] for row in rows} == {1}
    wrong = {}
    for row in servers[0].pages("/v1/workloads"):
        (attempt,) = servers[0].get(f"/v1/workloads/{row['id']}")["attempts"]
        seen = (attempt["members"][0]["exit_code"], attempt["receipt"]["state"])
        lines = (load.marks / row["name"]).read_text().split()
        if seen != (int(row["name"].rpartition("-")[2]) % 5, "confirmed") or lines != [attempt["id"]]:
            wrong[row["name"]] = (seen, lines, attempt["id"])
    assert not wrong
    for server in servers:
        check_books(server)


@pytest.mark.requirement("K8", "G2")
@pytest.mark.parametrize(
    "ways",
    [("term",), pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["told", "many"],
)
def test_a_lease_holder_that_ends_in_any_way_is_replaced_and_nothing_starts_twice(
    servers: list[Server], postgresql_database: str, tmp_path: Path, ways: tuple[str, ...] | None
) -> None:
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    chosen = ways or [draw.choice(WAYS) for _ in range(ROUNDS)]
    load, taken = Load(servers, tmp_path / "marks"), []
    holder = 0
    try:
        for way in chosen:
            time.sleep(draw.uniform(1.0, 3.0))
            taken.append((way, end_holder(way, servers[holder], servers[1 - holder], postgresql_database)))
            holder = 1 - holder
    finally:
        load.end()
        refused = sum(server.said().count("lease-lost") for server in servers)
        slowest = {way: round(max(s for w, s in taken if w == way), 2) for way, _ in taken}
        note(tmp_path, seed=seed, ways=Counter(w for w, _ in taken), slowest_s=slowest,
             workloads=len(load.names), said_lease_lost=refused)  # fmt: skip
    one = servers[0]
    one.wait_for(lambda: {row["phase"] for row in one.pages("/v1/workloads")} == {"finished"}, 120, 0.5)
    check_all(load, servers)
    late = [(w, s) for w, s in taken if s > (TOLD_SECONDS if w == "term" else TAKE_OVER_SECONDS)]
    assert late == []
