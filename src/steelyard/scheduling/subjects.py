"""What is counted of devices that are held: by class and by flavor always, and by what limits ask for beside.

A limit of the organisation or of a user may be on a *measure* of an accelerator's class (`gpu/normalised`):

- `whole`: devices held entirely; `fraction`: parts of devices. Both in the class's unit.
- `memory`: the memory of what is held, MiB; `normalised`: devices times what one of their model is worth.
  Both in thousandths of their unit, so that a part of a device is counted exactly, without rounding.

All of them are sums over allocations, so that charging and releasing in any order leaves nothing. A measure
is charged in a tree where some limit is on it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from steelyard.model.policy import FLAVOR_PREFIX, ORG_TREE, QUEUE_TREE, USER_TREE, Measure, Policy
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.views import Charge, FlavorView

#: What one device of a model that no conversion table names is worth.
USUAL = 1000
Nodes = tuple[tuple[str, str], ...]  # (tree, own node)


def measured(subject: str) -> tuple[DeviceClass, Measure] | None:
    """The class and the measure of `gpu/normalised`; None of a class or a flavor."""
    kind, _, measure = subject.partition("/")
    if not measure or subject.startswith(FLAVOR_PREFIX):
        return None
    return DeviceClass(kind), Measure(measure)


def user_path(user: str | None, project: str) -> tuple[str, ...]:
    """The nodes that a user's work in a project may be charged to in the tree of users, from the leaf up: the
    one in the project, that of all projects without their own, the user's."""
    return () if user is None else (f"user/{user}@{project}", f"user/{user}@*", f"user/{user}")


def own_node(tree: QuotaTree, path: Iterable[str]) -> str | None:
    """The first node of a path from the leaf up that the tree knows."""
    return next((name for name in path if name in tree.nodes), None)


def own_nodes(trees: Mapping[str, QuotaTree], shape: Shape) -> Nodes:
    """The node of each tree that a shape's work is charged to."""
    found = []
    for name, path in (
        (QUEUE_TREE, (shape.queue,)),
        (ORG_TREE, shape.org_path),
        (USER_TREE, user_path(shape.user, shape.project)),
    ):
        tree = trees.get(name)
        node = own_node(tree, path) if tree is not None else None
        if node is not None:
            found.append((name, node))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Held:
    """Quantities held: by class, by flavor, and how much of each class in whole devices and in parts."""

    classes: Mapping[DeviceClass, int]
    flavors: Mapping[str, int]
    parts: Mapping[tuple[DeviceClass, Measure], int]


class Allocated(Protocol):
    """A quantity of one device, planned or held."""

    @property
    def flavor(self) -> str:
        """The flavor's name."""

    @property
    def device_class(self) -> DeviceClass:
        """The device's class."""

    @property
    def quantity(self) -> int:
        """In the class's unit."""


def held_by(allocations: Iterable[Allocated]) -> Held:
    """The sums over allocations."""
    classes: dict[DeviceClass, int] = {}
    flavors: dict[str, int] = {}
    parts: dict[tuple[DeviceClass, Measure], int] = {}
    for item in allocations:
        cls, quantity = item.device_class, item.quantity
        classes[cls] = classes.get(cls, 0) + quantity
        flavors[item.flavor] = flavors.get(item.flavor, 0) + quantity
        if cls in ACCELERATORS:
            part = (cls, Measure.WHOLE if quantity >= WHOLE_DEVICE else Measure.FRACTION)
            parts[part] = parts.get(part, 0) + quantity
    return Held(classes, flavors, parts)


def parts_of(asked: Iterable[tuple[DeviceClass, int, int]]) -> dict[tuple[DeviceClass, Measure], int]:
    """In whole devices and in parts, what members ask for: (class, amount of one member, members)."""
    parts: dict[tuple[DeviceClass, Measure], int] = {}
    for cls, amount, count in asked:
        if cls in ACCELERATORS:
            rest = amount % WHOLE_DEVICE
            for measure, quantity in ((Measure.WHOLE, amount - rest), (Measure.FRACTION, rest)):
                if quantity:
                    parts[cls, measure] = parts.get((cls, measure), 0) + quantity * count
    return parts


