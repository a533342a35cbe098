"""What a change of limits comes to: children above their parent, and who would be above a lowered limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from steelyard.model.errors import ConflictError
from steelyard.model.policy import FLAVOR_PREFIX, ORG_TREE
from steelyard.scheduling.quota import QuotaTree
from steelyard.services.kinds import Kind, NamespaceSpec, ProjectSpec, QuotaSpec
from steelyard.services.references import World

Usage = Mapping[tuple[str, str, str], int]  # (tree, node, subject) → quantity
Key = tuple[str, str]  # node, subject


@dataclass(frozen=True, slots=True)
class Sum:
    """A node's limit on a subject and what those below it are given together."""

    limit: int
    children: int
    declared: bool  # that it may be more than the limit

    @property
    def over(self) -> int:
        """How much the children have above the limit."""
        return max(0, self.children - self.limit)


def sums(world: World) -> dict[Key, Sum]:
    """By node of the organisation and subject. A child without a limit counts with what is below it."""
    hard = {
        (document.spec.node, limit.subject): limit
        for document in world.values()
        if isinstance(document.spec, QuotaSpec) and document.spec.tree == ORG_TREE
        for limit in document.spec.limits
    }
    below: dict[str, list[str]] = {}
    for document in world.values():
        node = f"{document.kind.value.lower()}/{document.name}"
        parent = parent_of(world, node)
        if parent is not None:
            below.setdefault(parent, []).append(node)

    def given(node: str, subject: str) -> int:
        own = hard.get((node, subject))
        return own.hard if own is not None else under(node, subject)

    def under(node: str, subject: str) -> int:
        return sum(given(child, subject) for child in below.get(node, ()))

    return {
        (node, subject): Sum(limit.hard, under(node, subject), limit.over_commit)
        for (node, subject), limit in sorted(hard.items())
    }


def check_children(before: World, after: World) -> None:
    """Raises ConflictError `quota-exceeds-parent` where the limits below a node come to more than its own,
    more than they did before, and it does not declare that they may."""
    known = sums(before)
    for key, found in sums(after).items():
        was = known.get(key)
        if found.over and not found.declared and (was is None or found.over > was.over):
            raise ConflictError(
                "quota-exceeds-parent", node=key[0], subject=key[1], resource=unit_of_subject(key[1]),
                limit=found.limit, children=found.children, over=found.over,
            )  # fmt: skip


def parent_of(world: World, node: str) -> str | None:
    """The node of the organisation above one, by what is declared."""
    level, _, name = node.partition("/")
    if level == "namespace" and (Kind.NAMESPACE.value, name) in world:
        spec = world[Kind.NAMESPACE.value, name].spec
        return f"project/{spec.project}" if isinstance(spec, NamespaceSpec) else None
    if level == "project" and (Kind.PROJECT.value, name) in world:
        spec = world[Kind.PROJECT.value, name].spec
        return f"team/{spec.team}" if isinstance(spec, ProjectSpec) else None
    return None


def unit_of_subject(subject: str) -> str:
    """What its quantities are shown in."""
    return "other" if subject.startswith(FLAVOR_PREFIX) else subject


@dataclass(frozen=True, slots=True)
class Over:
    """A node that a change would leave above its limit. `limit` is what it owns and may borrow."""

    tree: str
    node: str
    subject: str
    limit: int
    used: int


def becoming_over(
    before: Mapping[str, QuotaTree], after: Mapping[str, QuotaTree], usage: Usage
) -> Iterator[Over]:
    """The nodes that are within their limits now and would not be after a change, by what is used now."""
    for name, tree in sorted(after.items()):
        known = before.get(name)
        for node, subject in sorted(_limited(tree)):
            used, most = usage.get((name, node, subject), 0), tree.terms(node, subject)[0].ceiling
            if most is None or used <= most:
                continue
            was = known.terms(node, subject)[0].ceiling if known and _governs(known, node, subject) else None
            if was is None or used <= was:
                yield Over(name, node, subject, most, used)


def _limited(tree: QuotaTree) -> Iterable[Key]:
    """Where a ceiling may stand: at each limit, and at the root of each."""
    return {(above, subject) for node, subject in tree.limits for above in tree.path(node)}


def _governs(tree: QuotaTree, node: str, subject: str) -> bool:
    return node in tree.nodes and tree.governs(subject)
