"""What a snapshot would be after something ended, or under other quota trees. Nothing is changed in place.

The counterpart of `Snapshot.apply`: that one takes devices and charges, this one gives them back. What is
not offered even when nobody holds it (`NodeView.unavailable`) does not come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan, Shape
from steelyard.scheduling.fleet import Fleet, as_fleet
from steelyard.scheduling.history import history_of
from steelyard.scheduling.quota import QuotaTree, Usage, charge, total_usage
from steelyard.scheduling.runs import as_runs
from steelyard.scheduling.snapshot import Snapshot, taken
from steelyard.scheduling.subjects import Counting
from steelyard.scheduling.views import (
    Charge,
    FreeDevices,
    HoldView,
    NodeView,
    PartDevice,
    RunningView,
    ShapeGroup,
    Slot,
)


@dataclass(frozen=True, slots=True)
class EndAttempts:
    """What if these had ended, and their release were proven? They run, wait, or have a hold."""

    attempt_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class FollowTrees:
    """What if these were the quota trees? What runs is counted anew where its shape (by key) is given."""

    trees: Mapping[str, QuotaTree]
    shapes: Mapping[str, Shape] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FollowNodes:
    """What if these were the nodes there are? As they are when nobody holds anything of them."""

    nodes: Mapping[int, NodeView]


def with_nodes(snapshot: Snapshot, empty: Mapping[int, NodeView]) -> Snapshot:
    """The snapshot on these nodes: what runs has what it has; what runs on none of them keeps its charges."""
    nodes = dict(empty)
    for attempt in sorted(snapshot.running):
        for member in snapshot.running[attempt].members:
            for allocation in member.allocations:
                node = nodes.get(allocation.node_id)
                if node is not None and allocation.device_id not in node.unavailable:
                    nodes[node.id] = taken(node, allocation)
    return replace(snapshot, nodes=nodes)


def emptied(snapshot: Snapshot) -> dict[int, NodeView]:
    """The nodes as they are when nobody holds anything of them."""
    return dict(without_attempts(snapshot, snapshot.running).nodes)


def without_attempts(snapshot: Snapshot, attempt_ids: Collection[int]) -> Snapshot:
    """The snapshot after these have left: devices free, charges gone, places kept for them given up."""
    gone = frozenset(attempt_ids)
    running = [snapshot.running[attempt] for attempt in sorted(gone) if attempt in snapshot.running]
    holds = [snapshot.holds[attempt] for attempt in sorted(gone) if attempt in snapshot.holds]
    left: list[RunningView | HoldView] = [*running, *holds]
    return replace(
        snapshot,
        nodes=_given_back(snapshot.nodes, [member for attempt in running for member in attempt.members]),
        running=as_runs(snapshot.running).with_({}, [attempt.attempt_id for attempt in running]),
        holds={key: view for key, view in snapshot.holds.items() if key not in gone},
        usage=_discharged(snapshot, [item for attempt in left for item in attempt.charges]),
        pending=tuple(_waiting_still(snapshot, gone)),
        timeline={key: at for key, at in snapshot.timeline.items() if key not in gone},
    )


def with_trees(snapshot: Snapshot, trees: Mapping[str, QuotaTree]) -> Snapshot:
    """The snapshot under these trees: what runs and what is held is charged in them."""
    holders: list[RunningView | HoldView] = [*snapshot.running.values(), *snapshot.holds.values()]
    usage: dict[str, Usage] = {}
    for name, tree in trees.items():
        own = [
            (item.node, item.subject, item.quantity)
            for holder in holders
            for item in holder.charges
            if item.tree == name and item.node in tree.nodes
        ]
        usage[name] = total_usage(tree, own)
    history = snapshot.history
    if history.at:
        history = history_of(trees.get(QUEUE_TREE), history.at, history.own, dict(history.started))
    return replace(snapshot, trees=trees, usage=usage, history=history)


def recounted(snapshot: Snapshot, policy: Policy, shapes: Mapping[str, Shape]) -> Snapshot:
    """The snapshot with everything charged as this policy counts it, where the shape is known by its key."""
    counting = Counting(snapshot.trees, snapshot.flavors, policy)
    running = dict(snapshot.running)
    for attempt, run in snapshot.running.items():
        shape = shapes.get(run.shape_key)
        if shape is not None:
            running[attempt] = replace(run, charges=counting.charges_at(shape, run.members))
    holds = {
        attempt: replace(hold, charges=counting.charges_at(hold.shape, hold.members))
        for attempt, hold in snapshot.holds.items()
    }
    return with_trees(replace(snapshot, running=running, holds=holds), snapshot.trees)


def _waiting_still(snapshot: Snapshot, gone: frozenset[int]) -> Iterable[ShapeGroup]:
    for group in snapshot.pending:
        heads = tuple(head for head in group.heads if head.attempt_id not in gone)
        count = group.count - (len(group.heads) - len(heads))
        if len(heads) == len(group.heads):
            yield group
        elif count > 0:
            yield replace(group, heads=heads, count=count)


def _discharged(snapshot: Snapshot, charges: Iterable[Charge]) -> dict[str, Usage]:
    usage = {name: dict(used) for name, used in snapshot.usage.items()}
    for item in charges:
        tree = snapshot.trees.get(item.tree)
        if tree is None or item.node not in tree.nodes:
            continue
        used = usage[item.tree]
        for node, subject, delta in charge(tree, used, item.node, item.subject, -item.quantity):
            used[node, subject] = used.get((node, subject), 0) + delta
    return dict(usage)


# --- devices ---------------------------------------------------------------------------------------------
def _given_back(nodes: Mapping[int, NodeView], members: Iterable[MemberPlan]) -> Fleet:
    after: dict[int, NodeView] = {}
    for member in members:
        for allocation in member.allocations:
            node = after.get(allocation.node_id) or nodes.get(allocation.node_id)
            if node is not None and allocation.device_id not in node.unavailable:
                after[node.id] = _node_with(node, allocation)
    return as_fleet(nodes).with_(after)


def _node_with(node: NodeView, allocation: AllocationPlan) -> NodeView:
    if allocation.flavor in node.accelerators:
        free = _devices_with(node.accelerators[allocation.flavor], allocation)
        return replace(node, accelerators={**node.accelerators, allocation.flavor: free})
    slots = tuple(
        slot.with_free(slot.free + allocation.quantity) if _is_of(slot, allocation) else slot
        for slot in node.slots
    )
    return replace(node, slots=slots)


def _is_of(slot: Slot, allocation: AllocationPlan) -> bool:
    return (slot.device_id, slot.flavor, slot.device_class) == (
        allocation.device_id, allocation.flavor, allocation.device_class
    )  # fmt: skip


def _devices_with(free: FreeDevices, allocation: AllocationPlan) -> FreeDevices:
    """A device of which everything is free is whole again; one that is smaller stays a part."""
    device, quantity = allocation.device_id, allocation.quantity
    if device is None or device in free.whole:
        return free
    known = next((part for part in free.partial if part.device_id == device), None)
    rest = tuple(part for part in free.partial if part.device_id != device)
    remaining = quantity + (known.remaining if known is not None else 0)
    if remaining >= WHOLE_DEVICE:
        return FreeDevices(tuple(sorted((*free.whole, device))), rest)
    kind = known.share_kind if known is not None else allocation.share_kind
    part = PartDevice(device, remaining, kind)
    return FreeDevices(free.whole, tuple(sorted((*rest, part), key=lambda each: each.device_id)))
