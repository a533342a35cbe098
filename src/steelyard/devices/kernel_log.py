"""Reads the kernel's log as it grows: what drivers say of their cards.

Format of /dev/kmsg: the kernel's `dev-kmsg` document; a record is `priority,number,µs since boot,flags;text`
and lines that begin with a space, which are left out. A plain file in that format stands in for it in trials.
A log that may not be read is no log: nothing is guessed from its silence.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.devices.parsers import parse
from steelyard.devices.reading import Reading

TOOL = "kernel-log"
_RECORD = 8192
_MOST_RECORDS = 50_000  # of one reading
_MOST_BYTES = 4 << 20
_USED = ("NVRM", "neuron")  # what a line must hold to be looked at closer


@dataclass(frozen=True, slots=True)
class Event:
    """What lines of one µs say of one card."""

    reading: Reading
    at: int  # µs UTC


class KernelLog:
    """One reader. `path` may not exist."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._plain = False
        self._rest = b""

    def read(self, now: int) -> list[Event]:
        """What was written since the last time; at first what is kept of this boot. `now` in µs UTC."""
        if self._fd is None and not self._open():
            return []
        boot = now - time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        found = []
        for record in self._records():
            told = _told(record)
            if told is None:
                continue
            parsed = parse(TOOL, None, told[1] + "\n")
            found += [Event(reading, min(now, boot + told[0])) for reading in parsed.readings]
        return found

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        self._plain = stat.S_ISREG(os.fstat(self._fd).st_mode)
        return True

    def _records(self) -> Iterator[bytes]:
        assert self._fd is not None
        if self._plain:
            text = self._rest + os.read(self._fd, _MOST_BYTES)
            *whole, self._rest = text.split(b"\n")
            yield from whole
            return
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(self._fd, _RECORD)
            except BrokenPipeError:  # the next one was overwritten; reading goes on behind it
                continue
            except OSError:  # no more now, or none for us
                return
            if not record:
                return
            yield record


def _told(record: bytes) -> tuple[int, str] | None:
    """(µs since boot, text) of a record in which a driver of ours may speak."""
    head, _, text = record.partition(b";")
    fields = head.split(b",")
    line = text.split(b"\n", 1)[0].decode("utf-8", "replace")
    if len(fields) < 3 or not fields[2].isdigit() or not any(word in line for word in _USED):
        return None
    return int(fields[2][:18]), line
