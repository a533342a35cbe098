"""Small clusters, trees and shapes for the scheduling tests, and the invariants of every answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Limit, Policy, PreemptionRule, TreeNode
from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import MemberPlan, MemberRequest, Shape
from steelyard.scheduling import (
    Charge,
    ClusterView,
    Decisions,
    FlavorView,
    FreeDevices,
    NodeView,
    PendingItem,
    QuotaTree,
    RunningView,
    ShapeGroup,
    Slot,
    Snapshot,
    available,
    decide,
    total_usage,
    with_unbounded_root,
)
from steelyard.scheduling.decisions import BORROWING, FAIR_SHARE, GUARANTEE, LOWERED, RECLAIM, WITHIN_QUEUE

Limits = Mapping[tuple[str, str], Limit]
GPU, NPU, CPU, MEMORY = DeviceClass.GPU, DeviceClass.NPU, DeviceClass.CPU, DeviceClass.MEMORY
NOW = 5_000_000_000
POLICY = Policy(1)
WAITS_FOR_SOMEBODY = frozenset({
    ReasonCode.WAITING_FOR_QUOTA, ReasonCode.OVER_LIMIT, ReasonCode.WAITING_FOR_CAPACITY,
    ReasonCode.FRAGMENTED, ReasonCode.WAITING_FOR_PREEMPTED,
})


def policy(**changes: object) -> Policy:
    """The default policy with changes."""
    return replace(POLICY, **changes)  # type: ignore[arg-type]


def min_runtime(runtime: int) -> Policy:
    """A policy whose victims must have run that long."""
    return policy(preemption=PreemptionRule(min_runtime=runtime))


def request(
    gpu: int = 0, cpu: int = 0, memory: int = 0, npu: int = 0, **constraints: object
) -> MemberRequest:
    """A member's request, in milli-devices, milli-cores and MiB."""
    amounts = {GPU: gpu, CPU: cpu, MEMORY: memory, NPU: npu}
    asked = tuple((cls, amount) for cls, amount in sorted(amounts.items()) if amount)
    return MemberRequest(asked, **constraints)  # type: ignore[arg-type]


def shape(
    key: str,
    *roles: MemberRequest,
    count: int = 1,
    queue: str = "q",
    project: str = "p",
    priority: int = 0,
    preemptible: bool = True,
) -> Shape:
    """A shape with one role for each request."""
    named = tuple((f"role{index}", count, each) for index, each in enumerate(roles))
    return Shape(key, queue, project, (f"ns-{project}", project), priority, named, preemptible)


def item(number: int, submitted: int | None = None, **changes: Any) -> PendingItem:
    """A waiting attempt; workload and attempt have the same number."""
    return PendingItem(number, number, number if submitted is None else submitted, **changes)


def group(of: Shape, *items: PendingItem) -> ShapeGroup:
    """A shape with what waits of it."""
    return ShapeGroup(of, items, len(items))


def node(
    number: int,
    *,
    gpus: int = 0,
    cpu: int = 64_000,
    memory: int = 65_536,
    cluster: str = "c1",
    flavor: str = "a100",
    labels: Mapping[str, str] | None = None,
    schedulable: bool = True,
) -> NodeView:
    """An empty node; its devices are numbered from number × 100."""
    base = number * 100
    slots = (
        Slot(base + 90, f"cpu-{cluster}", CPU, cpu),
        Slot(base + 91, f"memory-{cluster}", MEMORY, memory),
    )
    totals = {f"cpu-{cluster}": cpu, f"memory-{cluster}": memory}
    accelerators = {}
    if gpus:
        accelerators[flavor] = FreeDevices(tuple(base + index for index in range(gpus)))
        totals[flavor] = gpus * 1000
    return NodeView(
        number, f"n{number}", cluster, schedulable, labels or {}, accelerators, slots, totals
    )


def queue_tree(limits: Limits | None = None, queues: Iterable[str] = ("q",)) -> QuotaTree:
    """One cohort over the queues."""
    nodes = {"cohort": TreeNode(QUEUE_TREE, "cohort", "cohort", None)}
    nodes |= {name: TreeNode(QUEUE_TREE, name, "queue", "cohort") for name in queues}
    return QuotaTree(nodes, limits or {})


def org_tree(limits: Limits | None = None, projects: Iterable[str] = ("p",)) -> QuotaTree:
    """A namespace in each project, all in one team."""
    nodes = {"team": TreeNode(ORG_TREE, "team", "team", None)}
    for name in projects:
        nodes[name] = TreeNode(ORG_TREE, name, "project", "team")
        nodes[f"ns-{name}"] = TreeNode(ORG_TREE, f"ns-{name}", "namespace", name)
    return with_unbounded_root(ORG_TREE, nodes, limits or {}, "installation")


