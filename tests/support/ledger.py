"""Accounts as the simplest objects with a leaf each, and the check that holds them against the log."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, verify_bodies
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_row, stream_heads
from steelyard.store.store import Store
from steelyard.store.unit import NO_HEAD, Unit

KIND = "user"


@dataclass(slots=True)
class Thing:
    """An account as the test knows it; `head` follows the commits of its units."""

    id: int
    name: str
    version: int = 1
    head: Head = NO_HEAD
    heads: list[Head] = field(default_factory=list)

    def keep(self, head: Head) -> None:
        """Told after each commit."""
        self.head = head
        self.heads.append(head)

    def draft(self, action: str, project: str | None, before: int | None) -> LeafDraft:
        """The leaf of a step to the version."""
        return LeafDraft(
            action, KIND, str(self.id), before, self.version, project=project, extra={"name": self.name}
        )


def born(store: Store, name: str, *, actor: str = "us_a", project: str | None = "p") -> tuple[Unit, Thing]:
    """A unit that makes an account, and the account."""
    thing = Thing(store.ids.next(), name)
    unit = Unit(ActorRef(actor))
    row = unit.insert(
        t.user, id=thing.id, name=name, disabled=False, must_change=False, version=1, created_at=store.now()
    )
    unit.leaf(thing.draft("user.create", project, None), row, NO_HEAD, thing.keep)
    return unit, thing


def changed(
    thing: Thing, *, version: int | None = None, actor: str = "us_a", fence: int | None = None
) -> Unit:
    """A unit that moves an account one version on, built on `version` (the one it has, if not given)."""
    built_on = thing.version if version is None else version
    after = Thing(thing.id, thing.name, built_on + 1)
    unit = Unit(ActorRef(actor), fence=fence)
    row = unit.update(t.user, {"id": thing.id, "version": built_on}, version=built_on + 1)

    def keep(head: Head) -> None:
        thing.version = built_on + 1
        thing.keep(head)

    unit.leaf(after.draft("user.change", "p", built_on), row, thing.head, keep)
    return unit


def in_one_group(store: Store, units: Sequence[Unit]) -> list[BaseException | None]:
    """Flush units as one group by a writer that was not started yet; what each was told."""
    futures = [store.writer.submit(unit) for unit in units]
    store.writer.start()
    return [future.exception(60) for future in futures]


def accounts(store: Store) -> set[str]:
    """Names of the accounts there are."""
    with store.read() as view:
        return set(view.execute(select(t.user.c.name)).scalars())


def actions(store: Store) -> list[str]:
    """Actions of all leaves in order."""
    with store.read() as view:
        return list(view.execute(select(t.leaf.c.action).order_by(t.leaf.c.seq)).scalars())


def check(store: Store) -> int:
    """Log, streams, heads and accounts agree; the log's size."""
    with store.read() as view:
        return check_view(view)


def check_view(view: Connection) -> int:
    """The same on a connection."""
    size, frontier = log_row(view)
    stored = view.execute(select(t.leaf).order_by(t.leaf.c.seq)).all()
    assert [row.seq for row in stored] == list(range(size)), "a gap in the log"
    assert all(hashlib.sha256(b"\x00" + bytes(row.body)).digest() == bytes(row.hash) for row in stored)
    assert verify_bodies(bodies(view, 0, size)).root() == frontier.root(), "the frontier is not the tree's"
    times = [row.ts for row in stored]
    assert times == sorted(times), "time goes back in the log"
    heads = _walk([(row.seq, bytes(row.hash), msgspec.json.decode(row.body)) for row in stored])
    in_table = {
        name: head
        for name, head in heads.items()
        if not name.startswith("object/") or name == "object/log/log"
    }
    assert stream_heads(view) == in_table, "the head table is not what the streams are"
    _check_accounts(view, heads)
    return size


def _walk(leaves: Sequence[tuple[int, bytes, dict[str, Any]]]) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    for seq, digest, body in leaves:
        assert body["seq"] == seq
        for stream in body["streams"]:
            before = heads.get(stream["name"], Head(0, -1, b""))
            found = (stream["n"], stream["prev_seq"], stream["prev"])
            wanted = (before.n, *((None, None) if before.n == 0 else (before.seq, before.hash.hex())))
            assert found == wanted, f"stream {stream['name']} at leaf {seq}"
            heads[stream["name"]] = Head(before.n + 1, seq, digest)
    return heads


def _check_accounts(view: Connection, heads: dict[str, Head]) -> None:
    rows = {str(row.id): row for row in view.execute(select(t.user))}
    prefix = f"object/{KIND}/"
    named = {name.removeprefix(prefix): head for name, head in heads.items() if name.startswith(prefix)}
    assert named.keys() == rows.keys(), "a leaf without state, or state without a leaf"
    for number, row in rows.items():
        assert Head(row.head_n, row.head_seq, bytes(row.head_hash)) == named[number]
        assert row.version == row.head_n, "one leaf for each version"
