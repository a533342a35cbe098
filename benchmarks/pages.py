"""How long the console's pages take, and how large they are, over 20,000 workloads and 400 accelerators.

A real `steelyard up` (SQLite) over a house of 50 simulated nodes with 8 accelerators each. Most workloads
have finished, a few hundred failed, 300 run, the others wait. Each page is asked for in turn, in both
languages, with a session's cookie; the time runs from the request to the last byte.

page_p50_ms, page_p99_ms   of all requests
max_kb                     the largest page, KiB as sent
slowest_p50_ms             the median of the page that takes longest, which is named above
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import control_plane
from benchmarks.support import emit, progress
from steelyard.console.cookies import SESSION
from steelyard.store.database import sqlite_url
from tests.support.server import Server

#: Every page; `{name}` is an id found below. A new page joins here.
PAGES = (
    "/",
    "/workloads",
    "/workloads?phase=live",
    "/workloads?phase=queued&order=oldest",
    "/workloads?outcome=failed",
    "/workloads?project=two&kind=training",
    "/workloads?q=w1999",
    "/workloads?queue=main&namespace=one-dev",
    "/workloads?cursor={finished}",
    "/workloads/{waiting}",
    "/workloads/{waiting}/explanation",
    "/workloads/{running}",
    "/workloads/{running}/cancel",
    "/workloads/{failed}",
    "/workloads/{finished}",
    "/submit",
    "/password",
    "/inventory",
    "/inventory?class=gpu&state=held",
    "/nodes/{node}",
    "/devices/{device}",
    "/queues",
    "/refusals",
    "/usage?span=today",
    "/usage?span=week&by=kind",
    "/failures?span=today",
    "/system",
    "/evidence",
    "/evidence/leaves",
    "/evidence/leaves?stream=project/one",
    "/evidence/leaves/1000",
    "/evidence/streams",
)
BULK = 500
LONG = 300.0  # seconds that the house may take to come to rest


def document(number: int) -> dict[str, Any]:
    """Beside the finished ones: one of ten fails, the others ask for an accelerator for an hour."""
    fails = number % 10 == 0
    role = {
        "name": "main",
        "command": ["train", "--epochs", "3"],
        "requests": {"cpu": 1, "memory": "1Gi"} if fails else {"cpu": 1, "memory": "1Gi", "gpu": 1},
        "expect": {"run": "1ms", "exit": "3"} if fails else {"run": "3600s"},
    }
    return {
        "kind": "Workload",
        "metadata": {"name": f"v{number}", "namespace": "one-dev" if number % 3 else "two-dev"},
        "spec": {"kind": "training", "restart": "never", "roles": [role]},
    }


def send(server: Server, count: int) -> None:
    """Submit them, and wait until all that fails has."""
    for first in range(0, count, BULK):
        documents = [document(number) for number in range(first, min(count, first + BULK))]
        server.post("/v1/workloads:submit", {"documents": documents})
    failing = len(range(0, count, 10))
    server.wait_for(lambda: len(server.pages("/v1/workloads", outcome="failed")) >= failing, LONG, 1.0)
    server.wait_for(lambda: server.get("/v1/workloads", phase="running", limit=1)["items"], LONG, 1.0)


def found(server: Server) -> dict[str, str]:
    """An id for each name in an address."""
    wanted = {
        "waiting": {"phase": "queued"},
        "running": {"phase": "running"},
        "failed": {"outcome": "failed"},
        "finished": {"outcome": "succeeded"},
    }
    ids = {
        name: server.get("/v1/workloads", limit=1, **query)["items"][0]["id"]
        for name, query in wanted.items()
    }
    node = server.get("/v1/inventory", limit=1)["items"][0]
    return {**ids, "node": node["id"], "device": node["devices"][0]["id"]}


def look(server: Server, rounds: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    """page → milliseconds, page → bytes."""
    ids = found(server)
    token = server.client.headers["Authorization"].partition(" ")[2]
    times: dict[str, list[float]] = {page: [] for page in PAGES}
    sizes: dict[str, int] = dict.fromkeys(PAGES, 0)
    bar = progress("rounds", rounds)
    with httpx.Client(base_url=str(server.client.base_url), timeout=60, trust_env=False) as client:
        client.cookies.set(SESSION, token)
        for done in range(rounds):
            client.headers["Accept-Language"] = ("zh", "en")[done % 2]
            for page in PAGES:
                begun = time.perf_counter()
                answer = client.get(page.format(**ids), headers={"Accept": "text/html"})
                took = 1000 * (time.perf_counter() - begun)
                assert answer.status_code == 200, (page, answer.status_code)
                if done:  # the first round reads templates and fills caches
                    times[page].append(took)
                sizes[page] = max(sizes[page], len(answer.content))
            bar(done + 1)
    return times, sizes


def measure(past: int, more: int, rounds: int) -> dict[str, float | None]:
    """Fill, look, and say what each page took."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        try:
            server.start()  # makes the folder, its keys and the first account
            assert server.stop() == 0
            control_plane.run(sqlite_url(server.folder), past)
            server.start()
            send(server, more)
            times, sizes = look(server, rounds)
        finally:
            server.close()
    for page in PAGES:
        median, most = statistics.median(times[page]), max(times[page])
        print(f"{median:9.1f} ms  {most:9.1f} at most  {sizes[page] / 1024:7.1f} KiB  {page}")
    every = sorted(one for page in PAGES for one in times[page])
    return {
        "page_p50_ms": statistics.median(every),
        "page_p99_ms": every[len(every) * 99 // 100],
        "max_kb": max(sizes.values()) / 1024,
        "slowest_p50_ms": max(statistics.median(times[page]) for page in PAGES),
    }


def main() -> None:
    """Fill, look; then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="3,000 workloads")
    quick = arguments.parse_args().quick
    past, more, rounds = (2_500, 500, 9) if quick else (18_000, 2_000, 41)
    print(f"{past + more} workloads, 400 accelerators; each of {len(PAGES)} pages {rounds - 1} times")
    emit("pages", quick, measure(past, more, rounds))


if __name__ == "__main__":
    main()
