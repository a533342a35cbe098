"""A log that outgrows its bound keeps its beginning and its end, and says what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.engines.local.member_logs import MIB, MemberLogs, bound, read_log
from steelyard.engines.local.paths import Layout

MEMBER = "mb_0000000000001"
HEAD, TAIL = 64 * 1024, MIB


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Seven MiB of numbered lines."""
    path = tmp_path / "member.log"
    path.write_bytes(b"".join(b"%014d\n" % number for number in range(7 * MIB // 15)))
    return path


def whole(path: Path, step: int = 100_000) -> bytes:
    """All that a reader is given, from the beginning on."""
    found, offset = b"", 0
    while True:
        data, offset, size = read_log(str(path), offset, step)
        found += data
        if offset >= size:
            return found


def test_beginning_and_end_stay_where_they_were_and_the_middle_is_said_to_be_left_out(log: Path) -> None:
    before = log.read_bytes()
    if not bound(str(log), HEAD, TAIL):
        pytest.skip("the file system of the temporary folder can't give back the middle of a file")
    assert os.stat(log).st_size == len(before)
    assert os.stat(log).st_blocks * 512 <= HEAD + TAIL + 2 * MIB
    given = whole(log)
    assert given.startswith(before[:HEAD])
    assert given.endswith(before[-TAIL:])
    middle = given[HEAD:-TAIL]
    assert b"log-left-out bytes=" in middle
    assert len(given) < HEAD + TAIL + MIB
    assert b"\0" not in given
    assert read_log(str(log), -100, 100)[0] == before[-100:]


def test_a_reader_in_the_middle_goes_on_behind_it(log: Path) -> None:
    before = log.read_bytes()
    if not bound(str(log), HEAD, TAIL):
        pytest.skip("the file system of the temporary folder can't give back the middle of a file")
    data, after, size = read_log(str(log), HEAD + 10 * 4096, 1000)
    assert b"log-left-out" in data
    assert read_log(str(log), after, 1000)[0] == before[after : after + 1000]
    assert size == len(before)


def test_a_small_log_and_what_is_no_log_stay_as_they_are(tmp_path: Path) -> None:
    small = tmp_path / "small.log"
    small.write_bytes(b"x" * 1000)
    (tmp_path / "link.log").symlink_to(small)
    for name in ("small.log", "link.log", "none.log", "."):
        assert not bound(str(tmp_path / name), 100, 100)
    assert small.read_bytes() == b"x" * 1000
    assert read_log(str(tmp_path / "link.log"), 0, 10) == (b"", 0, 0)


def test_a_growing_log_is_bounded_when_its_member_is_seen_to_end(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    os.makedirs(layout.logs)
    path = Path(layout.member_log(MEMBER))
    path.write_bytes(os.urandom(5 * MIB))
    logs = MemberLogs(layout, 1)
    logs._next = float("inf")
    logs.seen([{"member_id": MEMBER, "phase": "running"}])
    assert os.stat(path).st_blocks * 512 >= 5 * MIB
    logs.seen([{"member_id": MEMBER, "phase": "ended"}])
    if os.stat(path).st_blocks * 512 >= 5 * MIB:
        pytest.skip("the file system of the temporary folder can't give back the middle of a file")
    assert os.stat(path).st_blocks * 512 <= 3 * MIB
