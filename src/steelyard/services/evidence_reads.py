"""Who read the evidence: reading it leaves a leaf, too.

Of the same thing read again by the same principal within ten minutes there is one leaf, and of one principal
at most ten a minute, so that nobody fills the log by reading it; what was left out is counted in the next.
What can't be recorded is not shown.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary, proxy

from steelyard.evidence.leaf import LOG_KIND, LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.model.organisation import Principal
from steelyard.model.units import MINUTE
from steelyard.store.store import Store
from steelyard.store.unit import Unit

ACTION = "evidence.read"
AGAIN = 10 * MINUTE
MAX_A_MINUTE = 10
MAX_REMEMBERED = 10_000


class EvidenceReads:
    """What was read of one server's log. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store: Store = proxy(store)  # it ends with its store
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str, str | None], int] = {}
        self._counts: dict[str, tuple[int, int, int]] = {}  # by principal: minute, leaves in it, left out

    def note(self, who: Principal, what: str, subject: str | None, origin: Origin | None) -> None:
        """`what`: leaves, record, checkpoint or bundle; `subject`: a stream that there is, or a number.

        Raises UnavailableError where it can't be recorded.
        """
        key = (who.id, what, subject)
        left_out = self._due(key)
        if left_out is None:
            return
        unit = Unit(actor_of(who))
        extra: dict[str, Any] = {"what": what, "subject": subject, "left_out": left_out}
        unit.leaf(LeafDraft(ACTION, LOG_KIND, LOG_KIND, origin=origin, extra=extra))
        with ExitStack() as unwritten:
            unwritten.callback(self._forget, key)
            self._store.writer.write(unit)
            unwritten.pop_all()

    def _forget(self, key: tuple[str, str, str | None]) -> None:
        with self._lock:
            self._seen.pop(key, None)

    def _due(self, key: tuple[str, str, str | None]) -> int | None:
        """How many reads were left out before this one; None where this one needs no leaf."""
        now, who = self._store.now(), key[0]
        with self._lock:
            if now - self._seen.get(key, -AGAIN) < AGAIN:
                return None
            minute, count, left_out = self._counts.get(who, (0, 0, 0))
            count = count if minute == now // MINUTE else 0
            if count >= MAX_A_MINUTE:
                self._counts[who] = (minute, count, left_out + 1)
                return None
            self._counts[who] = (now // MINUTE, count + 1, 0)
            if len(self._seen) >= MAX_REMEMBERED:
                self._seen = {one: at for one, at in self._seen.items() if now - at < AGAIN}
            if len(self._seen) < MAX_REMEMBERED:
                self._seen[key] = now
            return left_out


_of_stores: WeakKeyDictionary[Store, EvidenceReads] = WeakKeyDictionary()


def reads_of(store: Store) -> EvidenceReads:
    """The one of a store, which API and console share."""
    return _of_stores.setdefault(store, EvidenceReads(store))
