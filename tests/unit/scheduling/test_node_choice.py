"""Which node takes a member: what fits is never held back, nothing is exceeded, and scores stay true."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import NodeOrder
from steelyard.model.resources import ShareKind
from steelyard.scheduling import FreeDevices, NodeView, PartDevice, Snapshot, decide
from steelyard.scheduling.board import Board, need_of
from steelyard.scheduling.node_choice import NodeChoice
from steelyard.scheduling.prices import DEVICE, Prices, tables_of
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    check_answer,
    group,
    item,
    node,
    placed,
    policy,
    request,
    shape,
    snapshot,
)

PRICES = {
    GPU: Prices(
        1, ((230, 250_000, 4_000), (470, 500_000, 6_000), (810, DEVICE, 3_000)), ((1, 8_000), (2, 16_000))
    )
}
SCORED = [NodeOrder.BEST_FIT, NodeOrder.NODE_VALUE]
Asked = tuple[int, int]  # milli-devices, milli-cores
sizes = st.sampled_from([0, 50, 160, 230, 470, 500, 810, 1000, 1500, 2000, 4000])
tasks = st.lists(st.tuples(sizes, st.sampled_from([500, 4_000, 9_000])), min_size=1, max_size=12)
cores = st.sampled_from([4_000, 16_000, 64_000])
machines = st.lists(st.tuples(st.integers(0, 4), cores), min_size=1, max_size=4)


def world(nodes: list[tuple[int, int]], asked: list[Asked], count: int = 1) -> Snapshot:
    views = [
        node(number + 1, gpus=gpus, cpu=cpu, flavor="a100" if number % 2 else "h100")
        for number, (gpus, cpu) in enumerate(nodes)
    ]
    groups = [
        group(shape(f"s{number}", request(gpu=gpu, cpu=cpu), count=count), item(number + 1))
        for number, (gpu, cpu) in enumerate(asked)
    ]
    return snapshot(views, *groups, prices=PRICES)


@pytest.mark.parametrize("order", SCORED)
@given(nodes=machines, asked=tasks, count=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_nothing_is_exceeded_and_a_fraction_is_on_one_device(
    order: NodeOrder, nodes: list[tuple[int, int]], asked: list[Asked], count: int
) -> None:
    before = world(nodes, asked, count)
    decisions = decide(before, policy(nodes=order), NOW)
    check_answer(before, decisions)
    for placement in decisions.placements:
        for member in placement.members:
            parts = [a for a in member.allocations if a.device_class is GPU and a.quantity < 1000]
            assert len(parts) <= 1


@pytest.mark.parametrize("order", SCORED)
@given(nodes=machines, asked=tasks)
@settings(max_examples=60, deadline=None)
def test_what_fits_somewhere_is_not_held_back(
    order: NodeOrder, nodes: list[tuple[int, int]], asked: list[Asked]
) -> None:
    before = world(nodes, asked)
    after = before.apply(decide(before, policy(nodes=order), NOW))
    assert not decide(replace(after, last_looked={}), policy(), NOW).placements


@pytest.mark.parametrize("order", SCORED)
@given(nodes=machines, asked=tasks, seed=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_answer_does_not_hang_on_the_order_of_mappings(
    order: NodeOrder, nodes: list[tuple[int, int]], asked: list[Asked], seed: object
) -> None:
    before = world(nodes, asked)
    views, flavors = list(before.nodes.items()), list(before.flavors.items())
    seed.shuffle(views)  # type: ignore[attr-defined]
    seed.shuffle(flavors)  # type: ignore[attr-defined]
    other = replace(before, nodes=dict(views), flavors=dict(flavors))
    answers = [decide(each, policy(nodes=order), NOW).digest_input() for each in (before, other)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("order", SCORED)
@given(nodes=machines, asked=tasks)
@settings(max_examples=40, deadline=None)
def test_scores_that_are_kept_are_those_made_anew(
    order: NodeOrder, nodes: list[tuple[int, int]], asked: list[Asked]
) -> None:
    base = world(nodes, asked)
    board = Board(base.nodes, base.flavors, list(base.flavors))
    kept = NodeChoice(board, order, PRICES)
    flavors = ("a100", "h100")
    for gpu, cpu in asked:
        need = need_of(request(gpu=gpu or 1000, cpu=cpu))
        before = list(kept.flavors(need, flavors))
        assert before == list(NodeChoice(board, order, PRICES).flavors(need, flavors))
        for flavor in before[:1]:
            at, left = next(kept.places(need, flavors, flavor))
            assert (at, left) == next(NodeChoice(board, order, PRICES).places(need, flavors, flavor))
            assert board.take_member(at, need, flavor, left) is not None


def test_equal_nodes_are_taken_in_their_fixed_order() -> None:
    asked = [(1000, 1_000)] * 3
    for order in SCORED:
        decisions = decide(world([(1, 16_000)] * 6, asked), policy(nodes=order), NOW)
        assert sorted(p.members[0].node_id for p in decisions.placements) == [1, 2, 3]


def test_best_fit_takes_the_fullest_node() -> None:
    before = snapshot([node(1, gpus=4), node(2, gpus=2)], group(shape("s", request(gpu=1000)), item(1)))
    for order in SCORED:  # without prices nothing is known of what comes: node value is best fit
        decisions = decide(before, policy(nodes=order), NOW)
        assert decisions.placements[0].members[0].node_id == 2


def test_a_part_goes_where_the_rest_can_still_be_filled() -> None:
    """160 leaves 310 of 470, room for one 230 less; of 630 it leaves 470, where as much fits as before."""
    free = FreeDevices((), (PartDevice(101, 470), PartDevice(102, 630)))
    view = NodeView(1, "n1", "c1", accelerators={"a100": free}, slots=node(1).slots, totals={"a100": 2000})
    before = snapshot([view], group(shape("s", request(gpu=160, cpu=1_000)), item(1)), prices=PRICES)
    taken = {
        order: decide(before, policy(nodes=order), NOW).placements[0].members[0].allocations[0].device_id
        for order in SCORED
    }
    assert taken == {NodeOrder.BEST_FIT: 101, NodeOrder.NODE_VALUE: 102}


def test_work_without_devices_keeps_off_the_cores_that_devices_need() -> None:
    before = snapshot(
        [node(1, gpus=4, cpu=32_000), node(2, cpu=32_000)],
        group(shape("s", request(cpu=24_000)), item(1)),
        prices=PRICES,
    )
    for order in SCORED:
        assert decide(before, policy(nodes=order), NOW).placements[0].members[0].node_id == 2


def test_a_table_knows_the_best_filling() -> None:
    tables = tables_of(PRICES[GPU])
    assert tables.part[999, 0] == DEVICE  # 810 earns a whole device
    assert tables.part[700, 0] == 750_000  # 470 and 230
    assert tables.idle[3, 0] == 3 * DEVICE
    dear = tables.part[700, -1]
    assert 0 <= dear < 750_000  # cores at a price are taken off


def test_a_row_without_room_has_no_score() -> None:
    base = world([(1, 4_000)], [(1000, 500)])
    board = Board(base.nodes, base.flavors, list(base.flavors))
    choice = NodeChoice(board, NodeOrder.NODE_VALUE, PRICES)
    assert list(choice.flavors(need_of(request(gpu=2000, cpu=500)), ("h100",))) == []
    assert list(choice.flavors(need_of(request(gpu=1000, cpu=5_000)), ("h100",))) == []


def test_a_request_that_names_its_flavors_gets_them_in_its_order() -> None:
    before = snapshot(
        [node(1, gpus=1, flavor="a100"), node(2, gpus=4, flavor="h100")],
        group(shape("s", request(gpu=1000, flavors=("h100", "a100"))), item(1)),
        prices=PRICES,
    )
    for order in SCORED:
        decisions = decide(before, policy(nodes=order), NOW)
        assert placed(decisions) == [1]
        assert decisions.placements[0].members[0].node_id == 2


def test_a_fraction_of_a_device_that_nobody_holds_is_shared() -> None:
    """Part of it may be kept back, so that it is not whole."""
    free = FreeDevices((), (PartDevice(101, 600, ShareKind.EXCLUSIVE),))
    view = NodeView(1, "n1", "c1", accelerators={"a100": free}, slots=node(1).slots, totals={"a100": 1000})
    before = snapshot([view], group(shape("s", request(gpu=300)), item(1), item(2)))
    taken = [p.members[0].allocations[0].share_kind for p in decide(before, policy(), NOW).placements]
    assert taken == [ShareKind.TIME_SLICED] * 2
