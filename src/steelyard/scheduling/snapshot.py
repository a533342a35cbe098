"""The snapshot `decide` works on: immutable, copied on write, with what-if changes.

The live loop builds one each cycle out of its live dictionaries (shallow copies will do). Nothing
here is changed afterwards: `apply` and `with_` return a new snapshot that shares what is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.model.policy import Limit
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan, Shape
from steelyard.scheduling.bundles import (
    grown_view,
    imagined_ids,
    joining_ids,
    leaving_view,
    staying_view,
)
from steelyard.scheduling.decisions import Decisions, DropCause, Eviction
from steelyard.scheduling.fleet import as_fleet
from steelyard.scheduling.history import NOTHING_USED, History, start
from steelyard.scheduling.memo import Memo
from steelyard.scheduling.prices import PriceList
from steelyard.scheduling.quota import QuotaTree, Usage, add_charge, total_usage
from steelyard.scheduling.run_times import RunTimes
from steelyard.scheduling.runs import as_runs
from steelyard.scheduling.views import (
    Charge,
    ClusterView,
    FlavorView,
    FreeDevices,
    HoldView,
    NodeView,
    PartDevice,
    PendingItem,
    PoolView,
    RunningView,
    ShapeGroup,
    Slot,
)


@dataclass(frozen=True, slots=True)
class AddPending:
    """What if this were submitted, too?"""

    shape: Shape
    item: PendingItem


@dataclass(frozen=True, slots=True)
class ChangeLimit:
    """What if this limit were set?"""

    limit: Limit


@dataclass(frozen=True, slots=True)
class AddDevices:
    """What if this node were there, or had this much?"""

    node: NodeView
    flavors: tuple[FlavorView, ...] = ()


@dataclass(frozen=True, slots=True)
class CordonNode:
    """What if nothing new were placed on this node?"""

    node_id: int


Change = AddPending | ChangeLimit | AddDevices | CordonNode


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a decision rests on.

    `usage` by tree counts what is charged to each node and what flowed up to it, of everything in a
    charged phase: what runs, stops or is being released, and what holds keep (see `HoldView`).
    `running` has every attempt that holds devices. `last_looked` says when each shape's reasons were
    last made. `evicted` has the evictions of the last hour, by the queue for whose work they were.
    """

    nodes: Mapping[int, NodeView] = field(default_factory=dict)
    flavors: Mapping[str, FlavorView] = field(default_factory=dict)
    clusters: Mapping[str, ClusterView] = field(default_factory=dict)
    pools: Mapping[str, PoolView] = field(default_factory=dict)  # a flavor of no pool here has no rules
    trees: Mapping[str, QuotaTree] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    pending: tuple[ShapeGroup, ...] = ()
    running: Mapping[int, RunningView] = field(default_factory=dict)  # by attempt id
    growing: frozenset[int] = frozenset()  # attempts that may get members now, and some that ended since
    holds: Mapping[int, HoldView] = field(default_factory=dict)  # by attempt id
    history: History = NOTHING_USED  # what was used lately, decayed
    evicted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # queue → when it was evicted for
    timeline: Mapping[int, int] = field(default_factory=dict)  # attempt id → latest end, µs
    prices: PriceList = field(default_factory=dict)  # by class, what room on devices can still earn
    run_times: RunTimes = field(default_factory=RunTimes)  # what finished runs taught
    last_looked: Mapping[str, int] = field(default_factory=dict)  # shape key → µs
    basis: tuple[tuple[str, str | int], ...] = ()  # what it was made of: log size, versions
    plans: Memo[Any] = field(default_factory=Memo, compare=False, repr=False)  # speed alone rests on it

    def apply(self, decisions: Decisions) -> Snapshot:
        """The snapshot after the decisions: devices taken, usage charged, victims stopping."""
        draft = _Draft(self)
        draft.drop_holds(decisions)
        draft.place(decisions)
        draft.hold(decisions)
        draft.grow(decisions)
        for eviction in decisions.evictions:
            draft.evict(self.running[eviction.attempt_id], eviction, decisions.now)
        looked = {**self.last_looked, **dict.fromkeys(decisions.looked, decisions.now)}
        evicted = dict(self.evicted)
        for eviction in decisions.evictions:
            evicted[eviction.preemptor_queue] = (*evicted.get(eviction.preemptor_queue, ()), decisions.now)
        return replace(draft.finish(), last_looked=looked, evicted=evicted)

    def with_(self, change: Change) -> Snapshot:
        """The snapshot as it would be; nothing is changed."""
        if isinstance(change, AddPending):
            return replace(self, pending=_added(self.pending, change.shape, change.item))
        if isinstance(change, ChangeLimit):
            return self._with_limit(change.limit)
        if isinstance(change, AddDevices):
            flavors = {**self.flavors, **{flavor.name: flavor for flavor in change.flavors}}
            return replace(self, nodes={**self.nodes, change.node.id: change.node}, flavors=flavors)
        node = replace(self.nodes[change.node_id], schedulable=False)
        return replace(self, nodes={**self.nodes, node.id: node})

    def _with_limit(self, limit: Limit) -> Snapshot:
        tree = self.trees[limit.tree].with_limit(limit)
        charged: list[RunningView | HoldView] = [*self.running.values(), *self.holds.values()]
        own = [
            (item.node, item.subject, item.quantity)
            for attempt in charged
            for item in attempt.charges
            if item.tree == limit.tree
        ]
        usage = {**self.usage, limit.tree: total_usage(tree, own)}
        return replace(self, trees={**self.trees, limit.tree: tree}, usage=usage)


