"""Commands beside a member: in its surroundings, with its streams, ended with it and with whoever asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local import frames, procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import BUBBLEWRAP, USER_ID, Wish
from steelyard.engines.port import ExecStream, MemberPhase
from steelyard.model.errors import UnavailableError
from steelyard.model.execution import Channel, Execution, TerminalSize
from tests.support.local_engine import (
    INSTALL,
    attempt,
    end_everything,
    kill_runner,
    make_local_engine,
    member,
    notes,
    runner_pid,
    wait_ended,
    wait_for,
    wait_free,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with one member that sleeps."""
    made = make_local_engine(tmp_path)
    made.start([attempt("at_1", member("mb_1", ("sleep", "600"), env=(("MINE", "yes"),)))])
    wait_for(made, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    yield made
    end_everything(made)


#: Shows its terminal, shows it again once it is told to go on, and ends when it is interrupted.
ON_TERMINAL = """
trap 'exit 5' INT
stty size; echo $TERM; tty; read line; stty size; echo ready
while :; do sleep 0.05; done
"""


def run(engine: LocalEngine, *command: str, **fields: Any) -> ExecStream:
    return engine.exec("mb_1", Execution(command, **fields))


def everything(stream: ExecStream) -> tuple[bytes, bytes, dict[str, Any]]:
    """(stdout, stderr, status) of a command that ends."""
    parts: dict[int, bytes] = {}
    while (one := stream.read()) is not None:
        parts[one[0]] = parts.get(one[0], b"") + one[1]
    stream.close()
    status = json.loads(parts[Channel.STATUS])
    return parts.get(Channel.STDOUT, b""), parts.get(Channel.STDERR, b""), status


def until(stream: ExecStream, wanted: bytes) -> bytes:
    """Output up to the wanted text."""
    seen = b""
    while wanted not in seen:
        one = stream.read()
        assert one is not None, seen
        seen += one[1]
    return seen


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while (found := procfs.read_process(pid)) is not None and found.alive:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_channels_are_those_of_the_model() -> None:
    ours = (frames.STDIN, frames.STDOUT, frames.STDERR, frames.STATUS, frames.RESIZE)
    assert ours == tuple(Channel)


def test_output_errors_and_exit_code_come_apart(engine: LocalEngine) -> None:
    out, err, status = everything(run(engine, "sh", "-c", "echo out; echo err >&2; exit 7"))
    assert (out, err) == (b"out\n", b"err\n")
    assert (status["code"], status["signal"], status["reason"]) == (7, None, "ended")


def test_what_ends_it_by_signal_is_told(engine: LocalEngine) -> None:
    assert everything(run(engine, "sh", "-c", "kill -9 $$"))[2]["signal"] == signal.SIGKILL


def test_it_runs_in_the_members_surroundings(engine: LocalEngine, tmp_path: Path) -> None:
    out, _, _ = everything(run(engine, "sh", "-c", 'pwd; echo "$MINE $STEELYARD_MEMBER $HOME"'))
    work = str(tmp_path / "data/work/at_1/mb_1")
    assert out.decode().splitlines() == [work, f"yes mb_1 {work}"]
    groups = notes(tmp_path, "mb_1", "run.json")["groups"]
    out, _, _ = everything(run(engine, "cat", "/proc/self/cgroup"))
    assert out.decode().count("/mb_1") == len(groups)


def test_its_input_is_carried_and_ends(engine: LocalEngine) -> None:
    stream = run(engine, "sort")
    stream.write(Channel.STDIN, b"b\na\n" * 50_000)
    stream.write(Channel.STDIN, b"")
    out, _, status = everything(stream)
    assert out == b"a\n" * 50_000 + b"b\n" * 50_000
    assert status["code"] == 0


def test_a_command_that_reads_nothing_does_not_stand_in_its_own_way(engine: LocalEngine) -> None:
    stream = run(engine, "sh", "-c", "head -c 3000000 /dev/zero")
    stream.write(Channel.STDIN, b"x" * 200_000)
    out, _, status = everything(stream)
    assert (len(out), status["code"]) == (3_000_000, 0)


def test_a_terminal_has_a_size_that_changes_and_passes_on_ctrl_c(engine: LocalEngine) -> None:
    stream = run(engine, "sh", "-c", ON_TERMINAL, terminal=TerminalSize(30, 100), term="xterm-256color")
    seen = until(stream, b"/dev/pts/")
    assert b"30 100" in seen
    assert b"xterm-256color" in seen
    stream.write(Channel.RESIZE, b'{"rows": 40, "columns": 120}')
    stream.write(Channel.STDIN, b"on\n")
    assert b"40 120" in until(stream, b"ready")
    stream.write(Channel.STDIN, b"\x03")
    assert everything(stream)[2]["code"] == 5


def test_a_command_that_is_not_there_says_so(engine: LocalEngine) -> None:
    _, _, status = everything(run(engine, "no-such-command"))
    assert (status["code"], status["reason"]) == (None, "not-started")
    assert "no-such-command" in status["text"]


def test_it_ends_with_whoever_asked(engine: LocalEngine) -> None:
    stream = run(engine, "sh", "-c", "sleep 601 & echo $! $$; wait")
    pids = [int(word) for word in until(stream, b"\n").split()]
    stream.close()
    for pid in pids:
        wait_gone(pid)


def test_it_ends_with_its_member_whatever_it_thinks_of_signals(engine: LocalEngine) -> None:
    stream = run(engine, "sh", "-c", "trap '' TERM HUP INT; echo $$; while :; do sleep 1; done")
    pid = int(until(stream, b"\n"))
    engine.stop(["at_1"], 100_000)
    wait_ended(engine, "mb_1")
    wait_gone(pid)
    wait_free(engine, "at_1")
    assert everything(stream)[2]["reason"] in ("member-ended", "ended")


def test_it_goes_on_when_the_runner_dies(engine: LocalEngine, tmp_path: Path) -> None:
    stream = run(engine, "cat")
    stream.write(Channel.STDIN, b"there\n")
    until(stream, b"there")
    kill_runner(tmp_path)
    stream.write(Channel.STDIN, b"still here\n")
    until(stream, b"still here")
    stream.write(Channel.STDIN, b"")
    assert everything(stream)[2]["code"] == 0


def test_its_time_is_limited(engine: LocalEngine) -> None:
    _, _, status = everything(run(engine, "sleep", "600", time_limit=200_000))
    assert status["reason"] == "time-limit"


def test_what_it_leaves_in_the_background_ends_with_it(engine: LocalEngine) -> None:
    out, _, status = everything(run(engine, "sh", "-c", "setsid sleep 602 >/dev/null 2>&1 & echo $!"))
    assert status["code"] == 0
    wait_gone(int(out))


def test_only_a_member_that_runs_and_is_ours_has_commands_beside_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    for name in ("mb_2", "no/id"):
        with pytest.raises(UnavailableError) as caught:
            engine.exec(name, Execution(("true",)))
        assert caught.value.code == "member-not-running"
    other = make_local_engine(tmp_path, install_id="in_other")
    with contextlib.closing(other), pytest.raises(UnavailableError) as refused:
        other.exec("mb_1", Execution(("true",)))
    assert refused.value.code == "member-not-running"


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"\x00\xff\xff\xff\xff", b"{}\n"])
def test_a_connection_that_speaks_nonsense_ends_its_command(engine: LocalEngine, garbage: bytes) -> None:
    stream = run(engine, "sh", "-c", "echo $$; sleep 603")
    pid = int(until(stream, b"\n"))
    stream._socket.sendall(garbage)  # type: ignore[attr-defined]
    if garbage[0] != 0xFF:
        stream.close()
    wait_gone(pid)
    assert os.path.exists("/proc/self")


