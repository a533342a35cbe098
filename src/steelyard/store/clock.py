"""The clock of a server: wall time that never steps back, whatever is done to the machine's clock.

When the wall clock is set back, or stands before the newest leaf at the start, time goes on at half its
pace until the wall clock has caught up. So no instant in the books comes before an earlier one, and no timer
stands still for as long as the clock was set back. That it was set back is a leaf of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from steelyard.evidence.leaf import BLIND_PREFIX, LOG_KIND, LeafDraft


def wall_clock() -> int:
    """What the machine says, µs UTC."""
    return time.time_ns() // 1000


def monotonic_clock() -> int:
    """µs since some instant; never set."""
    return time.monotonic_ns() // 1000


def stepped_back(before: int, now: int) -> LeafDraft:
    """The leaf that says that the machine's clock was set back."""
    return LeafDraft(
        action=BLIND_PREFIX + "clock-stepped",
        object_kind=LOG_KIND,
        object_id=LOG_KIND,
        extra={"last": before, "now": now},
    )


class SteadyClock:
    """Call it for µs UTC. Thread-safe."""

    def __init__(
        self, wall: Callable[[], int] = wall_clock, monotonic: Callable[[], int] = monotonic_clock
    ) -> None:
        self.wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._at, self._since = wall(), monotonic()

    def not_before(self, at: int) -> None:
        """From now on no instant comes before `at`."""
        with self._lock:
            if at > self._at:
                self._at, self._since = at, self._monotonic()

    def __call__(self) -> int:
        """µs UTC; never less than before."""
        with self._lock:
            wall, monotonic = self.wall(), self._monotonic()
            slow = self._at + (monotonic - self._since) // 2
            if wall < slow:
                return slow
            self._at, self._since = wall, monotonic
            return wall
