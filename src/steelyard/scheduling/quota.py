"""Quota trees: what a node owns, may borrow and keeps back, and what is left of it.

The arithmetic is Kueue's resource node (design/queueing.md 1.1), for any number of subjects, which do
not touch each other. `usage` of a node is what is charged to it itself plus what flowed up from its
children: of each node only the part above `local` is charged to its parent.

A subject is *governed* in a tree when any node of it has a limit on it; a node without one then has
nominal 0 and may borrow without bound. An ungoverned subject is unlimited, but charged all the same,
at every node of the path: it costs little, shows usage everywhere, and a limit set later finds the
usage there. A limit set or changed with a *lending* limit changes what flows up: make the usage anew
with `total_usage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from steelyard.model.errors import InvalidError
from steelyard.model.policy import ORG_TREE, UNBOUNDED, Limit, OnExceed, OnLowered, TreeNode

Usage = Mapping[tuple[str, str], int]  # (node, subject) → quantity
_HALF = UNBOUNDED // 2
#: Kind of a root that owns everything there is.
UNBOUNDED_ROOT = "root"
#: A path from the root down: key of a usage, the part that never leaves the node, the most that it may use.
Levels: TypeAlias = tuple[tuple[tuple[str, str], int, int | None], ...]
#: A path from the node up: key of a usage, the part that does not flow on.
Flow: TypeAlias = tuple[tuple[tuple[str, str], int], ...]
Ceiling: TypeAlias = tuple[tuple[str, str], int]  # (node, subject), the most that it may use
_LEAVES = frozenset({OnLowered.DRAIN, OnLowered.RECLAIM})


@dataclass(frozen=True, slots=True)
class Term:
    """One node on a path, for one subject. `ceiling` is the most that may stand as its usage."""

    node: str
    local: int  # the part of what it owns that never leaves it
    ceiling: int | None  # None: borrows without bound
    is_root: bool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A node whose own limit stands in the way. short_by = used + requested − limit."""

    node: str
    limit: int
    used: int
    requested: int
    short_by: int


