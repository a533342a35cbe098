"""How much of what a parent can ever have a node has above what it owns: its dominant share.

Kueue's formula (DRS; design/queueing.md 1.1) in integers: of each class Σ over its flavors of
max(0, usage + request − subtree), in parts of Σ potential(parent), divided by the node's weight; the
largest of the classes counts. A class that is limited itself and not only by its flavors counts as one more
flavor-less sum. The root and whoever borrows nothing have 0. Weight 0 stands for an infinite share: two such
are compared raw.

Where the past counts, the share is that of the next sum of the history if all stayed as it is until then:
what is above quota now for one step of its grid, and what the decayed use of before has above quota for the
rest. So a queue that was given more than its part gives it back, whatever the size of what it asks for.

A class without any limit in the tree is nobody's, so nothing of it is above quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from steelyard.model.policy import FLAVOR_PREFIX, USUAL_WEIGHT
from steelyard.scheduling.history import ONE, UNIT, Past
from steelyard.scheduling.quota import QuotaTree, Usage, charge, potential
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.views import FlavorView

#: Everything the parent could have, at weight 1.
WHOLE = 10**12
_SHOWN = WHOLE // 10**6

#: (1 where the weight is 0, share): compares as it should.
Share: TypeAlias = tuple[int, int]
NONE: Share = (0, 0)
#: What an attempt would add to a node: subject, how much, and what keeps back of it on the way there.
Asking: TypeAlias = list[tuple[str, int, tuple[tuple[tuple[str, str], int], ...]]]
#: Of one class: (key of a usage, subject, what the node owns of it), and what the parent could ever have.
_Group: TypeAlias = tuple[tuple[tuple[tuple[str, str], str, int], ...], int]


def shown(share: Share) -> int | None:
    """The share as people see it, in millionths; None: infinite."""
    return None if share[0] else share[1] // _SHOWN


class Shares:
    """The shares of one tree's nodes, for one cycle. What follows from the tree alone is made once a node."""

    def __init__(
        self, tree: QuotaTree, rules: Rules, flavors: Mapping[str, FlavorView], past: Past | None = None
    ) -> None:
        """`past`: None: it does not count."""
        self.tree = tree
        self._rules = rules
        self._past = past if past is not None and past.counts else None
        kept = tree.memory.get("shares")
        if not isinstance(kept, _Kept) or kept.flavors is not flavors:
            kept = tree.memory["shares"] = _Kept(flavors, _governed(tree, flavors), {})
        self._classes, self._groups = kept.classes, kept.groups

    def flows(self, usage: Usage, node: str, asked: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """What would be added to each node of the path, by governed subject, if so much were charged."""
        added: dict[str, dict[str, int]] = {}
        for subject, quantity in asked.items():
            for name, _, delta in charge(self.tree, usage, node, subject, quantity):
                added.setdefault(name, {})[subject] = delta
        return added

    def asking(self, queue: str, node: str, asked: Mapping[str, int]) -> Asking:
        """What would be added to one node of a queue's path, as far as that follows from the tree."""
        found: Asking = []
        for subject, quantity in asked.items():
            below: list[tuple[tuple[str, str], int]] = []
            for key, local in self.tree.flow(queue, subject):
                if key[0] == node:
                    found.append((subject, quantity, tuple(below)))
                    break
                if local:
                    below.append((key, local))
        return found

    def added(self, usage: Usage, asking: Asking) -> dict[str, int]:
        """As `flows`, of the node that it was made for."""
        added: dict[str, int] = {}
        for subject, quantity, below in asking:
            for key, local in below:
                used = usage.get(key, 0)
                quantity = max(0, used + quantity - local) - max(0, used - local)
            if quantity:
                added[subject] = quantity
        return added

    def borrows(self, usage: Usage, node: str, added: Mapping[str, int]) -> bool:
        """True when the node would have more of what is added than it owns."""
        if self.tree.nodes[node].parent is None:
            return False
        for subjects, _ in self._groups_of(node):
            is_asked = False
            for key, subject, owned in subjects:
                if subject in added:
                    is_asked = True
                    if usage.get(key, 0) + added[subject] <= owned:
                        break
            else:
                if is_asked:
                    return True
        return False

    def share(
        self, usage: Usage, node: str, added: Mapping[str, int] | None = None, only_now: bool = False
    ) -> Share:
        """The node's dominant share with what would be added; on the flavor where that adds least. With
        `only_now` the past does not count."""
        if self.tree.nodes[node].parent is None:
            return NONE
        most, past = 0, None if only_now else self._past
        for subjects, whole in self._groups_of(node):
            above = lately = 0
            least: int | None = None
            for key, subject, owned in subjects:
                used = usage.get(key, 0)
                over = used - owned if used > owned else 0
                above += over
                if added and subject in added:
                    more = max(0, used + added[subject] - owned) - over
                    least = more if least is None or more < least else least
                if past is not None:  # in millionths
                    lately += max(0, past.at(key) - owned * UNIT)
            above += least or 0
            if not above and not lately:
                continue
            if past is None:
                most = max(most, above * WHOLE // whole)
            else:
                above = above * UNIT * past.penalty + lately * (ONE - past.penalty)
                most = max(most, above * WHOLE // (whole * UNIT * ONE))
        if not most:
            return NONE
        weight = self._rules.of(node).weight
        return (0, most * USUAL_WEIGHT // weight) if weight else (1, most)

    def _groups_of(self, node: str) -> tuple[_Group, ...]:
        known = self._groups.get(node)
        if known is None:
            parent = self.tree.nodes[node].parent
            assert parent is not None
            found: list[_Group] = []
            for subjects in self._classes:
                whole = sum(potential(self.tree, parent, subject) for subject in subjects)
                if whole > 0:
                    owned = ((subject, self.tree.subtree(node, subject)) for subject in subjects)
                    found.append((tuple(((node, name), name, amount) for name, amount in owned), whole))
            known = self._groups[node] = tuple(found)
        return known


@dataclass(frozen=True, slots=True)
class _Kept:
    """What follows from the tree and the flavors alone, beside the tree."""

    flavors: Mapping[str, FlavorView]
    classes: tuple[tuple[str, ...], ...]
    groups: dict[str, tuple[_Group, ...]]  # by node


def _governed(tree: QuotaTree, flavors: Mapping[str, FlavorView]) -> tuple[tuple[str, ...], ...]:
    """The sums that are compared: each limited class by itself, and the limited flavors of each class."""
    found: dict[str, list[str]] = {}
    for subject in sorted(tree.subjects):
        name = subject
        if subject.startswith(FLAVOR_PREFIX):
            flavor = flavors.get(subject.removeprefix(FLAVOR_PREFIX))
            if flavor is None:
                continue  # devices of nobody knows which class
            name = FLAVOR_PREFIX + flavor.device_class.value
        found.setdefault(name, []).append(subject)
    return tuple(tuple(subjects) for _, subjects in sorted(found.items()))
