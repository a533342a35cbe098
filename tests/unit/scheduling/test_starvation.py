"""The starvation bound: what is due, with nothing older waiting, starts once all that runs has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    QUEUE_TREE,
    Fairness,
    Policy,
    PreemptionRule,
    QueueOrder,
    QueueRules,
    Reclaim,
    TreeNode,
)
from steelyard.model.units import HOUR, MINUTE
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.forward import Arrival, Expected, Foreseen, Forward
from tests.unit.scheduling.build import NOW, item, node, nominal, queue_tree, request, shape, snapshot

#: When a workload came, and to which queue.
Came: TypeAlias = tuple[int, str]
LONGEST, STEP, DAY = 30 * MINUTE, 10 * MINUTE, 10 * HOUR
NODES, DEVICES = 3, 2
#: A queue, how many members of one device each; at most as many as there are devices.
asked = st.tuples(st.sampled_from(["q", "r"]), st.integers(1, NODES * DEVICES))


FLAT = queue_tree(nominal("cohort", "gpu", NODES * DEVICES * 1000), ("q", "r"))


def lived(
    policy: Policy, tree: QuotaTree, bound: int, streams: list[tuple[str, int]], seed: int
) -> tuple[Foreseen, dict[int, Came]]:
    """Ten hours in which all of these come again and again, more than can run; when each came, and where."""
    shapes = [
        shape(f"s{number}", request(gpu=1000), count=size, queue=queue)
        for number, (queue, size) in enumerate(streams)
    ]
    number, arrivals = iter(range(1, 10**6)), []
    came: dict[int, Came] = {}
    for at in range(NOW, NOW + DAY, STEP):
        left = NODES * DEVICES * 2 // 3  # a third of what runs for the longest time ends in a step
        turn = (at // STEP + seed) % len(shapes)
        for of in shapes[turn:] + shapes[:turn]:
            if left > 0:
                one = next(number)
                came[one] = at, of.queue
                arrivals.append(Arrival(at, of, item(one, at)))
                left -= of.roles[0][1]
    rules = QueueRules(
        starvation_bound=bound, reservations=0,
        preemption=PreemptionRule(within_queue=False, reclaim=Reclaim.NEVER),
    )  # fmt: skip
    world = snapshot([node(each, gpus=DEVICES) for each in range(1, NODES + 1)], queues=tree)
    lengths = (LONGEST, STEP, 2 * STEP)
    expected = Expected(
        {}, lambda _shape, each: lengths[(each.workload_id + seed) % 3], arrivals=tuple(arrivals)
    )
    policy = replace(policy, defaults=rules)
    return Forward(world, policy, NOW, expected).run(100_000, NOW + DAY), came


@pytest.mark.requirement("E1")
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([QueueOrder.PRIORITY, QueueOrder.STRICT_PRIORITY]), st.integers(0, 3),
    st.lists(asked, min_size=2, max_size=5), st.integers(0, 5),
)  # fmt: skip
def test_the_oldest_starts_within_the_longest_run_after_it_is_due(
    order: QueueOrder, hours: int, streams: list[tuple[str, int]], seed: int
) -> None:
    bound = hours * HOUR
    future, came = lived(Policy(1, order=order), FLAT, bound, streams, seed)
    on_time(future, came, bound, lambda _queue: 1)


def on_time(future: Foreseen, came: dict[int, Came], bound: int, phases: Callable[[str], int]) -> None:
    """Each starts within so many of the longest runs, by queue, after it is due and all before it have
    started."""
    older = 0  # when all that came before had started
    for workload, (at, queue) in sorted(came.items(), key=lambda each: (each[1][0], each[0])):
        if older > NOW + DAY:
            break
        due = max(at + bound // 2, older)
        last = due + phases(queue) * LONGEST
        began = future.first.get(workload, NOW + DAY if last >= NOW + DAY else 2**62)
        assert began <= last
        older = max(older, began)


#: Queues at unlike depths; what there is, is owned by the root, so that all of it is borrowed.
PARENTS = {"a": "left", "b": "left", "c": "right", "d": "top", "left": "top", "right": "top"}
TREE = QuotaTree(
    {
        "top": TreeNode(QUEUE_TREE, "top", "cohort", None),
        **{
            name: TreeNode(QUEUE_TREE, name, "queue" if len(name) == 1 else "cohort", parent)
            for name, parent in PARENTS.items()
        },
    },
    nominal("top", "gpu", NODES * DEVICES * 1000),
)
LEVELS = 2
weights = st.fixed_dictionaries({name: st.sampled_from([1, 500, 1000, 4000]) for name in PARENTS})


@pytest.mark.requirement("E12")
@settings(max_examples=15, deadline=None)
@given(
    weights, st.integers(0, 3), st.sampled_from([0, DAY]),
    st.lists(st.tuples(st.sampled_from("aabbcd"), st.integers(1, NODES * DEVICES)), min_size=2, max_size=6),
    st.integers(0, 5),
)  # fmt: skip
def test_by_fair_share_it_takes_one_longest_run_more_for_each_level(
    weight: dict[str, int], hours: int, half_life: int, streams: list[tuple[str, int]], seed: int
) -> None:
    queues = {name: QueueRules(weight=each) for name, each in weight.items()}
    fairness = Fairness(half_life, 5 * MINUTE)
    policy = Policy(1, order=QueueOrder.FAIR_SHARE, queues=queues, fairness=fairness)
    future, came = lived(policy, TREE, hours * HOUR, streams, seed)
    event(f"{len(future.first) // 25 * 25} started")
    on_time(future, came, hours * HOUR, lambda _queue: LEVELS + 1)


def tree_of(parents: list[int]) -> tuple[QuotaTree, int]:
    """Node n + 1 hangs below node parents[n]; what there is, is owned by the root. With its depth."""
    above = {f"n{number}": f"n{parent}" for number, parent in enumerate(parents, start=1)}
    inner, depth = set(above.values()), {"n0": 0}
    for name, parent in above.items():
        depth[name] = depth[parent] + 1
    nodes = {
        name: TreeNode(QUEUE_TREE, name, "cohort" if name in inner else "queue", above.get(name))
        for name in depth
    }
    return QuotaTree(nodes, nominal("n0", "gpu", NODES * DEVICES * 1000)), max(depth.values())


def competes(tree: QuotaTree, queue: str, asked_in: set[str]) -> int:
    """On how many levels of the tree some of these queues are on another side than this one."""
    own = tree.path(queue)
    forks = {next(node for node in tree.path(other) if node in own) for other in asked_in - {queue}}
    return len(forks)


@st.composite
def parents_of(draw: st.DrawFn) -> list[int]:
    """Trees of one to four levels below the root, of up to ten nodes."""
    most = draw(st.integers(1, 4))
    parents = list(range(most))  # one branch as deep as it gets
    depth = list(range(most + 1))
    for number in range(most, draw(st.integers(most + 1, 9))):
        upper = [at for at in range(number + 1) if depth[at] < most]
        parents.append(draw(st.sampled_from(upper)))
        depth.append(depth[parents[-1]] + 1)
    return parents


@pytest.mark.requirement("E12")
@settings(max_examples=15, deadline=None)
@given(
    parents_of(), st.lists(st.sampled_from([1, 500, 1000, 4000]), min_size=10, max_size=10),
    st.integers(0, 3), st.sampled_from([0, DAY]),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, NODES * DEVICES)), min_size=2, max_size=6),
    st.integers(0, 5),
)  # fmt: skip
def test_by_fair_share_that_is_so_in_every_tree(
    parents: list[int], weight: list[int], hours: int, half_life: int, asks: list[tuple[int, int]], seed: int
) -> None:
    tree, depth = tree_of(parents)
    leaves = sorted(name for name, found in tree.nodes.items() if found.kind == "queue")
    queues = {f"n{number}": QueueRules(weight=each) for number, each in enumerate(weight)}
    policy = Policy(1, order=QueueOrder.FAIR_SHARE, queues=queues, fairness=Fairness(half_life, 5 * MINUTE))
    streams = [(leaves[number % len(leaves)], size) for number, size in asks]
    future, came = lived(policy, tree, hours * HOUR, streams, seed)
    event(f"{depth} levels")
    asked_in = {queue for queue, _ in streams}
    on_time(future, came, hours * HOUR, lambda queue: 1 + competes(tree, queue, asked_in))


@pytest.mark.requirement("E12")
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2), st.lists(st.integers(2, 3), min_size=2, max_size=2), st.integers(0, 5))
def test_what_is_short_of_cores_collects_these_too(hours: int, cores: list[int], seed: int) -> None:
    """Small work without devices comes again and again to the cores beside a device that nobody wants."""
    bound = hours * HOUR
    small = [shape(f"c{number}", request(cpu=each * 1000)) for number, each in enumerate(cores)]
    wide = shape("wide", request(gpu=1000, cpu=8000))
    arrivals = [Arrival(NOW + STEP, wide, item(1, NOW + STEP))]
    for number, at in enumerate(range(NOW, NOW + 4 * HOUR, STEP), start=2):
        for turn, of in enumerate(small):
            arrivals.append(Arrival(at, of, item(number * 10 + turn, at)))
    lengths = (LONGEST, STEP, 2 * STEP)
    expected = Expected(
        {}, lambda of, each: HOUR if of is wide else lengths[(each.workload_id + seed) % 3],
        arrivals=tuple(arrivals),
    )  # fmt: skip
    rules = QueueRules(starvation_bound=bound, reservations=0)
    world = snapshot([node(1, gpus=1, cpu=8000)])
    future = Forward(world, Policy(1, defaults=rules), NOW, expected).run(100_000, NOW + 4 * HOUR)
    assert future.first[1] <= NOW + STEP + bound // 2 + LONGEST
