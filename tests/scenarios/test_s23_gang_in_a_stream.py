"""S-23: a gang of 64 devices amid an endless stream of single ones starts within its queue's bound."""

from __future__ import annotations

import pytest

from steelyard.model.policy import (
    Policy,
    PreemptionRule,
    QueueingStrategy,
    QueueOrder,
    QueueRules,
    Reclaim,
)
from steelyard.model.units import HOUR, MINUTE
from steelyard.scheduling import QuotaTree, decide
from steelyard.scheduling.forward import Arrival, Expected, Foreseen, Forward
from tests.unit.scheduling.build import (
    NOW,
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
from tests.unit.scheduling.build import started as running

BOUND, LENGTH, STEP, CAME = 4 * HOUR, 30 * MINUTE, 10 * MINUTE, HOUR
NOBODY_IS_STOPPED = PreemptionRule(within_queue=False, reclaim=Reclaim.NEVER)
GANG = 10_000
NODES = [node(number, gpus=8) for number in range(1, 9)]


def lived(policy: Policy, queues: QuotaTree, streams: tuple[str, ...]) -> Foreseen:
    """Eight hours in which more single devices are asked for than there are; a gang comes after one."""
    one = [shape(f"one-{queue}", request(gpu=1000), queue=queue) for queue in streams]
    number, arrivals = iter(range(1, GANG)), []
    for at in range(0, 8 * HOUR, STEP):
        for each in one:
            for _ in range(-(-24 // len(one))):
                arrivals.append(Arrival(NOW + at, each, item(next(number), NOW + at)))
    gang = shape("gang", request(gpu=1000), count=64)
    arrivals.append(Arrival(NOW + CAME, gang, item(GANG, NOW + CAME)))
    world = snapshot(NODES, queues=queues)
    expected = Expected({}, lambda _shape, _item: LENGTH, arrivals=tuple(arrivals))
    return Forward(world, policy, NOW, expected).run(10_000, NOW + 8 * HOUR)


def lost(future: Foreseen, until: int) -> float:
    """The part of all devices that nobody used from when the gang came until it started."""
    used = sum(
        max(0, min(at + LENGTH, until) - max(at, NOW + CAME))
        for workload, at in future.first.items()
        if workload != GANG
    )
    return 1 - used / (64 * (until - NOW - CAME))


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("order", list(QueueOrder))
@pytest.mark.parametrize("streams", [("q",), ("r",), ("q", "r", "s")])
def test_it_starts_within_the_bound_and_little_is_lost(order: QueueOrder, streams: tuple[str, ...]) -> None:
    rules = QueueRules(starvation_bound=BOUND, reservations=0, preemption=NOBODY_IS_STOPPED)
    policy = Policy(1, order=order, defaults=rules)
    queues = queue_tree(nominal("cohort", "gpu", 64_000), ("q", "r", "s"))
    future = lived(policy, queues, streams)
    began = future.first[GANG]
    assert began <= NOW + CAME + BOUND // 2 + LENGTH
    assert lost(future, began) < 0.2
    assert not future.evictions


def test_without_a_bound_it_would_wait_for_ever() -> None:
    policy = Policy(1, defaults=QueueRules(starvation_bound=1000 * HOUR, reservations=0))
    assert GANG not in lived(policy, queue_tree({}, ("q",)), ("q",)).first


def test_a_strict_queue_lets_nothing_pass_but_on_other_flavors() -> None:
    strict = QueueRules(strategy=QueueingStrategy.STRICT_FIFO, reservations=0)
    nodes = [*NODES, node(9, gpus=2, flavor="h100")]
    runs = shape("runs", request(gpu=1000, flavors=("a100",)))
    gang = shape("gang", request(gpu=1000, flavors=("a100",)), count=64)
    small = shape("small", request(gpu=1000, flavors=("a100",)))
    other = shape("other", request(gpu=1000, flavors=("h100",)))
    world = snapshot(nodes, group(gang, item(1)), group(small, item(2)), group(other, item(3)))
    world = running(world, group(runs, item(9)))
    assert placed(decide(world, Policy(1, defaults=strict), NOW)) == [3]
