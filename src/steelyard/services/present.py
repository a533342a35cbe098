"""What the control loop of this server has in mind, for those who ask what it would decide.

The loop keeps everything that lives in memory; reading it all from the store for one question would cost
a second where tens of thousands wait. Who asks wakes the loop and gets the snapshot that it makes at the
end of its next pass, so it knows of all that was committed before the question. Many who ask at once get
the same one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from steelyard.model.policy import Policy
from steelyard.scheduling.snapshot import Snapshot

Made = tuple[Snapshot, Policy]
#: Seconds: a loop that takes longer is busy loading, or its database is slow; the store is read instead.
PATIENCE = 1.0


class Present:
    """Between one loop and any number of threads that ask."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._wake: Callable[[], None] | None = None
        self._asked = 0
        self._given = 0
        self._made: Made | None = None

    # ---- the loop's side

    def open(self, wake: Callable[[], None]) -> None:
        """From now on the loop answers; `wake` makes it pass soon."""
        with self._condition:
            self._wake = wake

    def close(self) -> None:
        """The loop answers no more: it has lost the lease, or its memory."""
        with self._condition:
            self._wake, self._made = None, None
            self._condition.notify_all()

    def answer(self, make: Callable[[], Made]) -> None:
        """The end of a pass: whoever has asked by now is answered."""
        asked = self._asked
        if asked == self._given:
            return
        made = make()
        with self._condition:
            self._given, self._made = asked, made
            self._condition.notify_all()

    # ---- who asks

    def ask(self, patience: float = PATIENCE) -> Made | None:
        """What the next cycle would see and decide by; None where no loop of this server answers in time."""
        with self._condition:
            wake = self._wake
            if wake is None:
                return None
            self._asked += 1
            mine = self._asked
            wake()
            self._condition.wait_for(lambda: self._given >= mine or self._wake is None, patience)
            return self._made if self._given >= mine and self._wake is not None else None
