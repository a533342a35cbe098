"""The Merkle tree of the evidence log: RFC 6962 hashes, compact frontiers, tiles of 256, proofs.

Everything here works on hashes of 32 bytes and knows nothing of what a leaf says. Hashing and proofs are
those of RFC 6962 section 2.1 (verification as in RFC 9162 sections 2.1.3.2 and 2.1.4.2), unchanged, so
that published vectors and other people's verifiers apply. Tiles have the height of C2SP tlog-tiles (8).

A complete subtree is named (level, index): it covers the leaves [index << level, (index + 1) << level).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol

HASH_BYTES = 32
TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
TILE_LEVELS = 3
"""Tile levels kept: level t holds hashes of subtrees of 256**t leaves."""

EMPTY_ROOT = sha256(b"").digest()

Tails = tuple[bytes, ...]
"""Per tile level, the joined hashes that do not fill a tile yet."""
NO_TAILS: Tails = (b"",) * TILE_LEVELS


def leaf_hash(data: bytes) -> bytes:
    """Hash of one leaf: SHA-256(0x00 ‖ data)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node: SHA-256(0x01 ‖ left ‖ right)."""
    return sha256(b"\x01" + left + right).digest()


def _pairs(hashes: Sequence[bytes]) -> list[bytes]:
    """Parents of the complete pairs of `hashes`; an odd last one is left over."""
    return [
        sha256(b"\x01" + left + right).digest()
        for left, right in zip(hashes[::2], hashes[1::2], strict=False)
    ]


class Growth(NamedTuple):
    """What appending made: the new frontier, and per level the complete subtrees that came to be."""

    frontier: Frontier
    completed: list[Sequence[bytes]]


class Frontier(NamedTuple):
    """The complete subtrees that make up a tree of `size` leaves, largest first (at most 63 hashes).

    A value: growing makes a new one. This is all that appending and the root need.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    @classmethod
    def from_bytes(cls, size: int, blob: bytes) -> Frontier:
        """Inverse of `to_bytes`; ValueError if the number of hashes does not fit the size."""
        if size < 0 or len(blob) != size.bit_count() * HASH_BYTES:
            raise ValueError("frontier does not fit its size")
        return cls(size, tuple(blob[at : at + HASH_BYTES] for at in range(0, len(blob), HASH_BYTES)))

    def to_bytes(self) -> bytes:
        """The peaks joined, largest subtree first; the size is kept beside it."""
        return b"".join(self.peaks)

    def grow(self, hashes: Sequence[bytes]) -> Growth:
        """Append leaf hashes level by level; about one inner hash a leaf."""
        peaks = list(self.peaks)
        kept: list[bytes] = []
        completed: list[Sequence[bytes]] = []
        rest, row = self.size, hashes
        while rest or row:
            completed.append(row)
            if rest & 1:
                row = [peaks.pop(), *row]
            if len(row) & 1:
                kept.append(row[-1])
            row = _pairs(row)
            rest >>= 1
        kept.reverse()
        return Growth(Frontier(self.size + len(hashes), tuple(kept)), completed)

    def extend(self, hashes: Sequence[bytes]) -> Frontier:
        """The frontier after appending these leaf hashes, in order."""
        return self.grow(hashes).frontier

    def root(self) -> bytes:
        """Tree head hash (RFC 6962 MTH) of the leaves so far."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Root over leaf hashes (not over leaf data)."""
    return Frontier().extend(hashes).root()


# --- tiles --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """256 hashes of subtrees of 256**level leaves; written once, when the last of them is known."""

    level: int
    index: int
    blob: bytes


def completed_tiles(level: int, start: int, tail: bytes, hashes: Sequence[bytes]) -> tuple[list[Tile], bytes]:
    """Tiles of one tile level that fill up when `hashes` follow; and the new tail.

    `start` is the number of hashes at this level before, `tail` the last `start % 256` of them.
    """
    joined = tail + b"".join(hashes)
    index = start >> TILE_HEIGHT
    step = TILE_WIDTH * HASH_BYTES
    full = len(joined) // step
    tiles = [Tile(level, index + nth, joined[nth * step : (nth + 1) * step]) for nth in range(full)]
    return tiles, joined[full * step :]


def grow_tiles(size: int, tails: Tails, growth: Growth) -> tuple[list[Tile], Tails]:
    """Tiles of all levels completed by a growth from `size` leaves, lower levels first; new tails."""
    tiles: list[Tile] = []
    rests: list[bytes] = []
    for level, tail in enumerate(tails):
        height = level * TILE_HEIGHT
        fresh = growth.completed[height] if height < len(growth.completed) else ()
        full, rest = completed_tiles(level, size >> height, tail, fresh)
        tiles += full
        rests.append(rest)
    return tiles, tuple(rests)


class TileReader(Protocol):
    """Where proofs get the hashes of complete subtrees from."""

    def hash_at(self, level: int, index: int) -> bytes:
        """Hash of the complete subtree of 2**level leaves with this index; LookupError if not there."""