class QuotaTree:
    """Nodes with their limits; immutable. Raises InvalidError for a missing parent or a cycle."""

    __slots__ = (
        "_ceilings", "_children", "_flows", "_leaves", "_levels", "_paths", "_subtrees", "_terms", "limits",
        "memory", "nodes", "subjects",
    )  # fmt: skip

    def __init__(self, nodes: Mapping[str, TreeNode], limits: Mapping[tuple[str, str], Limit]) -> None:
        self.nodes = nodes
        self.limits = {key: limit for key, limit in limits.items() if key[0] in nodes}
        self.subjects = frozenset(subject for _, subject in self.limits)
        self._paths: dict[str, tuple[str, ...]] = {}
        self.memory: dict[str, object] = {}  # for what others derive of it, by their own keys
        self._terms: dict[tuple[str, str], tuple[Term, ...]] = {}
        self._levels: dict[tuple[str, str], Levels] = {}
        self._flows: dict[tuple[str, str], Flow] = {}
        self._children: dict[str, list[str]] = {}
        for name in sorted(nodes):
            self._walk(name)
            self._children.setdefault(nodes[name].parent or "", []).append(name)
        self._subtrees = {subject: self._subtree(subject) for subject in self.subjects}
        self._ceilings: tuple[Ceiling, ...] | None = None
        self._leaves = any(limit.on_lowered in _LEAVES for limit in self.limits.values())

    def _walk(self, name: str) -> tuple[str, ...]:
        trail: list[str] = []
        seen: set[str] = set()
        current: str | None = name
        while current is not None and current not in self._paths:
            if current not in self.nodes:
                raise InvalidError("tree-parent-missing", node=trail[-1] if trail else name, parent=current)
            if current in seen:
                raise InvalidError("tree-cycle", node=current)
            seen.add(current)
            trail.append(current)
            current = self.nodes[current].parent
        tail = self._paths[current] if current is not None else ()
        for index, node in enumerate(trail):
            self._paths[node] = (*trail[index:], *tail)
        return self._paths[name]

    def _subtree(self, subject: str) -> dict[str, int]:
        """Nodes without a limit in or below them are left out: theirs is 0."""
        owners = {node for node, limited in self.limits if limited == subject}
        involved = {above for node in owners for above in self._paths[node]}
        subtree: dict[str, int] = {}
        for node in sorted(involved, key=lambda name: -len(self._paths[name])):
            limit = self.limits.get((node, subject))
            own = subtree.get(node, 0) + (limit.nominal if limit else 0)
            subtree[node] = min(own, UNBOUNDED)
            parent = self.nodes[node].parent
            if parent is not None:
                lent = subtree[node] - local_part(subtree[node], limit)
                subtree[parent] = min(subtree.get(parent, 0) + lent, UNBOUNDED)
        return subtree

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """Every (node, subject) that has a most that it may use, with that; those below come first."""
        if self._ceilings is None:
            keys = {(above, subject) for node, subject in self.limits for above in self._paths[node]}
            ordered = sorted(keys, key=lambda key: (-len(self._paths[key[0]]), key))
            found = [((node, subject), self.terms(node, subject)[0].ceiling) for node, subject in ordered]
            self._ceilings = tuple((key, most) for key, most in found if most is not None)
        return self._ceilings

    @property
    def watched(self) -> tuple[Ceiling, ...]:
        """`ceilings`, where some limit says that work above it leaves; else none."""
        return self.ceilings if self._leaves else ()

    def path(self, node: str) -> tuple[str, ...]:
        """The node, its parent, and so on up to the root."""
        return self._paths[node]

    def children(self, node: str) -> tuple[str, ...]:
        """The nodes right below, by name."""
        return tuple(self._children.get(node, ()))

    def governs(self, subject: str) -> bool:
        """True when any node of the tree has a limit on the subject."""
        return subject in self.subjects

    def subtree(self, node: str, subject: str) -> int:
        """What the node owns with all below it, less what they keep back."""
        return self._subtrees.get(subject, {}).get(node, 0)

    def local(self, node: str, subject: str) -> int:
        """The part of `subtree` that never leaves the node."""
        return local_part(self.subtree(node, subject), self.limits.get((node, subject)))

    def terms(self, node: str, subject: str) -> tuple[Term, ...]:
        """The path from the node up, with what the arithmetic needs of each."""
        known = self._terms.get((node, subject))
        if known is None:
            known = tuple(self._term(name, subject) for name in self._paths[node])
            self._terms[node, subject] = known
        return known

    def levels(self, node: str, subject: str) -> Levels:
        """The path from the root down as `left` goes through it; a node that neither keeps anything back nor
        has a most makes no difference."""
        known = self._levels.get((node, subject))
        if known is None:
            terms = reversed(self.terms(node, subject))
            known = tuple(
                ((term.node, subject), 0 if term.is_root else term.local, term.ceiling)
                for term in terms
                if term.is_root or term.local or term.ceiling is not None
            )
            self._levels[node, subject] = known
        return known

    def flow(self, node: str, subject: str) -> Flow:
        """The path from the node up as keys of a usage, each with the part of it that does not flow on."""
        known = self._flows.get((node, subject))
        if known is None:
            known = tuple(((term.node, subject), term.local) for term in self.terms(node, subject))
            self._flows[node, subject] = known
        return known

    def _term(self, name: str, subject: str) -> Term:
        limit = self.limits.get((name, subject))
        subtree = self.subtree(name, subject)
        is_root = self.nodes[name].parent is None
        borrowing = 0 if is_root else limit.borrowing_limit if limit else None
        ceiling = None if borrowing is None else min(subtree + borrowing, UNBOUNDED)
        return Term(name, local_part(subtree, limit), ceiling, is_root)

    def with_limit(self, limit: Limit) -> QuotaTree:
        """The tree with one limit set or replaced. Make the usage anew after it.

        A root that owns everything owns what is governed from now on, too.
        """
        limits = {**self.limits, (limit.node, limit.subject): limit}
        root = self.nodes[self.path(limit.node)[-1]]
        if root.kind == UNBOUNDED_ROOT:
            owned = Limit(limit.tree, root.name, limit.subject, UNBOUNDED)
            limits.setdefault((root.name, limit.subject), owned)
        return QuotaTree(self.nodes, limits)


def local_part(subtree: int, limit: Limit | None) -> int:
    """What a node keeps back of what it owns."""
    if limit is None or limit.lending_limit is None:
        return 0
    return max(0, subtree - limit.lending_limit)


def available(tree: QuotaTree, usage: Usage, node: str, subject: str) -> int:
    """How much more the node may be charged now. Negative after a cut; UNBOUNDED where not governed."""
    if subject not in tree.subjects:
        return UNBOUNDED
    return left(tree.levels(node, subject), usage)


