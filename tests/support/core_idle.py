"""What is blocked at rest is truly blocked: looked for by hand, on every node."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Policy, QueueingStrategy
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import MemberRequest
from steelyard.scheduling import NodeView, Snapshot
from steelyard.scheduling.rules import Rules
from tests.support.core_books import NaiveTree, own_charges
from tests.support.core_checks import running_charges


def check_nothing_idle(rest: Snapshot, policy: Policy, now: int) -> None:
    """At rest, no single member waits for whom there is room and quota: what is blocked is truly blocked."""
    if rest.holds or _somebody_is_let_pass(rest, policy, now):
        return
    charged = list(running_charges(rest))
    books = {name: (NaiveTree(tree), own_charges(name, charged)) for name, tree in rest.trees.items()}
    for group in rest.pending:
        shape = group.shape
        gang = len(shape.roles) > 1 or shape.roles[0][1] > 1
        rules = policy.queues.get(shape.queue)
        if gang or rest.trees[QUEUE_TREE].nodes[shape.queue].stopped:
            continue
        if rules is not None and rules.groups:
            continue  # such a queue has only the flavors that it names
        if any(item.not_before <= now for item in group.heads):
            for charges in _single_places(rest, shape.roles[0][2]):
                at = {QUEUE_TREE: shape.queue, ORG_TREE: shape.org_path[0]}
                fits = [
                    tree.fits(own, [(at[name], *charge) for charge in charges])
                    for name, (tree, own) in books.items()
                ]
                assert not all(fits), f"{shape.key} waits although it fits"


def _somebody_is_let_pass(rest: Snapshot, policy: Policy, now: int) -> bool:
    """Whether a head may keep others off what it does not take: of a strict queue, or one that is due."""
    rules = Rules(policy, rest.trees.get(QUEUE_TREE))
    return any(
        rules.of(group.shape.queue).strategy is QueueingStrategy.STRICT_FIFO
        or item.submitted <= now - rules.of(group.shape.queue).starvation_bound // 2
        for group in rest.pending
        for item in group.heads
    )


def _single_places(rest: Snapshot, request: MemberRequest) -> Iterator[list[tuple[str, int]]]:
    """What a member would be charged at each node that has room for it."""
    for view in rest.nodes.values():
        if not view.schedulable or not rest.clusters[view.cluster].reachable:
            continue
        charges: list[tuple[str, int]] = []
        for device_class, amount in request.amounts:
            flavor = _room(rest, view, request, device_class, amount)
            if flavor is None:
                break
            charges += [(device_class.value, amount), (f"flavor/{flavor}", amount)]
        else:
            yield charges


def _room(
    rest: Snapshot, view: NodeView, request: MemberRequest, device_class: DeviceClass, amount: int
) -> str | None:
    if device_class not in ACCELERATORS:
        slots = [slot for slot in view.slots if slot.device_class is device_class and slot.free >= amount]
        return slots[0].flavor if slots else None
    for name, free in view.accelerators.items():
        if rest.flavors[name].device_class is device_class and name in (request.flavors or (name,)):
            parts = [part for part in free.partial if part.remaining >= amount]
            if len(free.whole) >= -(-amount // 1000) or (amount < 1000 and parts):
                return name
    return None
