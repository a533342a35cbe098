"""SIGTERM: requests are finished, streams end, the lease is given back at once, no secret is in the log."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from tests.support.books import check_books
from tests.support.server import OPEN_DOCUMENTS, Server

STOP_SECONDS = 20.0


@pytest.mark.requirement("K8")
def test_a_server_told_to_stop_ends_its_streams_gives_the_lease_back_and_keeps_its_secrets(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "data")
    server.more = ["--log-format", "json", "--log-level", "debug"]
    try:
        server.start()
        server.apply(OPEN_DOCUMENTS)
        gate = tmp_path / "gate"
        script = f"while [ ! -e {gate} ]; do sleep 0.1; done; exit 3"
        long = server.submit("long", ["/bin/sh", "-c", script])
        server.wait_for(lambda: server.get(f"/v1/workloads/{long}")["phase"] == "running")
        token = server.post("/v1/tokens", {"name": "ci"})["token"]
        server.client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
        lines: list[str] = []
        reader = threading.Thread(target=listen, args=(server, lines))
        reader.start()
        server.wait_for(lambda: any("hello" in line for line in lines))
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < STOP_SECONDS
        reader.join(10)
        assert 'data: {"code":"server-stopping"}' in lines
        assert lease_left(server.folder) == 0
        check_log(server, token)
        gate.touch()
        server.start()
        server.wait_for(lambda: server.get(f"/v1/workloads/{long}")["phase"] == "finished")
        assert server.get(f"/v1/workloads/{long}")["attempts"][0]["members"][0]["exit_code"] == 3
        check_books(server)
    finally:
        server.close()


def listen(server: Server, lines: list[str]) -> None:
    """Reads changes until the server ends the stream."""
    with server.client.stream("GET", "/v1/events/stream", timeout=60.0) as answer:
        for line in answer.iter_lines():
            lines.append(line)


def lease_left(folder: Path) -> int:
    """Until when the lease is held, as the row says."""
    with sqlite3.connect(folder / "steelyard.db") as database:
        (found,) = database.execute("SELECT expires_at FROM lease").fetchone()
    return int(found)


def check_log(server: Server, token: str) -> None:
    """Every line after the welcome is one JSON object; requests have their ids; no secret is in it."""
    said = server.said()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    answered = [line for line in lines if line["event"] == "answered"]
    assert answered
    assert all(line["request_id"].startswith("rq_") for line in answered)
    session = server.client.headers["Authorization"].partition(" ")[2]
    for secret in (token, session, server.password):
        assert secret
        assert secret not in said
