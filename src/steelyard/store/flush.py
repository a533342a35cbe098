"""The rows of a group of units, statement by statement in a fixed order of tables and operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection

from steelyard.evidence.leaf import LOG_KIND, Head
from steelyard.store import tables as t
from steelyard.store.secrets import Opening
from steelyard.store.statements import Row, Statement, Statements
from steelyard.store.unit import TABLE_ORDER, Unit, Write

_OPERATIONS = {"delete": 0, "update": 1, "upsert": 2, "insert": 3}
_LOG_STREAM = f"object/{LOG_KIND}/{LOG_KIND}"
_Key: TypeAlias = tuple[int, int, tuple[Any, ...]]


def write_rows(connection: Connection, statements: Statements, units: Sequence[Unit]) -> str | None:
    """Execute what the units change; the name of the table where a row had changed meanwhile."""
    groups: dict[_Key, list[Row]] = {}
    samples: dict[_Key, Write] = {}
    for unit in units:
        for write in unit.writes:
            columns = (write.columns, write.keys, write.extra)
            key = (TABLE_ORDER[write.table.name], _OPERATIONS[write.op], columns)
            rows = groups.get(key)
            if rows is None:
                groups[key], samples[key] = [write.row], write
            else:
                rows.append(write.row)
    for key in sorted(groups):
        if not _statement(statements, samples[key]).run(connection, groups[key]):
            return samples[key].table.name
    return None


def _statement(statements: Statements, write: Write) -> Statement:
    if write.op == "insert":
        return statements.insert(write.table, write.columns)
    if write.op == "update":
        return statements.update(write.table, write.columns, write.keys, write.extra)
    if write.op == "upsert":
        return statements.upsert(write.table, write.columns, write.keys, write.extra)
    return statements.delete(write.table, write.keys)


def write_usage(connection: Connection, statements: Statements, units: Sequence[Unit]) -> None:
    """Add to the usage counters; each is written once."""
    total: dict[tuple[str, str, str], int] = {}
    for unit in units:
        for key, delta in unit.usage.items():
            total[key] = total.get(key, 0) + delta
    rows = [
        {"tree": tree, "node": node, "subject": subject, "used": delta}
        for (tree, node, subject), delta in sorted(total.items())
        if delta
    ]
    if rows:
        columns = ("tree", "node", "subject", "used")
        statements.upsert(t.quota_usage, columns, columns[:3], ("used",)).run(connection, rows)


def kept_in_table(stream: str) -> bool:
    """An object's head stands in its own row; the log itself has none."""
    return not stream.startswith("object/") or stream == _LOG_STREAM


def write_heads(connection: Connection, statements: Statements, heads: Mapping[str, Head]) -> None:
    """Where the streams stand that have no row of their own."""
    rows = [
        {"name": name, "n": head.n, "seq": head.seq, "hash": head.hash}
        for name, head in sorted(heads.items())
        if kept_in_table(name)
    ]
    if rows:
        columns = ("name", "n", "seq", "hash")
        statements.upsert(t.stream_head, columns, ("name",)).run(connection, rows)


def write_openings(connection: Connection, statements: Statements, openings: Sequence[Opening]) -> None:
    """What opens the confidential values that a leaf names for the first time."""
    if openings:
        statement = statements.upsert(t.confidential, ("digest", "salt", "value"), ("digest",))
        statement.run(connection, [opening._asdict() for opening in openings])