def limited(since: int, limit: int | None) -> int | None:
    """The end of a time limit; None: there is none."""
    return None if limit is None else since + limit


def least_of(shape: Shape) -> tuple[tuple[str, int], ...]:
    """By role, the fewest members it runs with; empty: all or none."""
    return tuple(
        (name, least) for (name, _, _), least in zip(shape.roles, shape.least, strict=bool(shape.least))
    )


def _added(pending: tuple[ShapeGroup, ...], shape: Shape, item: PendingItem) -> tuple[ShapeGroup, ...]:
    groups = list(pending)
    for index, group in enumerate(groups):
        if group.shape.key == shape.key:
            heads = sorted((*group.heads, item), key=lambda head: (head.submitted, head.workload_id))
            groups[index] = replace(group, heads=tuple(heads), count=group.count + 1)
            return tuple(groups)
    return (*groups, ShapeGroup(shape, (item,), 1))


class _Draft:
    """Copies of what `apply` changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.base = snapshot
        self.nodes: dict[int, NodeView] = {}  # those that are changed
        self.running: dict[int, RunningView] = {}
        self.holds = dict(snapshot.holds)
        self.usage = {name: dict(snapshot.usage.get(name, {})) for name in snapshot.trees}
        self.started = dict(snapshot.history.started)
        self.left: set[int] = set()  # attempts that no longer wait
        self.back: list[HoldView] = []

    def drop_holds(self, decisions: Decisions) -> None:
        for dropped in decisions.dropped_holds:
            hold = self.holds.pop(dropped.attempt_id)
            self._charge(dropped.charges, -1)
            if dropped.cause is not DropCause.VANISHED:
                self.back.append(hold)

    def place(self, decisions: Decisions) -> None:
        shapes = {group.shape.key: group.shape for group in self.base.pending}
        shapes.update((hold.shape.key, hold.shape) for hold in self.base.holds.values())
        for placed in decisions.placements:
            shape = shapes[placed.shape_key]
            self.left.add(placed.attempt_id)
            start(self.started, (shape.queue, shape.project, shape.user or ""), placed.charges)
            self.running[placed.attempt_id] = RunningView(
                placed.attempt_id, placed.workload_id, shape.key, shape.queue, shape.project, shape.priority,
                decisions.now, placed.members, placed.charges, shape.preemptible, user=shape.user,
                kind=shape.kind, ends_by=limited(decisions.now, shape.time_limit),
                least=least_of(shape), template=shape.template,
                ids=imagined_ids(shape, placed.attempt_id, placed.members),
            )
            if placed.from_hold:
                del self.holds[placed.attempt_id]
            else:
                self._charge(placed.charges, 1)
            self._take(placed.members)

    def grow(self, decisions: Decisions) -> None:
        for growth in decisions.growths:
            view = self.base.running[growth.attempt_id]
            ids = joining_ids(growth, len(view.members))
            self.running[view.attempt_id] = grown_view(view, growth, ids)
            start(self.started, (view.queue, view.project, view.user or ""), growth.charges)
            self._charge(growth.charges, 1)
            self._take(growth.members)

    def hold(self, decisions: Decisions) -> None:
        for hold in decisions.holds:
            self.left.add(hold.attempt_id)
            self.holds[hold.attempt_id] = hold
            self._charge(hold.charges, 1)

    def evict(self, victim: RunningView, eviction: Eviction, now: int) -> None:
        if not eviction.members:
            self.running[victim.attempt_id] = replace(victim, stopping=True)
            return
        self.running[victim.attempt_id] = replace(staying_view(victim, eviction.members), shrunk_at=now)
        for gone in eviction.members:
            self.running[gone.member_id] = leaving_view(victim, gone)

    def _charge(self, charges: Iterable[Charge], sign: int) -> None:
        for item in charges:
            tree = self.base.trees.get(item.tree)
            if tree is None or item.node not in tree.nodes:
                continue
            add_charge(tree, self.usage[item.tree], item.node, item.subject, sign * item.quantity)

    def _take(self, members: tuple[MemberPlan, ...]) -> None:
        for member in members:
            node = self.nodes.get(member.node_id) or self.base.nodes[member.node_id]
            for allocation in member.allocations:
                node = taken(node, allocation)
            self.nodes[member.node_id] = node

    def finish(self) -> Snapshot:
        pending = tuple(_without(group, self.left) for group in self.base.pending)
        for hold in self.back:
            if hold.attempt_id not in self.left:
                pending = _added(pending, hold.shape, hold.item)
        pending = tuple(group for group in pending if group.count > 0)
        return replace(
            self.base,
            nodes=as_fleet(self.base.nodes).with_(self.nodes),
            running=as_runs(self.base.running).with_(self.running),
            holds=self.holds,
            usage=self.usage,
            pending=pending,
            history=replace(self.base.history, started=self.started),
        )


def _without(group: ShapeGroup, left: set[int]) -> ShapeGroup:
    heads = tuple(head for head in group.heads if head.attempt_id not in left)
    gone = len(group.heads) - len(heads)
    return replace(group, heads=heads, count=group.count - gone) if gone else group


def taken(node: NodeView, allocation: AllocationPlan) -> NodeView:
    """The node after somebody has taken this."""
    if allocation.flavor in node.accelerators:
        free = _devices_without(node.accelerators[allocation.flavor], allocation)
        return replace(node, accelerators={**node.accelerators, allocation.flavor: free})
    slots = tuple(
        slot.with_free(slot.free - allocation.quantity) if _is_slot(slot, allocation) else slot
        for slot in node.slots
    )
    return replace(node, slots=slots)


def _is_slot(slot: Slot, allocation: AllocationPlan) -> bool:
    return (slot.device_id, slot.flavor, slot.device_class) == (
        allocation.device_id, allocation.flavor, allocation.device_class
    )


def _devices_without(free: FreeDevices, allocation: AllocationPlan) -> FreeDevices:
    device, quantity = allocation.device_id, allocation.quantity
    if device in free.whole:
        whole = tuple(other for other in free.whole if other != device)
        rest = WHOLE_DEVICE - quantity
        left = (PartDevice(device, rest, allocation.share_kind),) if rest > 0 else ()
        return FreeDevices(whole, free.partial + left)
    partial = tuple(
        part.with_left(part.remaining - quantity) if part.device_id == device else part
        for part in free.partial
    )
    return FreeDevices(free.whole, tuple(part for part in partial if part.remaining > 0))