class Counting:
    """How what is held is counted, by one policy in one set of trees. Immutable."""

    def __init__(
        self, trees: Mapping[str, QuotaTree], flavors: Mapping[str, FlavorView], policy: Policy
    ) -> None:
        self.trees = trees
        self.flavors = flavors
        self._policy = policy
        self._most_memory = max(policy.memories.values(), default=0)
        self.measures: dict[str, tuple[tuple[str, DeviceClass, Measure], ...]] = {
            name: tuple(sorted((one, *found) for one in tree.subjects if (found := measured(one))))
            for name, tree in trees.items()
        }
        #: No limit is on a measure.
        self.is_plain = not any(self.measures.values())

    def by_class(self, flavors: Mapping[str, int]) -> dict[DeviceClass, int]:
        """Quantities by flavor, summed by class; a flavor that is not known is left out."""
        found: dict[DeviceClass, int] = {}
        for name, quantity in flavors.items():
            view = self.flavors.get(name)
            if view is not None:
                found[view.device_class] = found.get(view.device_class, 0) + quantity
        return found

    def worth(self, flavor: str) -> int:
        """Thousandths of a normal device that one of the flavor counts as."""
        view = self.flavors.get(flavor)
        return USUAL if view is None else self._policy.conversions.get(view.model or "", USUAL)

    def memory(self, flavor: str) -> int:
        """MiB of one device; of a model that the table does not name as much as of the largest it names, for
        what is not known must not pass a limit."""
        view = self.flavors.get(flavor)
        return self._policy.memories.get((view.model if view else None) or "", self._most_memory)

    def beside(
        self, tree: str, flavors: Mapping[str, int], parts: Mapping[tuple[DeviceClass, Measure], int]
    ) -> list[tuple[str, int]]:
        """(subject, quantity) of the measures on which the tree has limits; zero is left out."""
        found = []
        for subject, cls, measure in self.measures.get(tree, ()):
            if measure in (Measure.WHOLE, Measure.FRACTION):
                quantity = parts.get((cls, measure), 0)
            else:
                quantity = self._weighted(cls, measure, flavors)
            if quantity:
                found.append((subject, quantity))
        return found

    def measured_at(
        self,
        nodes: Nodes,
        flavors: Mapping[str, int],
        parts: Mapping[tuple[DeviceClass, Measure], int] | None = None,
    ) -> list[tuple[str, str, str, int]]:
        """(tree, node, subject, quantity) at each node; without `parts` of what depends on flavors alone."""
        return [
            (tree, node, subject, quantity)
            for tree, node in nodes
            for subject, quantity in (
                self.by_flavor(tree, flavors) if parts is None else self.beside(tree, flavors, parts)
            )
        ]

    def by_flavor(self, tree: str, flavors: Mapping[str, int]) -> list[tuple[str, int]]:
        """As `beside`, of the measures that depend on which flavor is held."""
        return [
            (subject, quantity)
            for subject, cls, measure in self.measures.get(tree, ())
            if measure in (Measure.MEMORY, Measure.NORMALISED)
            and (quantity := self._weighted(cls, measure, flavors))
        ]

    def _weighted(self, cls: DeviceClass, measure: Measure, flavors: Mapping[str, int]) -> int:
        each = self.memory if measure is Measure.MEMORY else self.worth
        return sum(
            quantity * each(name)
            for name, quantity in flavors.items()
            if (view := self.flavors.get(name)) is not None and view.device_class is cls
        )

    def charges(self, nodes: Nodes, held: Held) -> tuple[Charge, ...]:
        """What is charged at the own node of each tree, always in one order."""
        usual = [(cls.value, quantity) for cls, quantity in sorted(held.classes.items()) if quantity]
        usual += [(f"{FLAVOR_PREFIX}{name}", quantity) for name, quantity in sorted(held.flavors.items())]
        found: list[Charge] = []
        for tree, node in nodes:
            found += [Charge(tree, node, subject, quantity) for subject, quantity in usual]
            if not self.is_plain:
                beside = self.beside(tree, held.flavors, held.parts)
                found += [Charge(tree, node, subject, quantity) for subject, quantity in beside]
        return tuple(found)

    def charges_of(self, shape: Shape, allocations: Iterable[Allocated]) -> tuple[Charge, ...]:
        """What an attempt of a shape is charged for what it holds."""
        return self.charges(own_nodes(self.trees, shape), held_by(allocations))

    def charges_at(self, shape: Shape, members: Iterable[MemberPlan]) -> tuple[Charge, ...]:
        """What an attempt of a shape is charged for its places."""
        return self.charges_of(shape, (item for member in members for item in member.allocations))
