"""Reading the evidence log: leaves, tiles, stream heads, proofs' building stones."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, bindparam, func, select

from steelyard.evidence.leaf import Head
from steelyard.evidence.merkle import Frontier, TileProofReader
from steelyard.store import tables as t

# Asked in every pass of a control loop that finds something new: to build them takes longer than to run them.
_HASH = select(t.leaf.c.hash).where(t.leaf.c.seq == bindparam("seq"))
_CHANGED = (
    select(t.leaf.c.seq, t.leaf.c.action, t.leaf.c.object_kind, t.leaf.c.object_id)
    .where(t.leaf.c.seq >= bindparam("after"))
    .order_by(t.leaf.c.seq)
    .limit(bindparam("most"))
)


def tile_reader(connection: Connection) -> TileProofReader:
    """Hashes of complete subtrees from O(log n) tiles, the last incomplete tile from the leaves."""

    def read_tile(level: int, index: int) -> bytes | None:
        query = select(t.tile.c.hashes).where(t.tile.c.level == level, t.tile.c.idx == index)
        found = connection.execute(query).scalar()
        return None if found is None else bytes(found)

    def read_leaf_hash(seq: int) -> bytes:
        return bytes(connection.execute(select(t.leaf.c.hash).where(t.leaf.c.seq == seq)).scalar_one())

    return TileProofReader(read_tile, read_leaf_hash)


def leaf_body(connection: Connection, seq: int) -> bytes | None:
    """The stored bytes of a leaf."""
    body = connection.execute(select(t.leaf.c.body).where(t.leaf.c.seq == seq)).scalar()
    return None if body is None else bytes(body)


def bodies(connection: Connection, start: int, end: int) -> Iterator[bytes]:
    """Leaves start…end−1 in order."""
    query = select(t.leaf.c.body).where(t.leaf.c.seq >= start, t.leaf.c.seq < end).order_by(t.leaf.c.seq)
    for (body,) in connection.execution_options(yield_per=2000).execute(query):
        yield bytes(body)


def leaf_hash(connection: Connection, seq: int) -> bytes:
    """The stored hash of a leaf."""
    return bytes(connection.execute(_HASH, {"seq": seq}).scalar_one())


def leaf_hashes(connection: Connection, start: int, end: int) -> list[bytes]:
    """The stored hashes of leaves start…end−1 in order."""
    query = select(t.leaf.c.hash).where(t.leaf.c.seq >= start, t.leaf.c.seq < end).order_by(t.leaf.c.seq)
    return [bytes(found) for (found,) in connection.execute(query)]


def log_row(connection: Connection) -> tuple[int, Frontier]:
    """Size and frontier as the log row has them."""
    row = connection.execute(select(t.log.c.size, t.log.c.frontier).where(t.log.c.id == 1)).one()
    return row.size, Frontier.from_bytes(row.size, bytes(row.frontier))


def log_size(connection: Connection) -> int:
    """How many leaves are committed."""
    return int(connection.execute(select(t.log.c.size).where(t.log.c.id == 1)).scalar_one())


def stream_heads(connection: Connection, names: set[str] | None = None) -> dict[str, Head]:
    """Heads of the streams kept in the head table: project, actor, cluster, system."""
    query = select(t.stream_head)
    if names is not None:
        query = query.where(t.stream_head.c.name.in_(sorted(names)))
    return {row.name: Head(row.n, row.seq, bytes(row.hash)) for row in connection.execute(query)}


def changed_objects(connection: Connection, after: int, limit: int = 2000) -> list[tuple[int, str, str, str]]:
    """(seq, action, object kind, object id) of leaves from `after` on: what changed since."""
    found = connection.execute(_CHANGED, {"after": after, "most": limit})
    return [(row.seq, row.action, row.object_kind, row.object_id) for row in found]


def newest_checkpoint(connection: Connection) -> tuple[int, str] | None:
    """(size, note) of the newest signed checkpoint."""
    query = select(t.checkpoint.c.size, t.checkpoint.c.note).order_by(t.checkpoint.c.size.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else (row.size, row.note)


def checkpoint_at(connection: Connection, size: int) -> str | None:
    """The note signed at exactly this size."""
    return connection.execute(select(t.checkpoint.c.note).where(t.checkpoint.c.size == size)).scalar()


def count_leaves(connection: Connection) -> int:
    """Stored rows; equals the log's size, or something is missing."""
    return int(connection.execute(select(func.count()).select_from(t.leaf)).scalar_one())
