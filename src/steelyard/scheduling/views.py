"""What a snapshot is made of: nodes with what is free, work that runs, waits or has a hold.

All of it is frozen; mappings are treated as immutable. Quantities are integers in the class's unit
(milli-devices, milli-cores, MiB), times microseconds UTC. A whole accelerator is 1000. What is made by the
thousand in a cycle is a `Struct`, which is made in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter, le, lt

from msgspec import Struct

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.resources import DeviceClass, ShareKind
from steelyard.model.workloads import MemberPlan, Shape


class Charge(Struct, frozen=True, gc=False):
    """What one attempt asks of its own node of a tree; what flows up follows from the tree."""

    tree: str
    node: str
    subject: str  # a class (`gpu`) or `flavor/NAME`
    quantity: int

    def with_quantity(self, quantity: int) -> Charge:
        """The same of another amount."""
        return Charge(self.tree, self.node, self.subject, quantity)


class PartDevice(Struct, frozen=True, gc=False):
    """A shared accelerator with something left, or a device smaller than a whole one."""

    device_id: int
    remaining: int
    share_kind: ShareKind = ShareKind.TIME_SLICED

    def with_left(self, remaining: int) -> PartDevice:
        """The same with another amount left."""
        return PartDevice(self.device_id, remaining, self.share_kind)


class FreeDevices(Struct, frozen=True):
    """Accelerators of one flavor on one node that nobody holds: entirely, and in part."""

    whole: tuple[int, ...] = ()
    partial: tuple[PartDevice, ...] = ()


class Slot(Struct, frozen=True, gc=False):
    """CPU or memory of a node; `free` is what nobody holds."""

    device_id: int | None
    flavor: str
    device_class: DeviceClass
    free: int

    def with_free(self, free: int) -> Slot:
        """The same with another amount free."""
        return Slot(self.device_id, self.flavor, self.device_class, free)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as it is now. What a hold keeps is not taken off here; `decide` does that.

    `totals` is what the node has by flavor, held or not, cordoned or not; it serves "could it ever
    fit" and the limits shown in reasons. `unavailable` are devices that are not offered even when
    nobody holds them (unhealthy, quarantined): they must not be among the free ones. `withheld` says what
    keeps how much of a flavor from being offered, by reason (`cordoned`, `occupied-unowned`, …).
    """

    id: int
    name: str
    cluster: str
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    accelerators: Mapping[str, FreeDevices] = field(default_factory=dict)  # by flavor
    slots: tuple[Slot, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)  # by flavor
    unavailable: frozenset[int] = frozenset()
    withheld: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)  # by flavor
    memories: Mapping[int, int] = field(default_factory=dict)  # MiB of accelerators, where it is known
    partitions: frozenset[int] = frozenset()  # parts of a card that are given whole or not at all


@dataclass(frozen=True, slots=True)
class FlavorView:
    """Interchangeable devices of one pool in one cluster. CPU and memory have flavors, too."""

    name: str
    device_class: DeviceClass
    cluster: str
    pool: str | None = None
    model: str | None = None
    family: str | None = None
    simulated: bool = False
    memory: int | None = None  # MiB of its largest device, where it is known


@dataclass(frozen=True, slots=True)
class PoolView:
    """The rules of a pool. An empty list lets everything in; `shut` None: the pool is open.

    `offers`: label key → values that its environment has. `needs`: by class, label key → values of which a
    request must ask for one. `verified`: kinds and models of which a real run has shown that they fit here.
    """

    name: str
    cluster: str
    offers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: Mapping[DeviceClass, tuple[tuple[str, tuple[str, ...]], ...]] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    most: Mapping[DeviceClass, int] = field(default_factory=dict)  # of one request
    lends_to: tuple[str, ...] = ()
    verified: frozenset[tuple[str, str]] = frozenset()  # (kind of workload, model of device)
    shut: Mapping[str, str | int | None] | None = None  # why: parameters of the reason


@dataclass(frozen=True, slots=True)
class ClusterView:
    """When a cluster was last observed (µs; None: never) and whether its engine answers."""

    name: str
    observed_at: int | None
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class PendingItem:
    """A waiting attempt. `submitted` is the workload's first submit time and stays over requeues."""

    workload_id: int
    attempt_id: int
    submitted: int
    eligible_at: int = 0
    not_before: int = 0  # back-off: not looked at earlier
    avoid: tuple[int, ...] = ()  # nodes to be met again only where no other will do
    guaranteed: bool = False  # within a service's guarantee: goes first, and may take back what was lent
    standby: bool = False  # of a service's headroom: a place is kept for it, and it does not start
    served: int = 0  # µs that earlier attempts ran before they were stopped for others


