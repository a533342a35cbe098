"""Answers of the API under steady load, with 10,000 workloads that wait.

A real `steelyard up` (SQLite), one simulated cluster whose quota is full, so that 10,000 workloads stand in
the queue. Requests come in an open loop, 100 a second, whether or not the ones before were answered: the time
of each runs from when it was due. The mix, of twenty: 7 lists of workloads (first page, filtered), 5
workloads, 2 explanations, 2 inventory sums, 1 queues, 2 submits, 1 cancel.

p50_ms, p99_ms     of all requests, connections kept alive
saturation_per_s   the same mix from 16 connections that each ask again as soon as they are answered
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import control_plane
from benchmarks.footprint import rss_mb
from benchmarks.support import emit, progress
from tests.support.server import Server

RATE, CONNECTIONS, CLOSED = 100, 64, 16
BULK = 500
#: One device in all, so that everything else waits; the one that runs goes on for an hour.
DOCUMENTS = control_plane.DOCUMENTS.replace("nominal: 300}", "nominal: 1}").replace(
    "nominal: 100}", "nominal: 0}"
)
Request = tuple[str, str, bytes | None]


def workload(number: int) -> dict[str, Any]:
    """One that asks for the device."""
    role = {
        "name": "main",
        "command": ["train"],
        "requests": {"gpu": 1, "cpu": 1, "memory": "1Gi"},
        "expect": {"run": "3600s"},
    }
    return {
        "kind": "Workload",
        "metadata": {"name": f"w{number}", "namespace": "one-dev"},
        "spec": {"kind": "training", "roles": [role]},
    }


def mix(ids: list[str], seed: int) -> Iterator[Request]:
    """Requests without end, the same for the same seed."""
    chance, number = random.Random(seed), 0
    while True:
        number += 1
        some = ids[chance.randrange(len(ids))]
        kinds: list[Request] = [
            *[("GET", "/v1/workloads?limit=50", None)] * 4,
            *[("GET", "/v1/workloads?phase=queued&project=one&limit=50", None)] * 3,
            *[("GET", f"/v1/workloads/{some}", None)] * 5,
            *[("GET", f"/v1/workloads/{some}/explanation", None)] * 2,
            *[("GET", "/v1/inventory/summary", None)] * 2,
            ("GET", "/v1/queues", None),
            *[("POST", "/v1/workloads", json.dumps(workload(seed * 1_000_000 + number)).encode())] * 2,
            ("POST", f"/v1/workloads/{some}/cancel", b""),
        ]
        yield kinds[number % len(kinds)]


class Connection:
    """HTTP/1.1 over one connection that is kept, as little of it as the client needs."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = (
            f"Host: 127.0.0.1:{port}\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> int:
        """The status of the answer, which is read whole."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        method, path, body = request
        length = f"Content-Length: {len(body or b'')}\r\n\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{length}".encode() + (body or b""))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(size))
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        """Lets go of it."""
        if self._streams is not None:
            self._streams[1].close()


async def open_loop(port: int, token: str, ids: list[str], seconds: int) -> list[float]:
    """Milliseconds of each request, from when it was due."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(Connection(port, token))
    times: list[float] = []
    requests = mix(ids, 1)

    async def one(due: float, request: Request) -> None:
        connection = await free.get()
        status = await connection.ask(request)
        free.put_nowait(connection)
        times.append(1000 * (time.perf_counter() - due))
        assert status < 500, (status, request[:2])

    begun, waiting = time.perf_counter(), []
    bar = progress("open loop, seconds", seconds)
    for number in range(RATE * seconds):
        due = begun + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        waiting.append(asyncio.create_task(one(due, next(requests))))
        bar(number // RATE)
    await asyncio.gather(*waiting)
    bar(seconds)
    return times


async def closed_loop(port: int, token: str, ids: list[str], seconds: int) -> float:
    """Answers a second."""
    answered, requests, ends = 0, mix(ids, 2), time.perf_counter() + seconds

    async def one() -> None:
        nonlocal answered
        connection = Connection(port, token)
        while time.perf_counter() < ends:
            assert await connection.ask(next(requests)) < 500
            answered += 1
        connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CLOSED)))
    return answered / (time.perf_counter() - begun)


def waiting_workloads(server: Server, count: int) -> list[str]:
    """Submits them; their ids."""
    ids: list[str] = []
    bar = progress("workloads that wait", count)
    for sent in range(0, count, BULK):
        documents = [workload(number) for number in range(sent, min(count, sent + BULK))]
        results = server.post("/v1/workloads:submit", {"documents": documents})["results"]
        assert all(result["status"] == 201 for result in results), results[0]
        ids += [result["id"] for result in results]
        bar(len(ids))
    return ids


def measure(count: int, seconds: int) -> dict[str, float]:
    """Fill, then both loops."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        try:
            server.start()
            server.apply(DOCUMENTS)
            server.wait_for(lambda: server.get("/v1/inventory/summary")["classes"])
            ids = waiting_workloads(server, count)
            time.sleep(5)  # until every one of them was looked at
            token = str(server.client.headers["Authorization"])
            asyncio.run(open_loop(server.port, token, ids, 2))  # warm
            times = asyncio.run(open_loop(server.port, token, ids, seconds))
            most = asyncio.run(closed_loop(server.port, token, ids, seconds))
            assert server.process is not None
            memory = rss_mb(server.process.pid)
        finally:
            server.close()
    cut = statistics.quantiles(times, n=100)
    return {
        "p50_ms": cut[49],
        "p99_ms": cut[98],
        "most_ms": max(times),
        "saturation_per_s": most,
        "rss_mb": memory,
    }


def main() -> None:
    """Both loops, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--quick", action="store_true", help="1,000 workloads and 5 s instead of 10,000 and 30 s"
    )
    quick = arguments.parse_args().quick
    count, seconds = (1_000, 5) if quick else (10_000, 30)
    print(f"{count} wait; {RATE} requests a second for {seconds} s, then {CLOSED} connections at once")
    emit("api", quick, measure(count, seconds))


if __name__ == "__main__":
    main()
