"""Gangs: members unlike each other are placed exactly, elastic ones with as many as fit, near each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.reasons import ReasonCode
from steelyard.model.workloads import MemberRequest, Shape, Topology
from steelyard.scheduling import NodeView, Placement, Snapshot, decide, explain
from steelyard.scheduling.explain import can_ever_fit
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    codes,
    group,
    item,
    node,
    nominal,
    placed,
    queue_tree,
    request,
    shape,
    snapshot,
)


def gang(*roles: tuple[int, MemberRequest], least: tuple[int, ...] = (), **fields: object) -> Shape:
    """A shape with one role for each (count, request)."""
    named = tuple((f"role{index}", count, each) for index, (count, each) in enumerate(roles))
    return replace(shape("gang"), roles=named, least=least, **fields)  # type: ignore[arg-type]


def decided(nodes: list[NodeView], of: Shape, **fields: object) -> Placement | None:
    base = snapshot(nodes, group(of, item(1)), **fields)
    decisions = decide(base, POLICY, NOW)
    check_answer(base, decisions)
    return next(iter(decisions.placements), None)


def where(placement: Placement | None) -> list[tuple[str, int]]:
    assert placement is not None
    return [(member.role, member.node_id) for member in placement.members]


# --- members unlike each other ----------------------------------------------------------------------
def test_a_role_leaves_the_node_that_only_another_role_can_use() -> None:
    nodes = [node(1, gpus=1, cpu=8000), node(2, gpus=1, cpu=1000)]
    of = gang((1, request(gpu=1000, cpu=1000)), (1, request(cpu=8000)))
    assert where(decided(nodes, of)) == [("role0", 2), ("role1", 1)]


def test_the_second_choice_of_a_flavor_is_taken_where_the_first_blocks_a_later_role() -> None:
    nodes = [node(1, gpus=1, flavor="a100"), node(2, gpus=1, flavor="b200"), node(3, gpus=1, flavor="c300")]
    of = gang(
        (1, request(gpu=1000, flavors=("a100",))),
        (1, request(gpu=1000, flavors=("b200", "c300"))),
        (1, request(gpu=1000, flavors=("b200",))),
    )
    assert where(decided(nodes, of)) == [("role0", 1), ("role1", 3), ("role2", 2)]


def by_hand(nodes: list[NodeView], of: Shape) -> bool:
    """Whether there is any way at all, by going through all of them."""
    members = [each for _, count, each in of.roles for _ in range(count)]
    room = {view.id: {slot.device_class: slot.free for slot in view.slots} for view in nodes}
    devices = {
        view.id: sum(len(free.whole) for free in view.accelerators.values()) * 1000 for view in nodes
    }
    for choice in product([view.id for view in nodes], repeat=len(members)):
        for view in nodes:
            asked = [each for each, at in zip(members, choice, strict=True) if at == view.id]
            gpus = sum(amount for each in asked for cls, amount in each.amounts if cls.value == "gpu")
            if gpus > devices[view.id]:
                break
            if any(sum(each.amount(cls) for each in asked) > free for cls, free in room[view.id].items()):
                break
        else:
            return True
    return False


_needs = st.builds(request, gpu=st.sampled_from([0, 1000, 2000]), cpu=st.sampled_from([1000, 2000, 3000]))
_nodes = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(sizes=_nodes, roles=st.lists(st.tuples(st.integers(1, 2), _needs), min_size=2, max_size=3))
def test_a_gang_of_unlike_members_is_placed_just_where_there_is_a_way(
    sizes: list[tuple[int, int]], roles: list[tuple[int, MemberRequest]]
) -> None:
    nodes = [node(n, gpus=gpus, cpu=cpu * 1000) for n, (gpus, cpu) in enumerate(sizes, 1)]
    of = gang(*roles)
    assert (decided(nodes, of) is not None) == by_hand(nodes, of)


# --- elastic ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("gpus", "members"), [(8, 8), (6, 6), (4, 4), (3, None)])
def test_an_elastic_gang_starts_with_as_many_as_fit_and_no_fewer_than_it_needs(
    gpus: int, members: int | None
) -> None:
    of = gang((8, request(gpu=1000)), least=(4,))
    placement = decided([node(1, gpus=gpus)], of)
    assert (len(placement.members) if placement else None) == members


def test_quota_bounds_an_elastic_gang_as_room_does() -> None:
    limits = nominal("q", "gpu", 5000, borrowing=0)
    of = gang((8, request(gpu=1000)), least=(4,))
    placement = decided([node(1, gpus=8)], of, queues=queue_tree(limits))
    assert placement is not None
    assert len(placement.members) == 5
    assert [charge.quantity for charge in placement.charges if charge.subject == "gpu"] == [5000]


def test_the_first_role_grows_first_and_all_keep_their_fewest() -> None:
    of = gang((4, request(gpu=1000)), (4, request(gpu=1000)), least=(1, 2))
    found = where(decided([node(1, gpus=5)], of))
    assert [name for name, _ in found] == ["role0"] * 3 + ["role1"] * 2


def test_why_an_elastic_gang_waits_is_told_of_its_fewest() -> None:
    of = gang((8, request(gpu=1000)), least=(4,))
    base = snapshot([node(1, gpus=3)], group(of, item(1)))
    (reason,) = decide(base, POLICY, NOW).reasons["gang"].reasons
    assert (reason.code, reason.requested) == (ReasonCode.EXCEEDS_CAPACITY, 4000)
    assert can_ever_fit(snapshot([node(1, gpus=4)]), POLICY, of) == ()


# --- near each other --------------------------------------------------------------------------------
RACK, ZONE = "rack", "zone"


def racks(**sizes: tuple[int, ...]) -> list[NodeView]:
    """Nodes with so many devices in each rack."""
    found: list[NodeView] = []
    for name, gpus in sizes.items():
        for count in gpus:
            labels = {RACK: name, ZONE: name[0]}
            found.append(node(len(found) + 1, gpus=count, labels=labels))
    return found


def near(gpus: int, required: str | None = None, preferred: str | None = None, count: int = 2) -> Shape:
    return gang((count, request(gpu=gpus * 1000)), topology=Topology(required, preferred))


def test_a_required_level_keeps_the_gang_in_one_domain() -> None:
    nodes = racks(a1=(2, 1), a2=(2, 2), b1=(2,))
    assert where(decided(nodes, near(2, RACK))) == [("role0", 3), ("role0", 4)]
    assert decided(racks(a1=(2,), a2=(2,)), near(2, RACK)) is None
    assert where(decided(racks(a1=(2,), a2=(2,), b1=(8,)), near(2, ZONE))) == [("role0", 1), ("role0", 2)]


def test_the_domain_with_the_least_room_that_holds_it_is_chosen_of_equals_the_first_by_name() -> None:
    nodes = racks(a1=(4, 4), a2=(2, 2), a3=(2, 2), a4=(1, 1, 1, 1))
    assert where(decided(nodes, near(2, RACK))) == [("role0", 3), ("role0", 4)]


def test_a_preferred_level_is_kept_where_it_can_be_and_stops_nobody() -> None:
    nearby = near(2, preferred=RACK)
    assert where(decided(racks(a1=(2, 1), a2=(2, 2)), nearby)) == [("role0", 3), ("role0", 4)]
    assert where(decided(racks(a1=(2,), a2=(2,)), nearby)) == [("role0", 1), ("role0", 2)]


def test_of_both_levels_the_preferred_one_lies_within_the_required_one() -> None:
    both = near(2, ZONE, RACK)
    assert where(decided(racks(a1=(2,), a2=(2,), b1=(2, 2, 2)), both)) == [("role0", 3), ("role0", 4)]
    assert where(decided(racks(a1=(2,), b1=(1,), a2=(2,)), both)) == [("role0", 1), ("role0", 3)]


def test_a_node_without_the_label_is_in_no_domain() -> None:
    assert decided([node(1, gpus=2), node(2, gpus=2)], near(2, RACK)) is None


def test_all_roles_are_in_the_domain_also_those_of_another_class() -> None:
    nodes = racks(a1=(2, 2))
    nodes += [node(9, cpu=64_000, labels={RACK: "b1"}), node(10, cpu=128_000, labels={RACK: "a1"})]
    of = gang((2, request(gpu=2000)), (1, request(cpu=100_000)), topology=Topology(RACK))
    assert where(decided(nodes, of)) == [("role0", 1), ("role0", 2), ("role1", 10)]


def test_quota_may_be_there_and_the_domain_not_which_is_a_reason_of_its_own() -> None:
    base = snapshot(racks(a1=(4, 2), a2=(2, 1)), group(near(2, RACK, count=2), item(1)))
    busy = shape("busy", request(gpu=1000), priority=5)
    base = replace(base, pending=(*base.pending, group(busy, item(10), item(11), item(12), item(13))))
    after = check_answer(base, decide(base, POLICY, NOW))
    assert 1 not in after.running
    (reason,) = explain(after, POLICY, NOW, near(2, RACK)).reasons
    assert reason.code == ReasonCode.NO_DOMAIN
    assert reason.params["level"] == RACK
    assert reason.short_by == sum(holder.amount for holder in reason.holders) == 1000


def test_a_gang_that_no_domain_could_ever_hold_is_told_at_once() -> None:
    base = snapshot(racks(a1=(2,), a2=(2,)))
    (reason,) = can_ever_fit(base, POLICY, near(2, RACK))
    assert (reason.code, reason.limit, reason.requested) == (ReasonCode.EXCEEDS_CAPACITY, 2000, 4000)


def domains_by_hand(sizes: dict[str, tuple[int, ...]], gpus: int, count: int) -> Iterator[str]:
    for name, nodes in sizes.items():
        if sum(size // gpus for size in nodes) >= count:
            yield name


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.dictionaries(
        st.sampled_from(["a1", "a2", "b1", "b2"]),
        st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
        min_size=1,
    ),
    gpus=st.integers(1, 3),
    count=st.integers(1, 4),
)
def test_a_required_domain_is_found_just_where_there_is_one_whatever_the_order_of_the_nodes(
    sizes: dict[str, tuple[int, ...]], gpus: int, count: int
) -> None:
    base: Snapshot = snapshot(racks(**sizes), group(near(gpus, RACK, count=count), item(1)))
    decisions = decide(base, POLICY, NOW)
    check_answer(base, decisions)
    fitting = set(domains_by_hand(sizes, gpus, count))
    assert bool(placed(decisions)) == bool(fitting)
    if fitting:
        node_id = decisions.placements[0].members[0].node_id
        chosen = base.nodes[node_id].labels[RACK]
        assert (sum(sizes[chosen]), chosen) == min((sum(sizes[name]), name) for name in fitting)
    shuffled = replace(base, nodes=dict(reversed(base.nodes.items())))
    assert decide(shuffled, POLICY, NOW).digest_input() == decisions.digest_input()
    assert codes(decisions, "gang") if not fitting else True
