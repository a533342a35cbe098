"""How long a release takes: from the end of the program to the receipt that three signals agree on.

Through a real `steelyard up` on SQLite, at a steady rate: of ten programs seven are /bin/true, two leave
temporary files and a child in a session of its own, one fails. The end is the instant that the shim wrote to
disk with the exit status; the receipt is confirmed in the transaction that gives the cores back.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support import emit, progress
from tests.support.server import LOCAL_DOCUMENTS, Server, document

SLOTS = 8
REQUESTS = {"cpu": "200m", "memory": "8Mi"}
DOCUMENTS = LOCAL_DOCUMENTS.replace('nominal: "64"', f"nominal: {SLOTS * 200}m")
LEAVES = "for i in 1 2 3; do echo x > $TMPDIR/$i; done; (setsid sleep 600 &); exit 0"
COMMANDS = [["/bin/true"]] * 7 + [["/bin/sh", "-c", LEAVES]] * 2 + [["/bin/false"]]
RATE = 40  # a second, in steps of a quarter of one
READY_SECONDS, REST_SECONDS = 60.0, 300.0


def _send(server: Server, count: int) -> None:
    """A steady rate, whatever the server does with it."""
    bar, begun = progress("sent", count), time.perf_counter()
    step = RATE // 4
    for first in range(0, count, step):
        numbers = range(first, min(count, first + step))
        documents = [
            document(f"r{number}", COMMANDS[number % len(COMMANDS)], requests=REQUESTS) for number in numbers
        ]
        results = server.post("/v1/workloads:submit", {"documents": documents})["results"]
        assert all(result["status"] == 201 for result in results), results[0]
        bar(numbers.stop)
        time.sleep(max(0.0, begun + numbers.stop / RATE - time.perf_counter()))


def _wait(server: Server, done: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _attempts(server: Server) -> list[dict[str, Any]]:
    rows = [row for row in server.pages("/v1/workloads") if row["name"].startswith("r")]
    return [attempt for row in rows for attempt in server.get(f"/v1/workloads/{row['id']}")["attempts"]]


def measure(count: int) -> dict[str, float | None]:
    """The figures of one run."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        try:
            server.start()
            server.apply(DOCUMENTS)
            first = server.submit("first", ["/bin/true"], requests=REQUESTS)
            _wait(server, lambda: server.get(f"/v1/workloads/{first}")["phase"] == "finished", READY_SECONDS,
                  "the first one does not end")  # fmt: skip
            _send(server, count)
            live = {"phase": "live", "limit": 500}
            _wait(server, lambda: not server.get("/v1/workloads", **live)["items"], REST_SECONDS, "some stay")
            attempts = _attempts(server)
        finally:
            server.close()
    bad = [one["receipt"]["state"] for one in attempts if one["receipt"]["state"] != "confirmed"]
    assert len(attempts) >= count, f"{len(attempts)} of {count}"
    assert not bad, f"not confirmed: {bad[:5]}"
    took = sorted(one["times"]["release_confirmed"] - one["times"]["ended"] for one in attempts)
    ended = [one["times"]["ended"] for one in attempts]
    cleared = [one["receipt"]["counts"] for one in attempts]
    return {
        "release_p50_ms": took[len(took) // 2] / 1000,
        "release_p99_ms": took[min(len(took) - 1, len(took) * 99 // 100)] / 1000,
        "release_max_ms": took[-1] / 1000,
        "releases_per_s": len(took) * 1e6 / max(1, max(ended) - min(ended)),
        "processes_ended": float(sum(one.get("processes", 0) for one in cleared)),
        "files_removed": float(sum(one.get("files", 0) for one in cleared)),
    }


def main() -> None:
    """One run, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="200 programs instead of 1,200")
    asked = arguments.parse_args()
    count = 200 if asked.quick else 1_200
    print(f"{count} programs at {RATE} a second, {SLOTS} slots: end of the program … receipt confirmed")
    emit("release", asked.quick, measure(count))


if __name__ == "__main__":
    main()
