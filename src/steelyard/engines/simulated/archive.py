"""What a simulated cluster keeps beyond its working notes, so that its journal can be written shorter.

An attempt that was forgotten and of which nothing is left in the world needs no records any more; its
log, its saved progress, its id and the faults it used up stay, the newest of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from steelyard.engines.simulated.member import Attempt
from steelyard.engines.simulated.records import (
    Declared,
    Forgotten,
    Kept,
    Record,
    Saved,
    Spent,
    Started,
)

#: Logs, progress and ids of forgotten attempts are kept for this many, the oldest go first.
KEPT = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Archive:
    """Records in the order in which they were applied, by attempt."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.progress: dict[tuple[str, str, int], int] = {}
        self.forgotten: dict[str, None] = {}
        self._order = 0
        self._documents: list[tuple[int, Declared]] = []
        self._of_attempt: dict[str, list[tuple[int, Record]]] = {}
        self._lingering: dict[str, Attempt] = {}
        self._spent: dict[str, int] = {}
        self._added: dict[str, int] = {}  # suffering → the order of the document that added it

    def document(self, record: Declared, added: Iterable[str]) -> None:
        """A document was applied; the counts of the sufferings that it adds begin anew."""
        self._order += 1
        self._documents.append((self._order, record))
        for key in added:
            self._added[key] = self._order
            self._spent.pop(key, None)

    def note(self, attempt: Attempt, record: Record) -> None:
        """A record that an attempt's state rests on."""
        self._order += 1
        self._of_attempt.setdefault(attempt.id, []).append((self._order, record))

    def forget(self, attempt: Attempt, record: Forgotten, lingers: bool) -> None:
        """The attempt's notes are dropped; its records stay as long as something of it lingers."""
        self.forgotten[attempt.id] = None
        _keep_newest(self.forgotten)
        self.note(attempt, record)
        if lingers:
            self._lingering[attempt.id] = attempt
        else:
            self._drop(attempt.id)

    def settle(self, lingers: Callable[[Attempt], bool]) -> None:
        """Drops the records of forgotten attempts of which nothing lingers any more."""
        for attempt_id in [key for key, attempt in self._lingering.items() if not lingers(attempt)]:
            del self._lingering[attempt_id]
            self._drop(attempt_id)

    def keep(self, record: Kept) -> None:
        """The log of a member that is forgotten."""
        self.logs[record.member_id] = record.text.encode()
        _keep_newest(self.logs)

    def save(self, record: Saved) -> None:
        """The progress of a member that is forgotten."""
        self.progress[record.attempt_id, record.role, record.index] = record.progress
        _keep_newest(self.progress)

    def spend(self, key: str, times: int) -> None:
        """A suffering was used up by something that leaves no record of its own."""
        self._spent[key] = self._spent.get(key, 0) + times

    def records(self, attempts: Iterable[Attempt]) -> list[Record]:
        """Everything that a shorter journal holds, in an order that leads to the same state."""
        found: list[Record] = [Kept(0, key, text.decode()) for key, text in self.logs.items()]
        found += [Saved(0, *key, progress) for key, progress in self.progress.items()]
        gone = tuple(key for key in self.forgotten if key not in self._lingering)
        if gone:
            found.append(Forgotten(0, gone))
        live = [*(attempt.id for attempt in attempts), *self._lingering]
        ordered: list[tuple[int, Record]] = [*self._documents]
        for attempt_id in live:
            ordered += self._of_attempt.get(attempt_id, [])
        if self._documents:
            order, last = self._documents[-1]
            # Between two records: right behind the last document, which begins the counts anew.
            ordered += [(order, Spent(last.at, key, times)) for key, times in self._spent.items()]
        found += [record for _, record in sorted(ordered, key=lambda entry: entry[0])]
        return found

    def _drop(self, attempt_id: str) -> None:
        for order, record in self._of_attempt.pop(attempt_id, ()):
            if isinstance(record, Started):
                for key in (key for member in record.members for key in member.faults):
                    if order > self._added.get(key, 0):
                        self.spend(key, 1)


def _keep_newest(kept: dict[K, V]) -> None:
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
