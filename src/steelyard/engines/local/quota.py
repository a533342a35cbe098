"""How much a member keeps in its work folder, measured in small pieces.

The kernel gives ordinary folders no quota, so the supervisor counts. One look goes through the whole tree in
pieces of at most PIECE_SECONDS, one piece a second; looks follow each other the closer, the sooner the limit
could be reached at the speed seen last. So it costs a few milliseconds a second at most, and a program can be
over its limit for as long as one look takes.

Counted are the blocks of files and folders in the tree, each file once, on the same file system; no link is
followed. What is open and has no name any more is not seen. Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from steelyard.engines.local.files import open_folder

PIECE_SECONDS = 0.004
EVERY = 1.0  # seconds between pieces of a look
LONGEST = 15.0  # seconds between looks
TOO_DEEP = 1 << 40  # MiB
_BLOCK = 512  # bytes: what st_blocks counts
_MIB = 1 << 20
_MANY = 1 << 17  # files with several names that are remembered; what comes after them counts each time
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 64  # entries between two looks at the clock


class Gauge:
    """Measures one folder. `limit` in MiB."""

    def __init__(self, folder: str, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._limit = limit * _MIB
        self._clock = clock
        self._look: Iterator[int] | None = None
        self._last: tuple[float, int] | None = None  # when, how many bytes
        self.due = clock()

    def step(self) -> int | None:
        """A piece of a look, if one is due: MiB that are used (rounded up) once they are above the limit,
        else None. Never raises; what can't be read counts as nothing, what is too deep as TOO_DEEP."""
        now = self._clock()
        if now < self.due:
            return None
        if self._look is None:
            self._look = measure(self._folder)
        until, used = now + PIECE_SECONDS, 0
        for used in self._look:
            if used > self._limit:
                break
            if self._clock() >= until:
                self.due = now + EVERY
                return None
        self._look = None
        self.due = self._clock() + self._pause(used)
        self._last = (self._clock(), used)
        return -(-used // _MIB) if used > self._limit else None

    def _pause(self, used: int) -> float:
        """Half of the time in which the limit would be reached."""
        left = self._limit - used
        if self._last is None:
            return EVERY
        elapsed, grown = self._clock() - self._last[0], used - self._last[1]
        if grown <= 0 or elapsed <= 0:
            return LONGEST if left > self._limit // 4 else LONGEST / 3
        return min(LONGEST, max(EVERY, left / (grown / elapsed) / 2))


def measure(folder: str) -> Iterator[int]:
    """The bytes counted so far, again and again until all are."""
    try:
        top = _open(folder)
    except OSError:
        return
    try:
        yield from _walk(top)
    finally:
        os.close(top)


def _open(name: str, folder: int | None = None) -> int:
    """Opens a folder as it is; its rights are changed only where its owner took them from itself, too."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        return open_folder(name, folder)


def _walk(top: int) -> Iterator[int]:
    device = os.fstat(top).st_dev
    used, count = os.fstat(top).st_blocks * _BLOCK, 0
    known: set[int] = set()
    waiting = ["."]
    while waiting:
        place = waiting.pop()
        try:
            fd = _open(place, top)
        except OSError as failed:
            if failed.errno == errno.ENAMETOOLONG:  # no program needs that, but to hide what it has there
                yield TOO_DEEP * _MIB
                return
            continue
        try:
            for name, status in _entries(fd):
                count += 1
                if status.st_dev != device:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(f"{place}/{name}")
                elif status.st_nlink > 1:
                    if status.st_ino in known:
                        continue
                    if len(known) < _MANY:
                        known.add(status.st_ino)
                used += status.st_blocks * _BLOCK
                if count % _AT_ONCE == 0:
                    yield used
        finally:
            os.close(fd)
        yield used
    yield used


def _entries(fd: int) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(fd) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=False)
