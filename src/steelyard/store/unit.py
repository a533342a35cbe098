"""A unit of work is a value: who, what, why → rows and leaf drafts. It touches no connection.

Use cases and loops build units; the writer alone turns them into SQL. One leaf per object per unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Table

from steelyard.evidence.leaf import ActorRef, Head, LeafDraft
from steelyard.store import tables
from steelyard.store.statements import Row

NO_HEAD = Head(0, -1, b"")


def object_stream(draft: LeafDraft) -> str:
    """The name of the stream that belongs to the leaf's object."""
    return f"object/{draft.object_kind}/{draft.object_id}"


@dataclass(slots=True)
class Write:
    """Rows for one statement. `op` is insert, update, upsert or delete."""

    op: str
    table: Table
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    extra: tuple[str, ...]  # null columns of an update, added columns of an upsert
    row: Row


@dataclass(slots=True)
class Unit:
    """What one actor changes in one step. `fence` is the lease's epoch for units of the control loops."""

    actor: ActorRef
    fence: int | None = None
    new_epoch: int | None = None
    writes: list[Write] = field(default_factory=list)
    drafts: list[tuple[LeafDraft, Row | None, Head]] = field(default_factory=list)
    usage: dict[tuple[str, str, str], int] = field(default_factory=dict)
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_head: list[tuple[str, Callable[[Head], None]]] = field(default_factory=list)
    #: Called when its leaves have their places, before anything is written (and again where it has to be
    #: written anew): with the seq of the first, and what gives the hash of each. It may change rows.
    on_place: Callable[[int, Callable[[int], bytes]], None] | None = None
    first_seq: int = -1  # set when committed
    last_hash: bytes | None = None  # of its last leaf, set when committed
    result: Any = None

    def insert(self, table: Table, /, **row: Any) -> Row:
        """A new row. Returned so that a leaf can carry the object's head in it."""
        self.writes.append(Write("insert", table, tuple(row), (), (), row))
        return row

    def update(self, table: Table, where: Row, /, *, null: tuple[str, ...] = (), **values: Any) -> Row:
        """Change exactly the one row that `where` names (with its version): else the unit is stale."""
        row = {f"k_{name}": value for name, value in where.items()}
        for name, value in values.items():
            row[f"v_{name}"] = value
        self.writes.append(Write("update", table, tuple(values), tuple(where), null, row))
        return row

    def upsert(self, table: Table, keys: tuple[str, ...], /, *, add: tuple[str, ...] = (), **row: Any) -> Row:
        """A row that may be there already; its other columns are replaced or, in `add`, added to."""
        self.writes.append(Write("upsert", table, tuple(row), keys, add, row))
        return row

    def delete(self, table: Table, /, **where: Any) -> None:
        """Remove working rows."""
        row = {f"k_{name}": value for name, value in where.items()}
        self.writes.append(Write("delete", table, (), tuple(where), (), row))

    def charge(self, tree: str, node: str, subject: str, delta: int) -> None:
        """Add to a usage counter; a commit writes each counter once."""
        key = (tree, node, subject)
        self.usage[key] = self.usage.get(key, 0) + delta

    def leaf(
        self,
        draft: LeafDraft,
        carrier: Row | None = None,
        head: Head = NO_HEAD,
        keep: Callable[[Head], None] | None = None,
    ) -> None:
        """One leaf. `carrier` is the row (from insert or update) of the object itself: it is given the
        object's new head; `head` is the one before. `keep` is told the new head after the commit."""
        self.drafts.append((draft, carrier, head))
        if carrier is not None and "head_n" not in carrier and "v_head_n" not in carrier:
            self._reserve_head_columns(carrier)
        if keep is not None:
            self.on_head.append((object_stream(draft), keep))

    def _reserve_head_columns(self, carrier: Row) -> None:
        for write in reversed(self.writes):
            if write.row is carrier:
                prefix = "v_" if write.op == "update" else ""
                for name in ("head_n", "head_seq", "head_hash"):
                    carrier[prefix + name] = None
                write.columns = (*write.columns, "head_n", "head_seq", "head_hash")
                return
        raise ValueError("the carrier is not a row of this unit")

    @property
    def size(self) -> int:
        """Objects in it, for the group's bound."""
        return len(self.drafts) or 1


def set_head(carrier: Row, head: Head) -> None:
    """Write an object's head into its own row."""
    prefix = "v_" if "v_head_n" in carrier else ""
    carrier[prefix + "head_n"] = head.n
    carrier[prefix + "head_seq"] = head.seq
    carrier[prefix + "head_hash"] = head.hash


#: Fixed order of tables in a flush: the same everywhere, so that two writers can't deadlock.
TABLE_ORDER: dict[str, int] = {
    table.name: index for index, table in enumerate(tables.metadata.tables.values())
}
