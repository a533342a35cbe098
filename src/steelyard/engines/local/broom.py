"""Notes of forgotten members, removed when nothing else is to be done.

A file system may look past what was removed lately whenever it makes a file (ext4 without a journal does, for
minutes), so that removing as fast as others come makes each start dearer than all else that is done for it.
Standard library only: the runner imports this.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from contextlib import suppress

from steelyard.engines.local.files import remove_tree
from steelyard.engines.local.paths import Layout

#: Notes of so many members may stay while others come and go; seconds without any are quiet.
MOST = 4096
QUIET = 1.0


class Broom:
    """What is to be removed. `stirred` is told whenever a member begins or ends."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._waiting: deque[str] = deque()
        self._stirred = 0.0

    def stirred(self) -> None:
        """There is better to do for a while."""
        self._stirred = time.monotonic()

    def hurry(self) -> None:
        """The disk is full: what can be removed makes room."""
        self._stirred = 0.0

    def add(self, member: str) -> None:
        """A member is forgotten."""
        self._waiting.append(member)

    def due(self) -> float | None:
        """Seconds until something may be removed; None where nothing is to be."""
        return max(0.0, self._stirred + QUIET - time.monotonic()) if self._waiting else None

    def sweep(self, idle: bool) -> None:
        """Removes one member's notes, if it is quiet and nobody waits, or very many have come up."""
        if self._waiting and ((idle and self.due() == 0.0) or len(self._waiting) > MOST):
            self._drop(self._waiting.popleft())

    def sweep_all(self) -> None:
        """Removes all of them."""
        while self._waiting:
            self._drop(self._waiting.popleft())

    def _drop(self, member: str) -> None:
        """Removes the notes of a forgotten member, unless its shim is still clearing up."""
        folder = self._layout.notes(member)
        lock = None
        with suppress(OSError):
            lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        if lock is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                os.close(lock)
        gone = self._layout.notes(f"{member[:58]}-gone")  # at once: nobody finds a part of the notes
        with suppress(OSError):
            os.rename(folder, gone)
            folder = gone
        remove_tree(folder)
