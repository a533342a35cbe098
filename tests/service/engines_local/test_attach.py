"""Members with a terminal of their own: what it shows is in the log, and one may attach and leave again."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import BUBBLEWRAP, NONE, USER_ID, Wish
from steelyard.engines.port import ExecStream, MemberPhase
from steelyard.model.errors import UnavailableError
from steelyard.model.execution import Channel
from tests.support.local_engine import (
    attempt,
    end_everything,
    make_local_engine,
    member,
    sh,
    wait_ended,
    wait_for,
    wait_free,
)

ON_TERMINAL = """
trap 'echo interrupted; exit 5' INT
[ -t 0 ] && [ -t 1 ] && echo on-a-terminal
while :; do read line && echo "heard $line"; stty size; done
"""


def until(stream: ExecStream, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        one = stream.read()
        assert one is not None, seen
        seen += one[1]
    return seen


def logged(engine: LocalEngine, text: bytes) -> None:
    wait_for(engine, "mb_1", lambda _seen: text in engine.logs("mb_1", 0, 1 << 16).data)


@pytest.mark.parametrize("mode", [NONE, USER_ID, BUBBLEWRAP])
def test_one_attaches_types_leaves_and_attaches_again(tmp_path: Path, mode: str) -> None:
    engine = make_local_engine(tmp_path, isolation=Wish(mode))
    try:
        why = dict(engine.capabilities().isolation_modes).get(mode)
        if why is not None:
            pytest.skip(f"{mode}: {why}")
        engine.start([attempt("at_1", member("mb_1", ("sh", "-c", ON_TERMINAL), tty=True))])
        logged(engine, b"on-a-terminal")
        first = engine.attach("mb_1")
        assert b"on-a-terminal" in until(first, b"on-a-terminal")  # what was there before
        first.write(Channel.RESIZE, b'{"rows": 31, "columns": 99}')
        first.write(Channel.STDIN, b"first\n")
        until(first, b"31 99")
        second = engine.attach("mb_1")
        first.close()
        second.write(Channel.STDIN, b"second\n")
        until(second, b"heard second")
        second.write(Channel.STDIN, b"\x03")
        status = {}
        while (one := second.read()) is not None:
            status = json.loads(one[1]) if one[0] == Channel.STATUS else status
        assert status["reason"] == "member-ended"
        assert wait_ended(engine, "mb_1").exit_code == 5
        log = engine.logs("mb_1", 0, 1 << 16)
        assert log.end
        assert b"heard first" in log.data
        assert log.data.rstrip().endswith(b"interrupted")
        wait_free(engine, "at_1")
    finally:
        end_everything(engine)


def test_all_that_was_written_is_in_the_log_once_it_has_ended(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "seq 1 20000", tty=True)])
    assert wait_ended(engine, "mb_1").exit_code == 0
    lines = engine.logs("mb_1", 0, 1 << 20).data.split()
    assert lines == [b"%d" % number for number in range(1, 20_001)]


def test_a_program_that_leaves_its_terminal_open_behind_it_holds_nothing_up(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "trap '' HUP; setsid sleep 600 & exit 3", tty=True)])
    assert wait_ended(engine, "mb_1").exit_code == 3
    wait_free(engine, "at_1")


def test_who_does_not_read_is_let_go_and_holds_nobody_up(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "read x; head -c 4000000 /dev/zero | tr '\\0' x; echo; exit 0", tty=True)])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    lazy = engine.attach("mb_1")
    lazy.write(Channel.STDIN, b"\n")
    assert wait_ended(engine, "mb_1", 60).exit_code == 0
    lazy.close()


def test_a_member_without_a_terminal_has_none_to_attach_to(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 600"), sh("at_2", "true", tty=True)])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    wait_ended(engine, "mb_2")
    codes = []
    for name in ("mb_1", "mb_2", "mb_3"):
        with pytest.raises(UnavailableError) as refused:
            engine.attach(name)
        codes.append(refused.value.code)
    assert codes == ["no-terminal", "member-not-running", "member-not-running"]


def test_a_stop_reaches_what_runs_on_a_terminal(engine: LocalEngine) -> None:
    engine.start([sh("at_1", "sleep 600", tty=True)])
    wait_for(engine, "mb_1", lambda seen: seen.phase is MemberPhase.RUNNING)
    engine.stop(["at_1"], 5_000_000)
    assert wait_ended(engine, "mb_1").exit_signal == signal.SIGTERM
    wait_free(engine, "at_1")