def nominal(
    name: str, subject: str, quantity: int, borrowing: int | None = None, lending: int | None = None
) -> dict[tuple[str, str], Limit]:
    """A limit in the queue tree, as a mapping to merge."""
    return {(name, subject): Limit(QUEUE_TREE, name, subject, quantity, borrowing, lending)}


def snapshot(
    nodes: Iterable[NodeView],
    *groups: ShapeGroup,
    queues: QuotaTree | None = None,
    organisation: QuotaTree | None = None,
    **fields: object,
) -> Snapshot:
    """A snapshot with flavors and clusters made to fit the nodes; everything observed just now."""
    views = {view.id: view for view in nodes}
    flavors = {}
    for view in views.values():
        for name in view.accelerators:
            cls = NPU if name.startswith("npu") else GPU
            flavors[name] = FlavorView(name, cls, view.cluster, model=name)
        for slot in view.slots:
            flavors[slot.flavor] = FlavorView(slot.flavor, slot.device_class, view.cluster)
    clusters = {view.cluster: ClusterView(view.cluster, NOW) for view in views.values()}
    trees = {}
    if queues is not None:
        trees[QUEUE_TREE] = queues
    if organisation is not None:
        trees[ORG_TREE] = organisation
    plain = Snapshot(nodes=views, flavors=flavors, clusters=clusters, trees=trees, pending=groups)
    return replace(plain, **fields)  # type: ignore[arg-type]


def started(base: Snapshot, *groups: ShapeGroup, at: int = NOW - 10**9) -> Snapshot:
    """The snapshot with these placed earlier, as `decide` places them; nothing else waits meanwhile."""
    alone = replace(base, pending=groups, clusters={
        name: replace(cluster, observed_at=at) for name, cluster in base.clusters.items()
    })
    after = alone.apply(decide(alone, POLICY, at))
    return replace(after, pending=base.pending, clusters=base.clusters, last_looked={})


def ended(base: Snapshot, *attempts: int) -> Snapshot:
    """The snapshot after these attempts' release: devices free, charges gone."""
    nodes, running = dict(base.nodes), dict(base.running)
    for attempt in attempts:
        gone = running.pop(attempt)
        for member in gone.members:
            nodes[member.node_id] = freed(nodes[member.node_id], member)
    after = replace(base, nodes=nodes, running=running)
    return replace(after, usage=recomputed(after))


def freed(view: NodeView, member: MemberPlan) -> NodeView:
    """A node after a member gave back what it had: whole devices, CPU and memory only."""
    accelerators, slots = dict(view.accelerators), view.slots
    for allocation in member.allocations:
        if allocation.device_class in ACCELERATORS:
            free = accelerators[allocation.flavor]
            assert allocation.quantity == 1000
            accelerators[allocation.flavor] = FreeDevices((*free.whole, allocation.device_id), free.partial)
        else:
            slots = tuple(
                slot.with_free(slot.free + allocation.quantity)
                if slot.device_id == allocation.device_id else slot
                for slot in slots
            )
    return replace(view, accelerators=accelerators, slots=slots)


def recomputed(base: Snapshot) -> dict[str, dict[tuple[str, str], int]]:
    """The usage made anew from what runs and what is held."""
    charged: list[Charge] = [item for run in base.running.values() for item in run.charges]
    charged += [item for hold in base.holds.values() for item in hold.charges]
    return {
        name: total_usage(tree, [(c.node, c.subject, c.quantity) for c in charged if c.tree == name])
        for name, tree in base.trees.items()
    }


def placed(decisions: Decisions) -> list[int]:
    """Attempts placed, in order."""
    return [placement.attempt_id for placement in decisions.placements]


def codes(decisions: Decisions, key: str) -> list[str]:
    """Reason codes of a shape, in order."""
    return [reason.code for reason in decisions.reasons[key].reasons]


def running(base: Snapshot, attempt: int, **changes: object) -> Snapshot:
    """The snapshot with one running attempt changed."""
    view: RunningView = replace(base.running[attempt], **changes)  # type: ignore[arg-type]
    return replace(base, running={**base.running, attempt: view})


def check_answer(before: Snapshot, decisions: Decisions) -> Snapshot:
    """Asserts what holds for every answer; returns the snapshot after it."""
    after = before.apply(decisions)
    _check_places(before, decisions)
    _check_nothing_negative(after)
    _check_usage(before, after)
    _check_evictions(before, decisions)
    _check_holders(decisions)
    return after


