"""Logs of members: read in pieces, and bounded on disk while they grow.

A program writes to its log's file itself, so nothing can be held back. A log that outgrows its bound keeps
its beginning and its newest part; what lies between is given back to the file system (a hole), so that every
offset stays what it was. Where there is a hole, its reader is told how many bytes are left out. A file system
that can't do that leaves the log whole.
"""

from __future__ import annotations

import ctypes
import os
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from steelyard.engines.local.paths import Layout

_log = structlog.get_logger(__name__)

MIB = 1 << 20
DEFAULT_MIB = 64
HEAD_SHARE = 16  # one part of so many is the log's beginning
EVERY_SECONDS = 10.0
MOST_READ = 8 << 20
_PAGE = 4096
_SLACK = MIB  # at least so much is given back at once
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h


class MemberLogs:
    """The logs of one engine. `most`: MiB that each may take on disk (a little more between two looks)."""

    def __init__(self, layout: Layout, most: int = DEFAULT_MIB) -> None:
        self._layout = layout
        self._head = max(_PAGE, most * MIB // HEAD_SHARE // _PAGE * _PAGE)
        self._tail = max(_PAGE, most * MIB - self._head)
        self._growing: set[str] = set()
        self._next = 0.0

    def seen(self, members: Sequence[Mapping[str, Any]]) -> None:
        """Members as they were observed; those that have ended are looked at once more."""
        self._growing.update(member["member_id"] for member in members)
        ended = [member["member_id"] for member in members if member["phase"] == "ended"]
        if time.monotonic() < self._next and not ended:
            return
        due = self._growing if time.monotonic() >= self._next else ended
        if due is self._growing:
            self._next = time.monotonic() + EVERY_SECONDS
        for member in due:
            bound(self._layout.member_log(member), self._head, self._tail)
        self._growing.difference_update(ended)

    def read(self, member: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """(bytes, next offset, size); of what was left out, one line that says how much it was."""
        return read_log(self._layout.member_log(member), offset, limit)


def bound(path: str, head: int, tail: int) -> bool:
    """Give back what lies between the first `head` and the last `tail` bytes; True where something was."""
    try:
        if os.lstat(path).st_blocks * 512 <= head + tail + _SLACK:
            return False  # most are short: it need not be opened for that
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        status = os.fstat(fd)
        end = (status.st_size - tail) // _PAGE * _PAGE
        begin = head
        if not stat.S_ISREG(status.st_mode) or status.st_blocks * 512 <= head + tail + _SLACK or end <= begin:
            return False
        return _punch(fd, begin, end - begin)
    finally:
        os.close(fd)


def _punch(fd: int, begin: int, length: int) -> bool:
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if call(fd, _KEEP_SIZE | _PUNCH_HOLE, begin, length) != 0:
        _log.warning("log-not-bounded", cause=os.strerror(ctypes.get_errno()))
        return False
    return True


def read_log(path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
    """(bytes, next offset, size). Only a plain file is read: a member could have put a link in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b"", max(0, offset), 0
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b"", max(0, offset), 0
        size = status.st_size
        begin = max(0, size + offset) if offset < 0 else offset
        limit = max(0, min(limit, MOST_READ))
        hole = _seek(fd, begin, os.SEEK_HOLE, size) if begin < size else size
        if hole == begin < size:
            after = _seek(fd, begin, os.SEEK_DATA, size)
            return _left_out(after - begin)[-(after - begin) :], after, size
        data = os.pread(fd, min(limit, hole - begin) if begin < hole else limit, begin)
    finally:
        os.close(fd)
    return data, begin + len(data), size


def _seek(fd: int, at: int, what: int, otherwise: int) -> int:
    try:
        return os.lseek(fd, at, what)
    except OSError:  # nothing more of it, or a file system without holes
        return otherwise


def _left_out(count: int) -> bytes:
    """In the place of what is gone; codes, no sentence, for a log has no reader's language."""
    return f"\n[steelyard: log-left-out bytes={count}]\n".encode()