class _Group:
    """What follows from the heads of a shape: looked for when it is first asked for, and kept beside them."""

    __slots__ = ("_first",)

    heads: tuple[PendingItem, ...]
    _first: PendingItem | None

    @property
    def first(self) -> PendingItem | None:
        """The first by what is common to every order: guaranteed, then time."""
        try:
            return self._first
        except AttributeError:
            order = [(not item.guaranteed, item.submitted, item.workload_id, item) for item in self.heads]
            found = min(order, key=itemgetter(0, 1, 2), default=None)
            object.__setattr__(self, "_first", None if found is None else found[3])
            return self._first


@dataclass(frozen=True, slots=True)
class ShapeGroup(_Group):
    """Waiting attempts of one shape: the first of them in order, and how many there are in all."""

    shape: Shape
    heads: tuple[PendingItem, ...]
    count: int
    in_turn: bool = field(init=False, compare=False, default=False)  # as they came, and none is guaranteed
    since: int = field(init=False, compare=False, default=0)  # from when on none of the heads is in back-off

    def __post_init__(self) -> None:
        """Looked at once here, not in each cycle that goes by."""
        came = [(item.submitted, item.workload_id, item.attempt_id) for item in self.heads]
        may = [max(item.submitted, item.eligible_at) for item in self.heads]  # from when on its wait counts
        plain = not any(item.guaranteed for item in self.heads) and all(map(le, may, may[1:]))
        object.__setattr__(self, "in_turn", plain and all(map(lt, came, came[1:])))
        since = max((max(item.not_before, item.eligible_at) for item in self.heads), default=0)
        object.__setattr__(self, "since", since)

    def without_first(self, gone: int) -> ShapeGroup:
        """The group after its first have left. Those that came in turn still do, and none of them is in
        back-off for longer."""
        heads, count = self.heads[gone:], self.count - gone
        if not self.in_turn:
            return ShapeGroup(self.shape, heads, count)
        made = object.__new__(ShapeGroup)
        values = (("shape", self.shape), ("heads", heads), ("count", count), ("in_turn", True))
        for name, value in (*values, ("since", self.since)):
            object.__setattr__(made, name, value)
        return made


def amounts_of(members: Iterable[MemberPlan]) -> dict[str, int]:
    """What some members have, by flavor."""
    found: dict[str, int] = {}
    for member in members:
        for allocation in member.allocations:
            found[allocation.flavor] = found.get(allocation.flavor, 0) + allocation.quantity
    return found


class _Holding:
    """What follows from members and charges: summed up when it is first asked for, and kept beside them."""

    __slots__ = ("_charged", "_held")

    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    _held: Mapping[str, int]
    _charged: Mapping[str, int]

    @property
    def held(self) -> Mapping[str, int]:
        """What it has, by flavor."""
        try:
            return self._held
        except AttributeError:
            object.__setattr__(self, "_held", amounts_of(self.members))
            return self._held

    @property
    def charged(self) -> Mapping[str, int]:
        """What it is charged in the queue tree, by subject."""
        try:
            return self._charged
        except AttributeError:
            object.__setattr__(self, "_charged", _in_queue_tree(self.charges))
            return self._charged


def _in_queue_tree(charges: Iterable[Charge]) -> dict[str, int]:
    found: dict[str, int] = {}
    for charge in charges:
        if charge.tree == QUEUE_TREE:
            found[charge.subject] = found.get(charge.subject, 0) + charge.quantity
    return found


@dataclass(frozen=True, slots=True)
class RunningView(_Holding):
    """An attempt that holds devices, from placed until its release is proven (or quarantined)."""

    attempt_id: int
    workload_id: int
    shape_key: str
    queue: str
    project: str
    priority: int
    placed_at: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    preemptible: bool = True
    stopping: bool = False  # stopping or releasing
    name: str | None = None
    user: str | None = None
    kind: str | None = None
    started_at: int | None = None
    ends_by: int | None = None  # started + its time limit; None: not known
    least: tuple[tuple[str, int], ...] = ()  # by role, the members it can shrink to; empty: all or none
    checkpointed_at: int | None = None  # what it did since would be lost
    template: str | None = None  # whose runs tell how long it may take
    ids: tuple[int, ...] = ()  # by member, its id where it may leave alone, else 0; empty: none may
    grows: Shape | None = None  # its shape, where it may get members now
    shrunk_at: int | None = None  # when members of it were last asked to leave; None: never


@dataclass(frozen=True, slots=True)
class HoldView:
    """The place kept for an attempt in phase `reserved` while its victims stop.

    Its charges are part of the usage (the phase is charged). `alive` is False when the attempt has
    meanwhile left (cancelled): the hold is then dropped.
    """

    attempt_id: int
    workload_id: int
    shape: Shape
    item: PendingItem
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    victims: tuple[int, ...]  # attempts whose end it waits for
    since: int
    alive: bool = True
