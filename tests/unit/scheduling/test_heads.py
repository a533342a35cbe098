"""Heads that others may not pass: of a strict queue, and those that have waited half of their bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.model.policy import Policy, QueueingStrategy, QueueRules
from steelyard.model.units import HOUR, MINUTE
from steelyard.scheduling import Snapshot, decide, hard_limit
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    codes,
    group,
    item,
    node,
    nominal,
    org_tree,
    placed,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

STRICT = Policy(1, defaults=QueueRules(strategy=QueueingStrategy.STRICT_FIFO, reservations=0))
EAGER = Policy(1, defaults=QueueRules(reservations=0))
BOUND = Policy(1, defaults=QueueRules(starvation_bound=2 * HOUR, reservations=0))
NODES = [node(1, gpus=4), node(2, gpus=2, flavor="h100")]
GANG = shape("gang", request(gpu=4000, flavors=("a100",)))
SMALL = shape("small", request(gpu=1000, flavors=("a100",)))
OTHER = shape("other", request(gpu=1000, flavors=("h100",)))


def busy(*groups: object, **fields: object) -> Snapshot:
    """One of four a100 is taken; then these wait."""
    runs = shape("runs", request(gpu=1000, flavors=("a100",)))
    base = snapshot(NODES, *groups, queues=queue_tree({}, ("q", "r")), **fields)  # type: ignore[arg-type]
    return started(base, group(runs, item(90)))


def test_behind_the_head_of_a_strict_queue_nothing_starts_on_its_flavors() -> None:
    world = busy(group(GANG, item(1)), group(SMALL, item(2)), group(OTHER, item(3)))
    decisions = decide(world, STRICT, NOW)
    check_answer(world, decisions)
    assert placed(decisions) == [3]  # what could never be the head's goes on
    assert codes(decisions, "small") == ["behind-head"]
    assert "waiting-for-capacity" in codes(decisions, "gang")
    assert placed(decide(world, EAGER, NOW)) == [2, 3]


def test_another_queue_passes_the_head_of_a_strict_one() -> None:
    world = busy(group(GANG, item(1)), group(replace(SMALL, queue="r"), item(2)))
    assert placed(decide(world, STRICT, NOW)) == [2]


@pytest.mark.parametrize("never", [
    shape("never", request(gpu=5000, flavors=("a100",))),
    shape("never", request(gpu=1000, flavors=("b300",))),
])  # fmt: skip
def test_a_head_that_could_never_start_stops_nobody(never: object) -> None:
    world = busy(group(never, item(1)), group(SMALL, item(2)))  # type: ignore[arg-type]
    assert placed(decide(world, STRICT, NOW)) == [2]


def test_who_waits_for_its_time_stops_nobody() -> None:
    world = busy(group(GANG, item(1, not_before=NOW + 1)), group(SMALL, item(2)))
    assert placed(decide(world, STRICT, NOW)) == [2]


def test_what_is_due_collects_what_becomes_free() -> None:
    world = busy(group(GANG, item(1, NOW - HOUR)), group(SMALL, item(2, NOW)), group(OTHER, item(3, NOW)))
    decisions = decide(world, BOUND, NOW)
    check_answer(world, decisions)
    assert placed(decisions) == [3]
    assert codes(decisions, "small") == ["draining"]
    younger = busy(group(GANG, item(1, NOW - HOUR + MINUTE)), group(SMALL, item(2, NOW)))
    assert placed(decide(younger, BOUND, NOW)) == [2]


def test_what_is_due_goes_before_what_used_less_and_stays_behind_a_higher_band() -> None:
    higher = replace(SMALL, key="higher", priority=5)
    world = busy(group(GANG, item(1, NOW - HOUR)), group(higher, item(2, NOW)))
    assert placed(decide(world, BOUND, NOW)) == [2]


def test_another_queue_still_uses_what_it_owns() -> None:
    queues = queue_tree(nominal("q", "gpu", 4000) | nominal("r", "gpu", 1000), ("q", "r"))
    ours, owns = group(GANG, item(1, NOW - HOUR)), replace(SMALL, queue="r")
    world = replace(busy(ours, group(owns, item(2, NOW), item(3, NOW))), trees={"queue": queues})
    decisions = decide(world, BOUND, NOW)
    assert placed(decisions) == [2]  # the other one would borrow
    assert "draining" in codes(decisions, "small")


def test_what_is_due_but_over_its_organisations_limit_collects_nothing() -> None:
    others = replace(SMALL, project="o", org_path=("ns-o", "o"))
    world = busy(
        group(GANG, item(1, NOW - HOUR)), group(others, item(2, NOW)),
        organisation=org_tree({("p", "gpu"): hard_limit("p", "gpu", 4000)}, ("p", "o")),
    )  # fmt: skip
    assert placed(decide(world, BOUND, NOW)) == [2]