# ---- isolated members

MODES = [USER_ID, BUBBLEWRAP]
STATUS = "cat /proc/self/status; ls -A /tmp; readlink /proc/self/ns/mnt /proc/self/ns/ipc"


@pytest.fixture(params=MODES)
def isolated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalEngine]:
    """An engine with one member that sleeps in a mode's surroundings; skipped where that can't be had."""
    made = make_local_engine(tmp_path, isolation=Wish(request.param))
    why = dict(made.capabilities().isolation_modes)[request.param]
    if why is not None:
        end_everything(made)
        pytest.skip(f"{request.param}: {why}")
    script = f"{STATUS}; touch /tmp/mine; echo ready; sleep 600"
    made.start([attempt("at_1", member("mb_1", ("/bin/sh", "-c", script)))])
    wait_for(made, "mb_1", lambda _seen: b"ready" in made.logs("mb_1", 0, 1 << 16).data)
    yield made
    end_everything(made)


def identity(text: bytes) -> dict[str, str]:
    """What of a status tells who a process is."""
    fields = dict(line.split(":", 1) for line in text.decode().splitlines() if ":\t" in line)
    told = ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "NoNewPrivs")
    return {key: fields[key].strip() for key in told}


def test_beside_an_isolated_member_a_command_is_what_the_member_is_and_no_more(
    isolated: LocalEngine,
) -> None:
    out, err, status = everything(run(isolated, "sh", "-c", STATUS))
    assert (status["code"], err) == (0, b"")
    theirs = isolated.logs("mb_1", 0, 1 << 16).data
    assert identity(out) == identity(theirs)
    assert identity(out)["CapEff"] == "0" * 16
    assert identity(out)["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert identity(out)["Uid"].split()[0] != "0"
    spaces = [line for line in theirs.splitlines() if line.startswith((b"mnt:", b"ipc:"))]
    assert out.splitlines()[-2:] == spaces
    assert b"mine" in out.splitlines()


def test_beside_an_isolated_member_there_is_a_terminal_and_an_end(isolated: LocalEngine) -> None:
    stream = run(isolated, "sh", terminal=TerminalSize(), term="xterm")
    stream.write(Channel.STDIN, b"sleep 604 & echo pid-$!; stty -echo; sleep 605\n")
    until(stream, b"pid-")
    isolated.stop(["at_1"], 100_000)
    wait_ended(isolated, "mb_1")
    wait_free(isolated, "at_1")
    stream.close()
    left = [procfs.environment(one.pid) for one in procfs.processes() if one.name == "sleep" and one.alive]
    assert not [env for env in left if env.get("STEELYARD_INSTALL") == INSTALL]


def test_a_command_that_ended_leaves_no_zombie_of_the_runner(engine: LocalEngine, tmp_path: Path) -> None:
    for _ in range(3):
        assert everything(run(engine, "true"))[2]["code"] == 0
    runner, deadline = runner_pid(tmp_path), time.monotonic() + 10
    while [one for one in procfs.processes() if one.parent == runner and not one.alive]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