class TileProofReader:
    """`TileReader` over stored tiles, with the tails (or leaf rows) standing in for the incomplete ones.

    `read_tile(level, index)` gives a tile's blob or None; `read_leaf_hash(seq)` a leaf's hash. With
    `tails` of the present size each hash needs one tile read; without them the hashes above an incomplete
    tile are worked out of the tiles below it, once (at most 256 reads, then remembered).
    Meant for one unit of work: blobs read are kept.
    """

    def __init__(
        self,
        read_tile: Callable[[int, int], bytes | None],
        read_leaf_hash: Callable[[int], bytes],
        size: int = 0,
        tails: Tails | None = None,
    ) -> None:
        self._read_tile = read_tile
        self._read_leaf_hash = read_leaf_hash
        self._tiles: dict[tuple[int, int], bytes | None] = {}
        self._roots: dict[tuple[int, int], bytes] = {}
        for level, tail in enumerate(tails or ()):
            if tail:
                self._tiles[level, size >> (TILE_HEIGHT * (level + 1))] = tail

    def hash_at(self, level: int, index: int) -> bytes:
        """See `TileReader`."""
        tile_level = min(level // TILE_HEIGHT, TILE_LEVELS - 1)
        height = level - tile_level * TILE_HEIGHT
        if height > TILE_HEIGHT:
            return node_hash(self.hash_at(level - 1, 2 * index), self.hash_at(level - 1, 2 * index + 1))
        width = 1 << height
        return root_of(self._row(tile_level, index * width, width))

    def _row(self, level: int, first: int, width: int) -> list[bytes]:
        """`width` hashes of one tile level from `first` on; they never cross a tile."""
        blob = self._tile(level, first >> TILE_HEIGHT)
        at = (first % TILE_WIDTH) * HASH_BYTES
        if len(blob) >= at + width * HASH_BYTES:
            stop = at + width * HASH_BYTES
            return [blob[nth : nth + HASH_BYTES] for nth in range(at, stop, HASH_BYTES)]
        if level == 0:
            return [self._read_leaf_hash(first + nth) for nth in range(width)]
        return [self._tile_root(level - 1, first + nth) for nth in range(width)]

    def _tile(self, level: int, index: int) -> bytes:
        key = (level, index)
        if key not in self._tiles:
            self._tiles[key] = self._read_tile(level, index)
        return self._tiles[key] or b""

    def _tile_root(self, level: int, index: int) -> bytes:
        key = (level, index)
        if key not in self._roots:
            self._roots[key] = root_of(self._row(level, index << TILE_HEIGHT, TILE_WIDTH))
        return self._roots[key]


def load_tails(size: int, reader: TileReader) -> Tails:
    """Tails of a log of `size` leaves, read anew (start-up, take-over of the lease)."""
    tails = []
    for level in range(TILE_LEVELS):
        height = level * TILE_HEIGHT
        count = size >> height
        first = count - count % TILE_WIDTH
        tails.append(b"".join(reader.hash_at(height, nth) for nth in range(first, count)))
    return tuple(tails)


# --- proofs -------------------------------------------------------------------------------------


def _range_root(first: int, count: int, tiles: TileReader) -> bytes:
    """MTH of `count` leaves from `first` on, where `first` is a multiple of the largest power below."""
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return tiles.hash_at(level, first >> level)
    split = _split(count)
    return node_hash(_range_root(first, split, tiles), _range_root(first + split, count - split, tiles))


def _split(count: int) -> int:
    """The largest power of two smaller than `count` (RFC 6962's k)."""
    return 1 << ((count - 1).bit_length() - 1)


def inclusion_proof(index: int, size: int, tiles: TileReader) -> list[bytes]:
    """RFC 6962 2.1.1: audit path of leaf `index` in the tree of `size` leaves, sibling of the leaf first."""
    if not 0 <= index < size:
        raise ValueError("leaf is not in the tree")
    path: list[bytes] = []
    first, count = 0, size
    while count > 1:
        split = _split(count)
        if index - first < split:
            path.append(_range_root(first + split, count - split, tiles))
            count = split
        else:
            path.append(_range_root(first, split, tiles))
            first, count = first + split, count - split
    path.reverse()
    return path


def consistency_proof(m: int, n: int, tiles: TileReader) -> list[bytes]:
    """RFC 6962 2.1.2: proof that the tree of `n` leaves begins with that of `m`; empty for m in {0, n}."""
    if not 0 <= m <= n:
        raise ValueError("the earlier size must not exceed the later")
    if m in (0, n):
        return []
    proof: list[bytes] = []
    first, count, whole = 0, n, True
    while m != count:
        split = _split(count)
        if m <= split:
            proof.append(_range_root(first + split, count - split, tiles))
            count = split
        else:
            proof.append(_range_root(first, split, tiles))
            first, count, m, whole = first + split, count - split, m - split, False
    if not whole:
        proof.append(_range_root(first, count, tiles))
    proof.reverse()
    return proof


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """RFC 9162 2.1.3.2: whether `leaf` (a leaf hash) stands at `index` in the tree of `size` with `root`."""
    if not 0 <= index < size:
        return False
    node, last, value = index, size - 1, leaf
    for step in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            value = node_hash(step, value)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            value = node_hash(value, step)
        node, last = node >> 1, last >> 1
    return last == 0 and value == root


def verify_consistency(m: int, n: int, proof: Sequence[bytes], root_m: bytes, root_n: bytes) -> bool:
    """RFC 9162 2.1.4.2: whether the tree (n, root_n) extends (m, root_m); an empty tree begins every tree."""
    if not 0 <= m <= n:
        return False
    if m in (0, n):
        return not proof and (root_m == EMPTY_ROOT if m == 0 else root_m == root_n)
    path = list(proof) if m & (m - 1) else [root_m, *proof]
    if not path:
        return False
    node, last = m - 1, n - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, step)
        node, last = node >> 1, last >> 1
    return last == 0 and old == root_m and new == root_n