def left(levels: Levels, usage: Usage) -> int:
    """How much more may be charged at the end of a path."""
    room = UNBOUNDED
    for key, local, ceiling in levels:
        used = usage.get(key, 0)
        if ceiling is not None:
            over = used - local
            most = ceiling - local - over if over > 0 else ceiling - local
            if most < room:
                room = most
        if used < local:
            room += local - used
    return room if room < UNBOUNDED else UNBOUNDED


def potential(tree: QuotaTree, node: str, subject: str) -> int:
    """The most the node could ever be charged: `available` with nothing used anywhere."""
    return available(tree, {}, node, subject)


def shortfalls(tree: QuotaTree, usage: Usage, node: str, subject: str, quantity: int) -> list[Shortfall]:
    """The nodes of the path whose own limit stands in the way, from the node up.

    Empty exactly when `quantity` ≤ `available`. What is requested of an ancestor is what would flow
    up to it. It may be 0 where the ancestor is over its limit already.
    """
    if not tree.governs(subject):
        return []
    found = []
    flowing = quantity
    for term in tree.terms(node, subject):
        used = usage.get((term.node, subject), 0)
        if term.ceiling is not None and used + flowing > term.ceiling:
            short = used + flowing - term.ceiling
            found.append(Shortfall(term.node, term.ceiling, used, max(0, flowing), short))
        flowing -= max(0, term.local - used)
    return found


def fits(tree: QuotaTree, usage: Usage, node: str, amounts: Mapping[str, int]) -> bool:
    """True when every subject's amount is available at the node."""
    return all(
        amount <= available(tree, usage, node, subject)
        for subject, amount in amounts.items()
        if subject in tree.subjects
    )


def charge(
    tree: QuotaTree, usage: Usage, node: str, subject: str, quantity: int
) -> list[tuple[str, str, int]]:
    """What to add to each node's usage so that `quantity` more (or less) is charged to `node`.

    A node's flow up is a function of its usage alone, max(0, usage − local), so a release of the same
    quantity is the exact inverse, in whatever order charges and releases come.
    """
    deltas = []
    delta = quantity
    for key, local in tree.flow(node, subject):
        if not delta:
            break
        deltas.append((key[0], subject, delta))
        if local:
            before = usage.get(key, 0)
            delta = max(0, before + delta - local) - max(0, before - local)
    return deltas


def add_charge(
    tree: QuotaTree, usage: dict[tuple[str, str], int], node: str, subject: str, quantity: int
) -> None:
    """Adds what `charge` says to the usage itself: the same, in a third of the time."""
    add_flow(usage, tree.flow(node, subject), quantity)


def add_flow(usage: dict[tuple[str, str], int], flow: Flow, quantity: int) -> None:
    """As `add_charge`, along a path that is known."""
    for key, local in flow:
        before = usage.get(key, 0)
        after = usage[key] = before + quantity
        if local:
            quantity = (after - local if after > local else 0) - (before - local if before > local else 0)
            if not quantity:
                return


def total_usage(tree: QuotaTree, own: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """The usage that follows from all own charges (node, subject, quantity), made from nothing."""
    usage: dict[tuple[str, str], int] = {}
    for node, subject, quantity in own:
        if node not in tree.nodes:
            continue
        add_charge(tree, usage, node, subject, quantity)
    return usage


def hard_limit(
    node: str, subject: str, quantity: int, on_exceed: OnExceed = OnExceed.REFUSE, tree: str = ORG_TREE
) -> Limit:
    """At most `quantity` in the node and below it, out of what an unbounded root owns."""
    return Limit(tree, node, subject, nominal=0, borrowing_limit=quantity, on_exceed=on_exceed)


def with_unbounded_root(
    tree: str, nodes: Mapping[str, TreeNode], limits: Mapping[tuple[str, str], Limit], root: str
) -> QuotaTree:
    """The tree under a root of its own that owns everything, so that hard limits can stand anywhere."""
    hung = {
        name: node if node.parent is not None else replace(node, parent=root) for name, node in nodes.items()
    }
    hung[root] = TreeNode(tree, root, UNBOUNDED_ROOT, None)
    subjects = {subject for _, subject in limits}
    owned = {(root, subject): Limit(tree, root, subject, UNBOUNDED) for subject in subjects}
    return QuotaTree(hung, {**limits, **owned})


def shown(value: int) -> int | None:
    """The number for people: None where it stands for no bound at all."""
    return None if value >= _HALF else value
