"""What a log may say about an end. It is hostile input."""

from __future__ import annotations

import time
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.engines.port import MemberObservation, MemberPhase
from steelyard.model.failures import Confidence, Stage
from steelyard.model.lifecycle import Outcome
from steelyard.services.failure_catalogue import load_catalogue
from steelyard.services.failure_log import MAX_TEXT, TAIL, Line, scan
from steelyard.services.verdicts import Ending, judge

RULES = load_catalogue()
EVIL = [
    b"a" * TAIL,
    b"NCCL " * 4000,
    b": Assertion " * 1500,
    b"thread '" * 2000,
    (b"x: " * 130 + b"\n") * 45,
    b"\n".join([b"a"] * 8000),
    b"Traceback (most recent call last):\n" * 500,
    b"".join(b"A" * 399 + b"\n" for _ in range(41)),
    b"\x00\xff\x1b[2J" * 3000,
]
WORDS = st.sampled_from(
    [
        b"image not found", b"node lost", b"Traceback (most recent call last):", b"CUDA out of memory",
        b"ModuleNotFoundError: No module named 'x'", b"infrastructure.node-lost", b"oom-killed",
        b"supervisor-lost", b"\n", b": ",
    ]
)  # fmt: skip


def ended(code: int = 1) -> MemberObservation:
    return MemberObservation("at", "mb", MemberPhase.ENDED, ended_at=5, exit_code=code)


def found(data: bytes, offset: int = 0) -> tuple[Line, ...]:
    return scan(RULES, "mb", data, offset)


@pytest.mark.parametrize("data", EVIL, ids=range(len(EVIL)))
def test_a_log_made_to_be_slow_is_read_at_once(data: bytes) -> None:
    best = min(_seconds(data) for _ in range(3))
    assert best < 0.5


def _seconds(data: bytes) -> float:
    begin = time.perf_counter()
    found(data[-TAIL:], 1)
    return time.perf_counter() - begin


@given(st.lists(WORDS | st.binary(max_size=40), max_size=40))
def test_whatever_a_program_prints_the_blame_stays_with_it_or_its_environment(parts: list[bytes]) -> None:
    data = b"".join(parts)
    verdict = judge(Ending(Outcome.FAILED, [ended()], lines={"mb": found(data)}))
    assert verdict is not None
    assert verdict.stage in (Stage.APPLICATION, Stage.ENVIRONMENT)
    if verdict.rule.startswith("line."):
        assert verdict.confidence == Confidence.MEDIUM
    else:
        assert verdict.code == "exit-code"


@given(st.lists(WORDS | st.binary(max_size=40), max_size=40), st.integers(0, 10**9))
def test_a_pointer_leads_to_the_very_bytes(parts: list[bytes], offset: int) -> None:
    data = b"".join(parts)
    for line in found(data, offset):
        raw = data[line.offset - offset :][: line.length]
        assert sha256(raw).hexdigest() == line.digest
        assert b"\n" not in raw
        assert line.text.isprintable()
        assert len(line.text) <= MAX_TEXT + 1


def test_a_line_that_is_cut_off_at_its_beginning_is_not_looked_at() -> None:
    data = b"MemoryError\n"
    assert found(data, 0) != ()
    assert found(data, 100) == ()


def test_an_exception_counts_where_it_ends_a_traceback() -> None:
    assert found(b"ValueError: no\n") == ()
    traceback = b'Traceback (most recent call last):\n  File "a.py", line 1\n    x\nValueError: no\n'
    assert [line.text for line in found(traceback)] == ["ValueError: no"]


def test_the_last_of_several_lines_counts() -> None:
    data = b"PermissionError: a\nrecovered\nbash: x: No such file or directory\n"
    verdict = judge(Ending(Outcome.FAILED, [ended()], lines={"mb": found(data)}))
    assert verdict is not None
    assert (verdict.code, [other.code for other in verdict.others]) == (
        "file-missing", ["permission-denied", "exit-code"],
    )  # fmt: skip
