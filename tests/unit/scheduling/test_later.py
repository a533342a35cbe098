"""What is told to be used after some ends is what is used when each of them was given back."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import QUEUE_TREE, Limit, TreeNode
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.later import Later
from steelyard.scheduling.ledger import Ask, Ledger
from steelyard.scheduling.timeline import Release
from steelyard.scheduling.views import Charge

NODES = {"root": None, "a": "root", "b": "root", "a1": "a", "a2": "a", "b1": "b"}
_limits = st.builds(
    lambda nominal, lending: (nominal, None if lending is None else min(lending, nominal)),
    st.integers(0, 6),
    st.none() | st.integers(0, 4),
)
_charges = st.lists(
    st.builds(
        lambda node, quantity: Charge(QUEUE_TREE, node, "gpu", quantity),
        st.sampled_from(sorted(NODES)),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=2,
).map(tuple)
#: When it ends, what it is charged; and whether a search was made before it was taken.
_runs = st.lists(st.tuples(st.integers(0, 4), _charges), max_size=6)
_taken = st.lists(st.tuples(st.none() | st.integers(0, 5), _charges, st.booleans()), max_size=6)


def _tree(limits: list[tuple[int, int | None]]) -> QuotaTree:
    nodes = {name: TreeNode(QUEUE_TREE, name, "queue", parent) for name, parent in NODES.items()}
    return QuotaTree(nodes, {
        (name, "gpu"): Limit(QUEUE_TREE, name, "gpu", nominal, 2, lending)
        for name, (nominal, lending) in zip(NODES, limits, strict=True)
    })  # fmt: skip


def _compare(later: Later, base: Ledger, ends: list[Release]) -> None:
    for count in range(len(ends) + 1):
        there = base.beside()
        for end in ends[:count]:
            there.add(end.charges, -1)
        later.at(count)
        usage, told = there.worlds[0][QUEUE_TREE], later.usage(count)[QUEUE_TREE]
        for node in NODES:
            assert told.get((node, "gpu"), 0) == usage.get((node, "gpu"), 0)
            for quantity in range(4):
                ask = Ask(QUEUE_TREE, node, "gpu", quantity)
                assert later.fits([ask]) == there.fits([ask])


@settings(max_examples=150, deadline=None)
@given(st.lists(_limits, min_size=6, max_size=6), _runs, _taken)
def test_what_is_told_is_what_is_left_when_each_was_given_back(
    limits: list[tuple[int, int | None]],
    runs: list[tuple[int, tuple[Charge, ...]]],
    taken: list[tuple[int | None, tuple[Charge, ...], bool]],
) -> None:
    base = Ledger({QUEUE_TREE: _tree(limits)}, {})
    ends = [Release(at, number, (), charges) for number, (at, charges) in enumerate(sorted(runs, key=_at))]
    for end in ends:
        base.add(end.charges)
    later = Later(base, ends)
    for number, (until, charges, is_asked) in enumerate(taken):
        if is_asked:
            _compare(later, base, ends)
        base.add(charges)
        at = None
        if until is not None:
            at = bisect_right([end.at for end in ends], until)
            ends = [*ends[:at], Release(until, 100 + number, (), charges), *ends[at:]]
        later.took(base.parts(charges), ends, at)
    _compare(later, base, ends)


def _at(run: tuple[int, tuple[Charge, ...]]) -> int:
    return run[0]