def _check_places(before: Snapshot, decisions: Decisions) -> None:
    shapes = {g.shape.key: g.shape for g in before.pending}
    shapes |= {hold.shape.key: hold.shape for hold in before.holds.values()}
    for placement in decisions.placements:
        wanted = shapes[placement.shape_key]
        counts = {name: sum(m.role == name for m in placement.members) for name, _, _ in wanted.roles}
        expected = [(name, index) for name in counts for index in range(counts[name])]
        assert [(m.role, m.index) for m in placement.members] == expected
        for (name, count, _), least in zip(
            wanted.roles, wanted.least or [count for _, count, _ in wanted.roles], strict=True
        ):
            assert least <= counts[name] <= count
        level = wanted.topology.required if wanted.topology else None
        if level is not None:
            values = {before.nodes[m.node_id].labels.get(level) for m in placement.members}
            assert len(values) == 1
            assert None not in values
        requests = {name: each for name, _, each in wanted.roles}
        assert len({member.cluster for member in placement.members}) == 1
        for member in placement.members:
            got: dict[DeviceClass, int] = {}
            for allocation in member.allocations:
                assert allocation.node_id == member.node_id
                assert before.flavors[allocation.flavor].device_class is allocation.device_class
                assert before.flavors[allocation.flavor].cluster == member.cluster
                got[allocation.device_class] = got.get(allocation.device_class, 0) + allocation.quantity
            assert got == dict(requests[member.role].amounts)
            assert before.nodes[member.node_id].schedulable


def _check_nothing_negative(after: Snapshot) -> None:
    for view in after.nodes.values():
        assert all(slot.free >= 0 for slot in view.slots)
        for free in view.accelerators.values():
            assert all(0 < part.remaining < 1000 for part in free.partial)
            assert len(set(free.whole)) == len(free.whole)
    on_device: dict[tuple[int, int | None], int] = {}
    for run in after.running.values():
        for member in run.members:
            for allocation in member.allocations:
                key = (member.node_id, allocation.device_id)
                on_device[key] = on_device.get(key, 0) + allocation.quantity
                if allocation.device_class in ACCELERATORS:
                    assert on_device[key] <= 1000


def _check_usage(before: Snapshot, after: Snapshot) -> None:
    fresh = recomputed(after)
    for name, tree in after.trees.items():
        assert without_zeros(after.usage[name]) == without_zeros(fresh[name])
        # what stops already goes away, also when the hold that it stopped for has vanished since
        ending = {victim for hold in after.holds.values() for victim in hold.victims}
        ending |= {attempt for attempt, run in after.running.items() if run.stopping}
        staying = {attempt: run for attempt, run in after.running.items() if attempt not in ending}
        settled = recomputed(replace(after, running=staying))[name]
        earlier = before.usage.get(name, {})
        for node_name in tree.nodes:
            for subject in tree.subjects:
                if available(tree, earlier, node_name, subject) >= 0:
                    assert available(tree, settled, node_name, subject) >= 0, (node_name, subject)


def without_zeros(usage: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Only what is used."""
    return {key: quantity for key, quantity in usage.items() if quantity}


def _check_evictions(before: Snapshot, decisions: Decisions) -> None:
    held = {hold.attempt_id: hold for hold in decisions.holds}
    for eviction in decisions.evictions:
        victim = before.running[eviction.attempt_id]
        assert victim.preemptible
        assert not victim.stopping
        if eviction.rule == LOWERED:
            continue
        assert eviction.preemptor_attempt_id in held
        assert eviction.preemptor_priority is not None
        stopped = {gone.member_id for gone in eviction.members} or {eviction.attempt_id}
        assert stopped <= {*held[eviction.preemptor_attempt_id].victims}
        own = held[eviction.preemptor_attempt_id].shape.queue
        assert (victim.queue == own) == (eviction.rule == WITHIN_QUEUE)
        assert eviction.preemptor_queue == own
        if eviction.rule in (WITHIN_QUEUE, GUARANTEE, BORROWING):
            assert victim.priority < eviction.preemptor_priority
        if eviction.rule in (RECLAIM, BORROWING, FAIR_SHARE):
            tree, usage = before.trees[QUEUE_TREE], before.apply(decisions).usage[QUEUE_TREE]
            assert any(
                usage.get((victim.queue, item.subject), 0) > tree.subtree(victim.queue, item.subject)
                for item in victim.charges
                if item.tree == QUEUE_TREE and item.subject in tree.subjects
            )
    assert len({eviction.attempt_id for eviction in decisions.evictions}) == len(decisions.evictions)


def _check_holders(decisions: Decisions) -> None:
    told = [reason for each in decisions.reasons.values() for reason in each.reasons]
    told += [reason for each in decisions.workload_reasons.values() for reason in each]
    for each in decisions.reasons.values():
        assert 1 <= len(each.reasons) <= 16
    for reason in told:
        assert len(reason.holders) <= 16
        assert reason.wakes_on
        assert reason.limit is None or reason.limit < 2**60
        if reason.short_by is not None:
            assert reason.short_by > 0
        if reason.code in WAITS_FOR_SOMEBODY and reason.short_by is not None:
            assert sum(holder.amount for holder in reason.holders) == reason.short_by
            assert all(holder.amount > 0 for holder in reason.holders)
