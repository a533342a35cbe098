"""SQL texts made once from Core constructs, executed many times with plain parameters.

Compiling a Core statement costs more than running it on SQLite; a writer that handles thousands of
rows a second compiles each distinct statement once and hands the driver whole groups of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.expression import ClauseElement

from steelyard.store.copying import WORTH_IT, Copy, copier

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """Text and how to turn a row into its parameters. `counted`: each row must change exactly one; `copy`:
    how many new rows are written where the database has a faster way."""

    text: str
    convert: Callable[[Row], Any]
    counted: bool
    copy: Copy | None = None

    def run(self, connection: Connection, rows: Sequence[Row]) -> bool:
        """Execute for all rows; False when a counted statement met a row that had changed meanwhile."""
        if self.copy is not None and len(rows) >= WORTH_IT:
            self.copy(connection, rows)
            return True
        convert = self.convert
        result = connection.exec_driver_sql(self.text, [convert(row) for row in rows])
        return not self.counted or result.rowcount == len(rows)


class Statements:
    """The compiled statements of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._known: dict[tuple[Any, ...], Statement] = {}

    def insert(self, table: Table, columns: tuple[str, ...]) -> Statement:
        """INSERT of these columns (keys of the table)."""
        key = ("insert", table.name, columns)
        found = self._known.get(key)
        if found is None:
            built = table.insert().values({column: bindparam(column) for column in columns})
            made = self._compile(built, counted=False)
            found = self._known[key] = replace(made, copy=copier(self._dialect, table, columns))
        return found

    def update(
        self, table: Table, columns: tuple[str, ...], where: tuple[str, ...], null: tuple[str, ...] = ()
    ) -> Statement:
        """UPDATE of `columns` where each of `where` equals its `k_…` parameter and each of `null` is null."""
        key = ("update", table.name, columns, where, null)
        found = self._known.get(key)
        if found is None:
            built = table.update().values({column: bindparam(f"v_{column}") for column in columns})
            for column in where:
                built = built.where(table.c[column] == bindparam(f"k_{column}"))
            for column in null:
                built = built.where(table.c[column].is_(None))
            found = self._known[key] = self._compile(built, counted=True)
        return found

    def upsert(
        self, table: Table, columns: tuple[str, ...], keys: tuple[str, ...], add: tuple[str, ...] = ()
    ) -> Statement:
        """INSERT, or on a known key replace the other columns; those in `add` are added to."""
        key = ("upsert", table.name, columns, keys, add)
        found = self._known.get(key)
        if found is None:
            maker = sqlite.insert if self._dialect.name == "sqlite" else postgresql.insert
            built = maker(table).values({column: bindparam(column) for column in columns})
            changes = {
                column: table.c[column] + built.excluded[column] if column in add else built.excluded[column]
                for column in columns
                if column not in keys
            }
            done = built.on_conflict_do_update(index_elements=[table.c[k] for k in keys], set_=changes)
            found = self._known[key] = self._compile(done, counted=False)
        return found

    def delete(self, table: Table, where: tuple[str, ...]) -> Statement:
        """DELETE of working rows (never of evidence) by `k_…` parameters."""
        key = ("delete", table.name, where)
        found = self._known.get(key)
        if found is None:
            built = table.delete()
            for column in where:
                built = built.where(table.c[column] == bindparam(f"k_{column}"))
            found = self._known[key] = self._compile(built, counted=False)
        return found

    def _compile(self, statement: ClauseElement, counted: bool) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        order = getattr(compiled, "positiontup", None)
        return Statement(str(compiled), _by_position(order) if order else _by_name, counted)


def _by_name(row: Row) -> Mapping[str, Any]:
    return row


def _by_position(order: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    if len(order) == 1:
        only = order[0]
        return lambda row: (row[only],)
    return itemgetter(*order)
