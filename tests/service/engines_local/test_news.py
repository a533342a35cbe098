"""Being told of ends by the runner: whoever does not listen, or does not speak, holds nobody up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.control.agents import Agent, Seen, Start, drain
from steelyard.engines.local import protocol
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.herald import Listener
from steelyard.engines.port import MemberObservation, MemberPhase
from tests.support.local_engine import (
    INSTALL,
    attempt,
    end_everything,
    kill_runner,
    make_local_engine,
    member,
    runner_pid,
    sh,
    wait_ended,
)


def wait_until(done: threading.Event) -> None:
    assert done.wait(20)


def members_of(seen: Seen) -> tuple[MemberObservation, ...]:
    return () if seen.observation is None else seen.observation.members


def listener(data: Path) -> socket.socket:
    """A connection that asked for news and reads none."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(data / "runner.sock"))
    sock.settimeout(10)
    asked: list[dict[str, Any]] = [{"op": "hello", "versions": [3], "install": INSTALL}, {"op": "listen"}]
    sock.sendall(b"".join(protocol.encode({"id": n, **one}) for n, one in enumerate(asked)))
    lines = b""
    while lines.count(b"\n") < 2:
        lines += sock.recv(4096)
    return sock


def test_an_end_is_told_and_told_again_by_the_next_runner(engine: LocalEngine, tmp_path: Path) -> None:
    told = threading.Event()
    engine.on_news(told.set)
    engine.start([sh("at_1", "exit 0")])
    wait_ended(engine, "mb_1")
    wait_until(told)
    kill_runner(tmp_path)
    engine.start([sh("at_2", "exit 0")])
    deadline = time.monotonic() + 30
    for number in range(3, 1000):  # the listener may not have come back for the first ones
        told.clear()
        engine.start([sh(f"at_{number}", "exit 0")])
        wait_ended(engine, f"mb_{number}")
        if told.wait(0.5):
            break
        assert time.monotonic() < deadline


def test_many_that_listen_and_do_not_read_hold_nobody_up(engine: LocalEngine, tmp_path: Path) -> None:
    engine.observe(None)
    silent = [listener(tmp_path / "data") for _ in range(40)]
    try:
        begin = time.monotonic()
        for number in range(60):
            engine.start([sh(f"at_{number}", "exit 0")])
        for number in range(60):
            wait_ended(engine, f"mb_{number}")
        assert time.monotonic() - begin < 20
        for sock in silent:  # each was told at least once, and may still be told
            assert sock.recv(4096).startswith(protocol.encode({}))
    finally:
        for sock in silent:
            sock.close()


def test_a_gang_is_over_with_its_last_member(engine: LocalEngine) -> None:
    members = [member(f"mb_{i}", ("/bin/sh", "-c", f"sleep {i * 0.3}; exit {i}"), index=i) for i in range(3)]
    engine.start([attempt("at_1", *members)])
    cursor: str | None = None
    ended: set[str] = set()
    gone: tuple[str, ...] = ()
    deadline = time.monotonic() + 30
    while not gone:
        seen = engine.observe(cursor)
        cursor, gone = seen.cursor, seen.gone
        ended |= {one.member_id for one in seen.members if one.phase is MemberPhase.ENDED}
        assert not gone or ended == {"mb_0", "mb_1", "mb_2"}
        assert time.monotonic() < deadline
    assert gone == ("at_1",)
    assert engine.probe_release(gone)[0].free


def test_an_end_is_told_although_its_release_can_not_be_probed(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_attempt_ids: object) -> None:
        raise OSError("no look at the processes")

    monkeypatch.setattr(engine, "probe_release", fails)
    agent = Agent(engine, lambda: None)
    agent.send(Start((sh("at_1", "exit 3"),)))
    seen: list[Seen] = []
    deadline = time.monotonic() + 30
    while not any(each.observation is not None and each.observation.gone for each in seen):
        agent.step()
        seen += drain([agent])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [one.exit_code for each in seen for one in members_of(each) if one.exit_code is not None]
    assert [each.failed for each in seen if each.failed is not None] == []


#: A runner of the release before: it tells nothing by itself.
EARLIER = """
import sys
from steelyard.engines.local import protocol, runner
protocol.ADOPTABLE = (1, 2)
inner = runner.Runner._observe
def observe(self, install, request):
    return {key: value for key, value in inner(self, install, request).items() if key != "gone"}
runner.Runner._observe = observe
sys.exit(runner.main(sys.argv[sys.argv.index("--data"):]))
"""


def test_under_a_runner_that_tells_nothing_ends_are_seen_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, program = tmp_path / "earlier.py", tmp_path / "python"
    hook.write_text(EARLIER)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {hook} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    engine = make_local_engine(tmp_path, path=os.defpath)
    agent = Agent(engine, lambda: None)
    try:
        assert engine.capabilities().protocol == 2
        agent.set_poll(True, True)
        agent.start()
        agent.send(Start((sh("at_1", "exit 3"),)))
        seen: list[Seen] = []
        deadline = time.monotonic() + 30
        while not any(one.exit_code == 3 for each in seen for one in members_of(each)):
            seen += drain([agent])
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not any(each.probes for each in seen)
    finally:
        agent.close()
        end_everything(engine)


def test_a_runner_that_does_not_answer_holds_no_closing_up(engine: LocalEngine, tmp_path: Path) -> None:
    engine.observe(None)
    pid = runner_pid(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    try:
        link = engine._link.another()
        heard = Listener(link, lambda: None)
        deadline = time.monotonic() + 10
        while link._socket is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        begin = time.monotonic()
        heard.close()
        assert time.monotonic() - begin < 4
    finally:
        os.kill(pid, signal.SIGCONT)


#: Clears members, of which one left temporary files, and says how many there are when that takes long.
CLEAR = """
import os, sys
from steelyard.engines.local import ending
from steelyard.engines.local.paths import Layout
layout = Layout(sys.argv[1])
layout.make()
for name, files in (("mb_1", ("a", "b")), ("mb_2", ())):
    temporary = layout.member_work("at_1", name) + "/tmp"
    os.makedirs(temporary)
    os.mkdir(layout.notes(name))
    for file in files:
        open(f"{temporary}/{file}", "w").close()
    ending.clear(layout, "at_1", name, (), lambda: print(len(os.listdir(temporary))))
    assert not (files and os.path.exists(temporary))
"""


def test_an_end_is_told_before_temporary_files_are_removed_and_waits_for_nothing_else(tmp_path: Path) -> None:
    """While they are removed its gang, and whoever waits, knows already."""
    command = [sys.executable, "-c", CLEAR, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("2\n", "")
