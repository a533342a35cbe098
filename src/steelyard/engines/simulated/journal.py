"""The small state file of a simulated cluster: JSON lines, appended before a call returns, never synced.

It plays the part that a real cluster's own memory plays: the cluster goes on when the server dies. A lock
file lets two servers share one cluster; each reads what the other wrote before it acts. A torn last line
is what a dead writer left, and is cut off.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from steelyard.engines.simulated.records import Record
from steelyard.model.errors import InvalidError

_MODE = 0o600


class Journal:
    """One file. Every method but `locked` and `close` is called within `locked`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock")
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        self._file: int | None = None
        self._inode = 0
        self._offset = 0
        self._line = 0
        self._waiting: list[bytes] = []
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else reads or writes meanwhile."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def replaced(self) -> bool:
        """Whether the file that was read so far is no longer there (another wrote it anew)."""
        if self._file is None:
            return True
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return True
        return found.st_ino != self._inode or found.st_size < self._offset

    def open(self) -> None:
        """Begins at the file's beginning; makes it where there is none."""
        if self._file is not None:
            os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        self._inode = os.fstat(self._file).st_ino
        self._offset = self._line = 0
        self._waiting.clear()

    def news(self) -> list[Record]:
        """What was written since it was last read. Raises InvalidError for a line that is none of ours."""
        file = self._opened()
        size = os.fstat(file).st_size
        if size == self._offset:
            return []
        data = os.pread(file, size - self._offset, self._offset)
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            os.ftruncate(file, self._offset + whole)
        records = []
        for line in data[:whole].splitlines():
            self._line += 1
            try:
                records.append(self._decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise InvalidError(
                    "simulation-state-invalid", file=self._path.name, line=self._line
                ) from None
        self._offset += whole
        return records

    def append(self, record: Record) -> None:
        """Will be written by the next `flush`."""
        self._waiting.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Writes what waits. Raises OSError; then the file has to be opened and read again."""
        if not self._waiting:
            return
        data = b"\n".join((*self._waiting, b""))
        lines = len(self._waiting)
        self._waiting.clear()
        _write(self._opened(), data)
        self._offset += len(data)
        self._line += lines

    def discard(self) -> None:
        """What waits will not be written; the file has to be opened and read again."""
        self._waiting.clear()
        self._inode = 0

    def size(self) -> int:
        """Bytes in the file."""
        return self._offset

    def rewrite(self, records: Sequence[Record]) -> None:
        """Puts a shorter file in the place of this one, by rename."""
        fresh = self._path.with_name(self._path.name + ".new")
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, _MODE)
        data = b"".join(self._encoder.encode(record) + b"\n" for record in records)
        try:
            _write(file, data)
            os.rename(fresh, self._path)
        except OSError:
            os.close(file)
            raise
        if self._file is not None:
            os.close(self._file)
        self._file, self._inode = file, os.fstat(file).st_ino
        self._offset, self._line = len(data), len(records)

    def close(self) -> None:
        """Lets go of the files."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _opened(self) -> int:
        assert self._file is not None
        return self._file


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
