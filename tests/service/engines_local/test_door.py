"""The runner's socket: a versioned protocol, for this user alone, that no bad request can end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.link import Link
from steelyard.engines.local.paths import Layout, short_socket_path
from steelyard.engines.local.protocol import VERSION
from steelyard.engines.port import EngineUnavailable
from tests.support.local_engine import attempt, make_local_engine, member, runner_pid, wait_ended


class Raw:
    """A connection without manners."""

    def __init__(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(short_socket_path(fd))
        os.close(fd)
        self.file = self.socket.makefile("rwb")

    def say(self, line: bytes) -> dict[str, Any]:
        self.file.write(line + b"\n")
        self.file.flush()
        found: dict[str, Any] = json.loads(self.file.readline())
        return found


@pytest.fixture
def raw(engine: LocalEngine, tmp_path: Path) -> Raw:
    engine.observe(None)
    return Raw(tmp_path / "data")


HELLO = b'{"id":1,"op":"hello","versions":[1],"install":"in_raw"}'


def test_a_server_that_speaks_another_version_is_told_ours(raw: Raw) -> None:
    answer = raw.say(b'{"id":5,"op":"hello","versions":[98,99],"install":"in_raw"}')
    assert (answer["id"], answer["ok"], answer["code"]) == (5, False, "protocol-version")
    assert answer["text"] == str(VERSION)


def test_a_newer_server_adopts_a_runner_of_an_older_version(raw: Raw) -> None:
    answer = raw.say(b'{"id":1,"op":"hello","versions":[1,2,3],"install":"in_raw","news":true}')
    assert answer["result"]["protocol"] == VERSION


def test_nothing_is_done_before_hello(raw: Raw) -> None:
    assert raw.say(b'{"id":1,"op":"observe","cursor":null}')["code"] == "hello-first"


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b'"x"', b"{}", b"\xff\xfe", b'{"op":"launch"}',
                                  b'{"op":"start","attempts":[{"attempt":"at_1"}]}', b'{"op":"stop"}',
                                  b'{"op":"observe","cursor":7}', b"[" * 100_000])
def test_a_bad_request_is_answered_and_ends_nothing(
    raw: Raw, engine: LocalEngine, tmp_path: Path, line: bytes
) -> None:
    assert raw.say(HELLO)["ok"] is True
    before = runner_pid(tmp_path)
    answer = raw.say(line)
    assert answer.get("code") == "request-invalid" or answer["result"] == ["request-incomplete"]
    engine.observe(None)
    assert runner_pid(tmp_path) == before
    assert os.listdir(tmp_path / "data/local/claims") == []


def test_the_socket_and_the_folders_are_this_users_alone(raw: Raw, tmp_path: Path) -> None:
    for path in (tmp_path / "data", tmp_path / "data/local", tmp_path / "data/work"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "data/runner.sock").stat().st_mode & 0o177 == 0


def test_a_deep_folder_is_no_obstacle_for_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    engine = make_local_engine(deep)
    assert engine.observe(None).complete
    assert engine.retire()


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    socket.socket(socket.AF_UNIX).bind(str(tmp_path / "data/runner.sock"))
    engine = make_local_engine(tmp_path)
    assert engine.observe(None).complete
    assert engine.retire()


def test_an_unserved_request_says_so_and_the_link_goes_on(engine: LocalEngine, tmp_path: Path) -> None:
    engine.observe(None)
    link = Link(Layout(str(tmp_path / "data")), "in_link")
    with pytest.raises(EngineUnavailable) as caught:
        link.ask("no-such-operation")
    assert (caught.value.code, caught.value.params["reason"]) == ("runner-refused", "request-invalid")
    assert link.ask("running") == []
    link.close()


def test_a_long_start_passes_through_the_socket_in_parts(engine: LocalEngine) -> None:
    def env(count: int) -> tuple[tuple[str, str], ...]:
        return ("A", "x" * count), ("B", "x" * 100_000)

    engine.start([
        attempt(f"at_{i}", member(f"mb_{i}", ("/bin/sh", "-c", "exit ${#A}"), env=env(50 + i)))
        for i in range(3)
    ])
    assert [wait_ended(engine, f"mb_{i}").exit_code for i in range(3)] == [50, 51, 52]


def abandoned(folder: Path, times: int) -> None:
    """So often a socket is there whose runner is gone: it takes a connection, and nobody answers on it."""
    at = folder / "runner.sock"
    for _ in range(times):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(at))
            listening.listen()
            assert select.select([listening], [], [], 20)[0], "nobody came"
        at.unlink()


def test_a_socket_that_a_runner_has_left_behind_is_not_taken_for_a_runner(tmp_path: Path) -> None:
    engine = make_local_engine(tmp_path)
    engine.observe(None)
    os.kill(runner_pid(tmp_path), signal.SIGKILL)
    engine.close()
    (tmp_path / "data/runner.sock").unlink()
    left = threading.Thread(target=abandoned, args=(tmp_path / "data", 3))
    left.start()
    while not (tmp_path / "data/runner.sock").exists():
        time.sleep(0.001)
    again = make_local_engine(tmp_path)
    try:
        again.observe(None)
    finally:
        left.join()
        again.close()
