"""One open database with its writer: what the rest of the house is given."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from steelyard.model.errors import UnavailableError
from steelyard.model.ids import IdSource
from steelyard.store import tables as t
from steelyard.store.database import open_database, reading, writing
from steelyard.store.failures import brief, is_trouble, told
from steelyard.store.migrate import upgrade
from steelyard.store.writer import Writer

EMPTY_FRONTIER = b""


class Store:
    """Opens (and upgrades) a database, gives ids, reads and writes. Close it when done.

    `now` gives the time, µs UTC; `wall`, where given, what the machine's clock says: when that steps back, it
    stands in the log. Raises UnavailableError `database-unusable` for a database that is damaged, is none, or
    can't be reached.
    """

    def __init__(
        self,
        url: str,
        now: Callable[[], int],
        *,
        origin: str | None = None,
        wall: Callable[[], int] | None = None,
    ) -> None:
        self.now, self.wall = now, wall or now
        self.engine = open_database(url)
        #: True where other servers may write to the same database.
        self.shared = self.engine.dialect.name != "sqlite"
        try:
            upgrade(self.engine)
            self.install_id = self._ensure_log(origin)
            self.ids = IdSource(now, self._next_counter("server"))
            self.writer = Writer(self.engine, now, wall)
        except SQLAlchemyError as error:
            self.engine.dispose()
            raise UnavailableError("database-unusable", cause=brief(error)) from None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent read view. Raises UnavailableError `database-failed` when the database does."""
        try:
            with reading(self.engine) as connection:
                yield connection
        except SQLAlchemyError as error:
            if not is_trouble(error):
                raise
            raise told(error) from error

    def start(self) -> None:
        """Let the writer thread run."""
        self.writer.start()

    def close(self) -> None:
        """Flush and let go."""
        self.writer.close()
        self.engine.dispose()

    def _ensure_log(self, origin: str | None) -> str:
        with writing(self.engine) as connection:
            found = connection.execute(select(t.log.c.origin).where(t.log.c.id == 1)).scalar()
            if found is None:
                found = origin or f"steelyard.local/{secrets.token_hex(8)}"
                connection.execute(
                    t.log.insert().values(
                        id=1, size=0, frontier=EMPTY_FRONTIER, epoch=0, origin=found, last_ts=0
                    )
                )
        return str(found)

    def _next_counter(self, name: str) -> int:
        with writing(self.engine) as connection:
            row = connection.execute(
                update(t.counter)
                .where(t.counter.c.name == name)
                .values(value=t.counter.c.value + 1)
                .returning(t.counter.c.value)
            ).scalar()
            if row is None:
                connection.execute(t.counter.insert().values(name=name, value=1))
                return 1
        return int(row)
