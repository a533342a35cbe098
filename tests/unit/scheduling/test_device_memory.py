"""Parts of devices with memory, and partitions: never less is granted than asked for, and never too much.

A part of a device has the same part of its memory, so that the memory of what is on a device never exceeds
its own, whatever was asked for. A partition is granted whole, and a divided card is not granted at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import NodeOrder
from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import ACCELERATORS, ShareKind
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import Decisions, FreeDevices, NodeView, Snapshot, available, can_ever_fit, decide
from steelyard.scheduling.prices import Prices
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    POLICY,
    codes,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    recomputed,
    request,
    shape,
    snapshot,
    without_zeros,
)

GIB = 1024
ORDERS = list(NodeOrder)


def card(number: int, gpus: int = 1, memory: int | None = 80 * GIB, flavor: str = "a100") -> NodeView:
    """A node whose cards have so much memory each; None: not known."""
    view = node(number, gpus=gpus, flavor=flavor)
    whole = view.accelerators.get(flavor, FreeDevices()).whole
    known = {} if memory is None else dict.fromkeys(whole, memory)
    return replace(view, memories=known)


def divided(number: int, parts: int = 3, memory: int = 20 * GIB) -> NodeView:
    """A node with the partitions of a card. The card itself is not offered."""
    view = card(number, parts, memory, "a100-2g")
    return replace(view, partitions=frozenset(view.memories))


def world(views: Iterable[NodeView], *groups: object, **fields: object) -> Snapshot:
    made = snapshot(views, *groups, **fields)  # type: ignore[arg-type]
    largest: dict[str, int] = {}
    for view in made.nodes.values():
        for name, free in view.accelerators.items():
            for device in free.whole:
                largest[name] = max(largest.get(name, 0), view.memories.get(device, 0))
    flavors = {name: replace(flavor, memory=largest.get(name)) for name, flavor in made.flavors.items()}
    return replace(made, flavors=flavors)


def asking(key: str, gpu: int, memory: int = 0, count: int = 1, **constraints: object) -> Shape:
    return shape(key, request(gpu=gpu, device_memory=memory, **constraints), count=count)


def granted(decisions: Decisions) -> list[tuple[int, ShareKind]]:
    return [
        (allocation.quantity, allocation.share_kind)
        for placement in decisions.placements
        for member in placement.members
        for allocation in member.allocations
        if allocation.device_class in ACCELERATORS
    ]


def test_a_part_is_granted_with_the_memory_that_it_needs() -> None:
    before = world([card(1)], group(asking("s", 200, 40 * GIB), item(1)))
    assert granted(decide(before, POLICY, NOW)) == [(500, ShareKind.TIME_SLICED)]
    before = world([card(1)], group(asking("s", 200, 8 * GIB), item(1)))
    assert granted(decide(before, POLICY, NOW)) == [(200, ShareKind.TIME_SLICED)]
    before = world([card(1)], group(asking("s", 50, 8 * GIB + 1), item(1)))
    assert granted(decide(before, POLICY, NOW)) == [(101, ShareKind.TIME_SLICED)]  # rounded up, never down


def test_memory_that_would_not_be_enough_for_all_is_not_given_twice() -> None:
    before = world([card(1)], group(asking("s", 100, 30 * GIB), item(1), item(2), item(3)))
    decisions = decide(before, POLICY, NOW)
    assert granted(decisions) == [(375, ShareKind.TIME_SLICED)] * 2
    reason = decisions.reasons["s"].reasons[0]
    assert reason.short_by is not None
    assert reason.short_by > 0


def test_of_a_device_whose_memory_is_not_known_none_is_granted() -> None:
    before = world([card(1, memory=None)], group(asking("s", 100, 1), item(1)))
    assert placed(decide(before, POLICY, NOW)) == []
    assert placed(decide(world([card(1, memory=None)], group(asking("s", 100), item(1))), POLICY, NOW)) == [1]


def test_more_memory_than_any_device_has_can_never_be() -> None:
    before = world([card(1)])
    reasons = can_ever_fit(before, POLICY, asking("s", 500, 81 * GIB))
    assert [reason.code for reason in reasons] == [ReasonCode.NO_MATCHING_FLAVOR]
    assert reasons[0].params["device_memory"] == 81 * GIB
    assert can_ever_fit(before, POLICY, asking("s", 500, 80 * GIB)) == ()


def test_whole_devices_have_at_least_the_memory_asked_for() -> None:
    mixed = replace(card(1, 4), memories={100: 40 * GIB, 101: 80 * GIB, 102: 40 * GIB, 103: 80 * GIB})
    before = world([mixed], group(asking("s", 2000, 80 * GIB), item(1), item(2)))
    decisions = decide(before, POLICY, NOW)
    assert placed(decisions) == [1]
    assert {a.device_id for a in decisions.placements[0].members[0].allocations} == {101, 103}


def test_a_part_that_falls_on_a_partition_is_granted_all_of_it() -> None:
    before = world([divided(1)], group(asking("s", 300, 10 * GIB), item(1), item(2), item(3), item(4)))
    decisions = decide(before, POLICY, NOW)
    assert granted(decisions) == [(1000, ShareKind.PARTITION)] * 3
    assert codes(decisions, "s")[0] in (ReasonCode.WAITING_FOR_CAPACITY, ReasonCode.FRAGMENTED)


def test_a_partition_with_too_little_memory_is_passed_over() -> None:
    before = world([divided(1), card(2)], group(asking("s", 300, 30 * GIB), item(1)))
    decisions = decide(before, POLICY, NOW)
    assert decisions.placements[0].members[0].node_id == 2
    assert granted(decisions) == [(375, ShareKind.TIME_SLICED)]


def test_what_is_granted_is_what_is_charged_and_limited() -> None:
    tree = queue_tree(nominal("q", "gpu", 700, borrowing=0))
    before = world([card(1, 2)], group(asking("s", 100, 40 * GIB), item(1), item(2)), queues=tree)
    decisions = decide(before, POLICY, NOW)
    assert placed(decisions) == [1]
    after = before.apply(decisions)
    assert after.usage["queue"]["q", "gpu"] == 500
    assert without_zeros(after.usage["queue"]) == without_zeros(recomputed(after)["queue"])
    assert available(after.trees["queue"], after.usage["queue"], "q", "gpu") == 200


asked = st.lists(
    st.tuples(
        st.sampled_from([50, 200, 500, 1000, 1300, 2000]),
        st.sampled_from([0, 5 * GIB, 10 * GIB + 1, 20 * GIB, 40 * GIB]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=10,
)
PRICES = {GPU: Prices(1, ((200, 200_000, 1_000), (500, 500_000, 1_000)), ((1, 1_000), (2, 1_000)))}


@pytest.mark.parametrize("order", ORDERS)
@given(asked=asked, cards=st.integers(0, 3), parts=st.integers(0, 3), known=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_device_nor_its_memory_is_ever_exceeded(
    order: NodeOrder, asked: list[tuple[int, int, int]], cards: int, parts: int, known: bool
) -> None:
    views = [card(1, cards), divided(2, parts), card(3, 1, 40 * GIB if known else None, "h100")]
    groups = [
        group(asking(f"s{number}", gpu, memory, count), item(number + 1))
        for number, (gpu, memory, count) in enumerate(asked)
    ]
    tree = queue_tree(nominal("q", "gpu", 4000, borrowing=0))
    before = world(views, *groups, queues=tree, prices=PRICES)
    decisions = decide(before, policy(nodes=order), NOW)
    _check(before, decisions)
    after = before.apply(decisions)
    assert without_zeros(after.usage["queue"]) == without_zeros(recomputed(after)["queue"])
    assert available(tree, after.usage["queue"], "q", "gpu") >= 0


def _check(before: Snapshot, decisions: Decisions) -> None:
    memories = {device: memory for view in before.nodes.values() for device, memory in view.memories.items()}
    partitions = {device for view in before.nodes.values() for device in view.partitions}
    requests: dict[str, MemberRequest] = {g.shape.key: g.shape.roles[0][2] for g in before.pending}
    shares: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for placement in decisions.placements:
        request = requests[placement.shape_key]
        for member in placement.members:
            quantity = 0
            for allocation in member.allocations:
                assert before.flavors[allocation.flavor].device_class is allocation.device_class
                device = allocation.device_id or 0
                shares[device] = shares.get(device, 0) + allocation.quantity
                wanted[device] = wanted.get(device, 0) + request.device_memory
                quantity += allocation.quantity
                if request.device_memory:
                    assert allocation.quantity * memories[device] >= request.device_memory * 1000
                if device in partitions:
                    assert (allocation.quantity, allocation.share_kind) == (1000, ShareKind.PARTITION)
            assert quantity >= request.amount(GPU)
            assert len(member.allocations) == -(-request.amount(GPU) // 1000)
    assert all(share <= 1000 for share in shares.values())
    assert all(memory <= memories.get(device, 0) for device, memory in wanted.items() if memory)
