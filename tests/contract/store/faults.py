"""Faults of the database connection, from outside: at a statement, at the commit, or after it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from steelyard.store.store import Store


class Crash(Exception):
    """As if nothing after this statement had ever happened."""


def trouble() -> Exception:
    """What a driver raises when the database is gone."""
    return OperationalError("COMMIT", {}, RuntimeError("the connection was lost"))


class Faults:
    """Counts the statements and commits of writing transactions and raises once, before the k-th."""

    def __init__(self, store: Store, error: Exception) -> None:
        self.error = error
        self.at = -1  # never
        self.seen = 0
        self.fired = False
        event.listen(store.engine, "before_cursor_execute", self._statement)
        event.listen(store.engine, "commit", self._commit)

    def _statement(self, connection: Any, *_rest: object) -> None:
        if connection.get_execution_options().get("writing"):
            self._count()

    def _commit(self, connection: Any) -> None:
        if connection.get_execution_options().get("writing"):
            self._count()

    def _count(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.fired = True
            raise self.error
