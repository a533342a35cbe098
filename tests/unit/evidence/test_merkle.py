"""The Merkle tree against the published RFC 6962 vectors, and every proof of small trees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.evidence.merkle import (
    EMPTY_ROOT,
    NO_TAILS,
    Frontier,
    TileProofReader,
    consistency_proof,
    grow_tiles,
    inclusion_proof,
    leaf_hash,
    load_tails,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The inputs, roots and proofs that the Certificate Transparency implementations test themselves with.
INPUTS = [
    bytes.fromhex(text)
    for text in (
        *("", "00", "10", "2021", "3031", "40414243"),
        *("5051525354555657", "606162636465666768696a6b6c6d6e6f"),
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = [  # leaf (from 0), size, proof
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
CONSISTENCY = [  # earlier size, later size, proof
    (1, 1, []),
    (1, 8, INCLUSION[1][2]),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]

LIMIT = 130
HASHES = [leaf_hash(b"leaf %d" % nth) for nth in range(LIMIT)]


class PlainReader:
    """Complete subtrees worked out of the leaf hashes alone, remembered."""

    def __init__(self, hashes: list[bytes]) -> None:
        self._known = {(0, nth): value for nth, value in enumerate(hashes)}

    def hash_at(self, level: int, index: int) -> bytes:
        key = (level, index)
        if key not in self._known:
            pair = self.hash_at(level - 1, 2 * index), self.hash_at(level - 1, 2 * index + 1)
            self._known[key] = node_hash(*pair)
        return self._known[key]


READER = PlainReader(HASHES)
TREE_ROOTS = [root_of(HASHES[:size]) for size in range(LIMIT + 1)]


def flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8 % len(changed)] ^= 1 << bit % 8
    return bytes(changed)


def mutants(proof: list[bytes], seed: int) -> Iterator[list[bytes]]:
    """One bit changed in each hash (another one each time), one hash less, one hash more."""
    for nth, value in enumerate(proof):
        yield [*proof[:nth], flipped(value, seed * 37 + nth * 11), *proof[nth + 1 :]]
    if proof:
        yield proof[:-1]
    yield [*proof, HASHES[0]]


def naive_root(hashes: list[bytes]) -> bytes:
    """MTH as RFC 6962 2.1 defines it, by recursion."""
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return node_hash(naive_root(hashes[:split]), naive_root(hashes[split:]))


def test_published_roots() -> None:
    leaves = [leaf_hash(data) for data in INPUTS]
    assert [root_of(leaves[:size]).hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize(("index", "size", "proof"), INCLUSION)
def test_published_inclusion_proofs(index: int, size: int, proof: list[str]) -> None:
    leaves = [leaf_hash(data) for data in INPUTS]
    made = inclusion_proof(index, size, PlainReader(leaves))
    assert [step.hex() for step in made] == proof
    assert verify_inclusion(leaves[index], index, size, made, bytes.fromhex(ROOTS[size]))


@pytest.mark.parametrize(("m", "n", "proof"), CONSISTENCY)
def test_published_consistency_proofs(m: int, n: int, proof: list[str]) -> None:
    made = consistency_proof(m, n, PlainReader([leaf_hash(data) for data in INPUTS]))
    assert [step.hex() for step in made] == proof
    assert verify_consistency(m, n, made, bytes.fromhex(ROOTS[m]), bytes.fromhex(ROOTS[n]))


def test_every_inclusion_proof_up_to_130_holds_and_no_changed_one_does() -> None:
    for size in range(1, LIMIT + 1):
        root = TREE_ROOTS[size]
        for index in range(size):
            proof = inclusion_proof(index, size, READER)
            assert verify_inclusion(HASHES[index], index, size, proof, root)
            if (index * 7 + size) % 5:
                continue
            assert not verify_inclusion(flipped(HASHES[index], size), index, size, proof, root)
            assert not verify_inclusion(HASHES[index], index, size, proof, flipped(root, index))
            assert not any(
                verify_inclusion(HASHES[index], index, size, bad, root) for bad in mutants(proof, index)
            )


def test_every_consistency_proof_up_to_130_holds_and_no_changed_one_does() -> None:
    for n in range(LIMIT + 1):
        for m in range(n + 1):
            proof, roots = consistency_proof(m, n, READER), (TREE_ROOTS[m], TREE_ROOTS[n])
            assert verify_consistency(m, n, proof, *roots)
            if (m * 7 + n) % 5:
                continue
            assert not verify_consistency(m, n, proof, flipped(roots[0], m), roots[1])
            if m:  # every tree extends the empty one, whatever its root
                assert not verify_consistency(m, n, proof, roots[0], flipped(roots[1], n))
            assert not any(verify_consistency(m, n, bad, *roots) for bad in mutants(proof, m))


def test_a_proof_for_another_place_or_size_fails() -> None:
    proof = inclusion_proof(3, 11, READER)
    for index, size in [(2, 11), (4, 11), (3, 3), (-1, 11), (11, 11), (3, 33)]:
        assert not verify_inclusion(HASHES[3], index, size, proof, TREE_ROOTS[11])


@given(st.lists(st.integers(0, 40), max_size=8))
def test_the_frontier_does_not_depend_on_the_grouping(groups: list[int]) -> None:
    frontier, size = Frontier(), 0
    for count in groups:
        frontier = frontier.extend([leaf_hash(b"%d" % nth) for nth in range(size, size + count)])
        size += count
        frontier = Frontier.from_bytes(size, frontier.to_bytes())
    hashes = [leaf_hash(b"%d" % nth) for nth in range(size)]
    assert frontier == Frontier().extend(hashes)
    assert frontier.root() == naive_root(hashes)


def test_a_frontier_that_does_not_fit_its_size_is_refused() -> None:
    with pytest.raises(ValueError):
        Frontier.from_bytes(3, bytes(32))


class Store:
    """Tiles and leaf hashes as a store keeps them, counting the tile reads."""

    def __init__(self) -> None:
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.leaves: list[bytes] = []
        self.frontier, self.tails, self.reads = Frontier(), NO_TAILS, 0

    def append(self, hashes: list[bytes]) -> None:
        growth = self.frontier.grow(hashes)
        tiles, self.tails = grow_tiles(self.frontier.size, self.tails, growth)
        for tile in tiles:
            assert (tile.level, tile.index) not in self.tiles, "a tile is written once"
            self.tiles[tile.level, tile.index] = tile.blob
        self.leaves += hashes
        self.frontier = growth.frontier

    def read(self, level: int, index: int) -> bytes | None:
        self.reads += 1
        return self.tiles.get((level, index))

    def reader(self, *, with_tails: bool) -> TileProofReader:
        tails = self.tails if with_tails else None
        return TileProofReader(self.read, self.leaves.__getitem__, len(self.leaves), tails)


@pytest.fixture(scope="module")
def large() -> Store:
    """Two complete tiles of the second level and some: 140,000 leaves, appended in uneven groups."""
    store, size = Store(), 140_000
    hashes = [nth.to_bytes(32) for nth in range(size)]
    for first in range(0, size, 3_001):
        store.append(hashes[first : first + 3_001])
    return store


@pytest.mark.parametrize("with_tails", [True, False])
def test_proofs_out_of_tiles_hold_across_tile_borders(large: Store, with_tails: bool) -> None:
    size, root = len(large.leaves), large.frontier.root()
    reader = large.reader(with_tails=with_tails)
    for index in (0, 255, 256, 65_535, 65_536, 131_071, 131_072, 139_775, 139_776, 139_999):
        proof = inclusion_proof(index, size, reader)
        assert verify_inclusion(large.leaves[index], index, size, proof, root)
    for m in (1, 256, 257, 65_536, 65_537, 131_072, 139_776, 139_999):
        earlier = root_of(large.leaves[:m])
        assert verify_consistency(m, size, consistency_proof(m, size, reader), earlier, root)


def test_one_proof_with_tails_reads_a_handful_of_tiles(large: Store) -> None:
    large.reads = 0
    inclusion_proof(77_777, len(large.leaves), large.reader(with_tails=True))
    assert large.reads <= 4


def test_tails_read_anew_are_those_kept_in_memory(large: Store) -> None:
    assert load_tails(len(large.leaves), large.reader(with_tails=False)) == large.tails


def test_only_complete_tiles_are_written(large: Store) -> None:
    assert {len(blob) for blob in large.tiles.values()} == {256 * 32}
    assert sorted(large.tiles)[-1] == (1, 1)
    assert large.tiles[1, 0][:32] == root_of(large.leaves[:256])
