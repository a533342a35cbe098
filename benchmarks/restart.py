"""How soon a killed server is back, with a long past and much running.

100,000 finished workloads in the database (run on the simulated engine through the whole control plane) and
1,000 local processes of 1 milli-core each, which go on while the server is gone. The server is ended with
SIGKILL and started again:

up_s     from the start of the process until /readyz answers 200
adopt_s  from there until it has seen every one of the running members again, by the cluster's first
         observation after the start
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import control_plane
from benchmarks.footprint import rss_mb
from benchmarks.support import emit, progress
from steelyard.store.database import sqlite_url
from tests.support.server import LOCAL_DOCUMENTS, Server, document

BULK = 500
#: Beside what the filler declares: names of their own, and limits wide enough for 1,000 processes.
LOCAL = LOCAL_DOCUMENTS
for _name in ("main", "core", "ram", "all"):
    for _key in ("name", "queue", "cohort"):
        LOCAL = LOCAL.replace(f"{_key}: {_name}", f"{_key}: here-{_name}")
START_SECONDS = 300.0
ROUNDS = 5


def start_many(server: Server, count: int) -> None:
    """`count` sleeping processes, running."""
    for sent in range(0, count, BULK):
        documents = [
            document(f"s{number}", ["/bin/sleep", "3600"], queue="here-main", role={"clusters": ["here"]})
            for number in range(sent, min(count, sent + BULK))
        ]
        results = server.post("/v1/workloads:submit", {"documents": documents})["results"]
        assert all(result["status"] == 201 for result in results), results[0]
    bar = progress("processes running", count)
    deadline = time.monotonic() + START_SECONDS
    while (running := len(server.pages("/v1/workloads", phase="running"))) < count:
        assert time.monotonic() < deadline, f"{running} of {count} run"
        bar(running)
        time.sleep(1)
    bar(count)


def observed_at(server: Server) -> int:
    """When the local cluster was last seen, µs UTC; 0 where it was not."""
    clusters = server.get("/v1/inventory/summary")["clusters"]
    return next((one["observed_at"] or 0 for one in clusters if one["name"] == "here"), 0)


def restart(server: Server, count: int) -> tuple[float, float]:
    """Kill it, start it: (seconds until it is ready, seconds more until all is adopted)."""
    server.kill()
    begun, wall = time.perf_counter(), time.time_ns() // 1000
    server.launch()
    server.wait_ready(START_SECONDS)
    ready = time.perf_counter()
    while observed_at(server) <= wall:
        time.sleep(0.01)
    seen = time.perf_counter()
    running = len(server.pages("/v1/workloads", phase="running"))
    assert running == count, f"{running} of {count} run"
    return ready - begun, seen - ready


def measure(past: int, count: int) -> dict[str, float]:
    """Medians of some restarts."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        try:
            server.start()  # makes the folder, its keys and the first account
            assert server.stop() == 0
            control_plane.run(sqlite_url(server.folder), past)
            server.start()
            server.apply(LOCAL)
            start_many(server, count)
            taken = [restart(server, count) for _ in range(ROUNDS)]
            assert server.process is not None
            memory = rss_mb(server.process.pid)
        finally:
            server.close()
    up, adopt = zip(*taken, strict=True)
    return {
        "up_s": statistics.median(up),
        "adopt_s": statistics.median(adopt),
        "up_most_s": max(up),
        "adopt_most_s": max(adopt),
        "rss_mb": memory,
    }


def main() -> None:
    """Fill, start, kill; then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="5,000 finished and 200 running")
    quick = arguments.parse_args().quick
    past, count = (5_000, 200) if quick else (100_000, 1_000)
    print(f"{past} finished, {count} running at 1 milli-core each; {ROUNDS} restarts by SIGKILL")
    emit("restart", quick, measure(past, count))


if __name__ == "__main__":
    main()
