"""What holds for every answer, whatever the snapshot; runs of many cycles."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import PreemptionRule
from steelyard.model.workloads import Shape
from steelyard.scheduling import QuotaTree, Snapshot, decide, hard_limit
from steelyard.scheduling.decisions import Decisions
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    org_tree,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
)

SECOND = 1_000_000
NO_PREEMPTION = policy(preemption=PreemptionRule(within_queue=False))
FLAVORS = {"c1": ("a100", "npu-x"), "c2": ("b200", "npu-y")}


@st.composite
def clusters(draw: st.DrawFn):
    """Up to five nodes of four flavors in two clusters."""
    views = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        cluster = draw(st.sampled_from(["c1", "c2"]))
        views.append(node(
            number, gpus=draw(st.integers(0, 4)), cpu=draw(st.sampled_from([1000, 4000, 16_000])),
            memory=4096, cluster=cluster, flavor=draw(st.sampled_from(FLAVORS[cluster])),
            schedulable=draw(st.integers(0, 9)) > 0,
        ))
    return views


@st.composite
def requests(draw: st.DrawFn, fractions: bool):
    """What one member asks for."""
    amounts = [0, 1000, 2000, 3000] + ([250, 500, 1500] if fractions else [])
    kind = draw(st.sampled_from(["gpu", "npu", "none"]))
    asked = {kind: draw(st.sampled_from(amounts))} if kind != "none" else {}
    flavors = draw(st.sampled_from([(), (), ("b200", "a100"), ("a100",)])) if kind == "gpu" else ()
    return request(cpu=draw(st.sampled_from([100, 1000, 3000])), memory=100, flavors=flavors, **asked)


@st.composite
def shapes(draw: st.DrawFn, fractions: bool) -> list[Shape]:
    """Up to six shapes in two queues and two projects."""
    made = []
    for index in range(draw(st.integers(1, 6))):
        roles = draw(st.lists(requests(fractions), min_size=1, max_size=2))
        made.append(shape(
            f"s{index}", *roles, count=draw(st.integers(1, 3)), queue=draw(st.sampled_from(["q", "r"])),
            project=draw(st.sampled_from(["p", "o"])), priority=draw(st.integers(0, 2)),
            preemptible=draw(st.integers(0, 4)) > 0,
        ))
    return made


def trees(draw: st.DrawFn) -> dict[str, QuotaTree]:
    """Two queues in a cohort with limits of all kinds; two projects with hard limits."""
    few = st.integers(0, 6).map(lambda units: units * 1000)
    some = st.none() | few
    limits = {}
    for name in ("q", "r", "cohort"):
        for subject in ("gpu", "flavor/a100", "cpu"):
            if draw(st.integers(0, 2)) == 0:
                limits |= nominal(name, subject, draw(few), draw(some), draw(some))
    org = {
        (name, "gpu"): hard_limit(name, "gpu", draw(few))
        for name in ("p", "o", "team") if draw(st.booleans())
    }
    return {"queues": queue_tree(limits, ("q", "r")), "organisation": org_tree(org, ("p", "o"))}


@st.composite
def worlds(draw: st.DrawFn, fractions: bool = True) -> Snapshot:
    """A snapshot with waiting work only."""
    number = iter(range(1, 1000))
    groups = []
    for each in draw(shapes(fractions)):
        heads = [item(next(number), draw(st.integers(0, 5))) for _ in range(draw(st.integers(1, 3)))]
        groups.append(group(each, *heads))
    return snapshot(draw(clusters()), *groups, **trees(draw))


@st.composite
def contended(draw: st.DrawFn) -> Snapshot:
    """Nodes of one cluster that fill up soon: much of it can start, and much of it is worth evicting."""
    views = [
        node(number, gpus=4, cpu=8000, flavor=draw(st.sampled_from(["a100", "h100"])))
        for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    number, groups = iter(range(1, 1000)), []
    for index in range(draw(st.integers(3, 8))):
        each = shape(
            f"s{index}",
            request(gpu=draw(st.sampled_from([1000, 2000, 4000])), cpu=draw(st.sampled_from([500, 2000]))),
            count=draw(st.sampled_from([1, 1, 2])), queue=draw(st.sampled_from(["q", "q", "r"])),
            project=draw(st.sampled_from(["p", "o"])), priority=draw(st.integers(0, 2)),
        )
        groups.append(group(each, *(item(next(number)) for _ in range(draw(st.integers(1, 4))))))
    limits = {}
    if draw(st.booleans()):
        owned, borrowing = draw(st.sampled_from([4000, 6000])), draw(st.sampled_from([None, 0, 2000]))
        limits = nominal("q", "gpu", owned, borrowing)
        limits |= nominal("r", "gpu", 2000, None, draw(st.sampled_from([None, 0])))
    org = {("p", "gpu"): hard_limit("p", "gpu", 6000)} if draw(st.booleans()) else {}
    return snapshot(
        views, *groups, queues=queue_tree(limits, ("q", "r")), organisation=org_tree(org, ("p", "o"))
    )


@pytest.mark.requirement("J10")
@given(worlds() | contended())
def test_every_answer_keeps_the_invariants(world: Snapshot) -> None:
    check_answer(world, decide(world, POLICY, NOW))


@given(worlds() | contended())
def test_deciding_again_after_applying_places_nothing_more(world: Snapshot) -> None:
    first = decide(world, POLICY, NOW)
    again = decide(world.apply(first), POLICY, NOW)
    if not first.stats.more and not first.holds:
        assert not again.changes_state


@given(worlds() | contended(), st.randoms(use_true_random=False))
def test_the_order_of_mappings_and_groups_changes_nothing(world: Snapshot, chance: random.Random) -> None:
    first = decide(world, POLICY, NOW)
    applied = world.apply(first)
    later = NOW + SECOND
    assert decide(shuffled(world, chance), POLICY, NOW).digest_input() == first.digest_input()
    assert (
        decide(shuffled(applied, chance), POLICY, later).digest_input()
        == decide(applied, POLICY, later).digest_input()
    )


def shuffled(world: Snapshot, chance: random.Random) -> Snapshot:
    """The same snapshot with every mapping and every set-like tuple in another order."""
    def mix(mapping):
        keys = list(mapping)
        chance.shuffle(keys)
        return {key: mapping[key] for key in keys}

    groups = [
        replace(each, heads=tuple(chance.sample(each.heads, len(each.heads)))) for each in world.pending
    ]
    chance.shuffle(groups)
    nodes = {
        key: replace(
            view, totals=mix(view.totals), accelerators=mix(view.accelerators),
            slots=tuple(chance.sample(view.slots, len(view.slots))),
        )
        for key, view in mix(world.nodes).items()
    }
    usage = {name: mix(each) for name, each in mix(world.usage).items()}
    world_trees = {
        name: QuotaTree(mix(tree.nodes), mix(tree.limits)) for name, tree in mix(world.trees).items()
    }
    return replace(
        world, nodes=nodes, flavors=mix(world.flavors), clusters=mix(world.clusters), trees=world_trees,
        usage=usage, pending=tuple(groups), running=mix(world.running), holds=mix(world.holds),
    )


@settings(deadline=None, max_examples=60)
@given(contended() | worlds(fractions=False), st.data())
def test_runs_of_many_cycles_keep_the_invariants_and_lose_nobody(
    world: Snapshot, data: st.DataObject
) -> None:
    """Work arrives, runs, ends, is preempted, cancelled; nodes are cordoned and come back.

    Every attempt waits, has a hold, runs or has ended, and is never two of these.
    """
    everybody = {head.attempt_id for g in world.pending for head in g.heads}
    held_back, gone = list(world.pending), set()
    world = replace(world, pending=())
    for step in range(8):
        now = NOW + step * SECOND
        arrived = [held_back.pop() for _ in range(data.draw(st.integers(0, len(held_back))))]
        world = replace(world, pending=(*world.pending, *arrived), last_looked={})
        world, cancelled = disturbed(world, data)
        gone |= cancelled
        world = check_answer(world, decide(world, POLICY, now))
        stopping = [attempt for attempt, run in world.running.items() if run.stopping]
        others = [attempt for attempt, run in world.running.items() if not run.stopping]
        ends = data.draw(st.lists(st.sampled_from(sorted(stopping)), unique=True)) if stopping else []
        if others:
            ends += data.draw(st.lists(st.sampled_from(sorted(others)), unique=True, max_size=2))
        world, gone = ended(world, *ends), gone | set(ends)
    waiting = {head.attempt_id for g in (*world.pending, *held_back) for head in g.heads}
    parts = [waiting, set(world.holds), set(world.running), gone]
    assert set().union(*parts) == everybody
    assert sum(len(part) for part in parts) == len(everybody)


def disturbed(world: Snapshot, data: st.DataObject) -> tuple[Snapshot, set[int]]:
    """A preemptor is cancelled or a node cordoned (or taken back) now and then; who left by it."""
    cancelled = set()
    for attempt, hold in sorted(world.holds.items()):
        if data.draw(st.integers(0, 3)) == 0:
            world = replace(world, holds={**world.holds, attempt: replace(hold, alive=False)})
            cancelled.add(attempt)
    for number, view in world.nodes.items():
        if data.draw(st.integers(0, 7)) == 0:
            turned = replace(view, schedulable=not view.schedulable)
            world = replace(world, nodes={**world.nodes, number: turned})
    return world, cancelled


@settings(deadline=None, max_examples=60)
@given(contended())
def test_every_hold_is_honoured_exactly_where_it_was_planned(world: Snapshot) -> None:
    """S-18 for any snapshot: high priorities come late, their victims end one by one."""
    late = [each for each in world.pending if each.shape.priority == 2]
    first = tuple(each for each in world.pending if each.shape.priority < 2)
    world = check_answer(world, decide(replace(world, pending=first), POLICY, NOW - SECOND))
    world = replace(world, pending=tuple(late), last_looked={})
    world = check_answer(world, decide(world, POLICY, NOW))
    planned = {attempt: hold.members for attempt, hold in world.holds.items()}
    for step in range(1, len(world.running) + 1):
        stopping = sorted(attempt for attempt, run in world.running.items() if run.stopping)
        world = ended(world, *stopping[:1])
        decisions = decide(replace(world, pending=()), POLICY, NOW + step * SECOND)
        assert decisions.dropped_holds == ()
        for placement in decisions.placements:
            assert placement.from_hold
            assert placement.members == planned[placement.attempt_id]
        world = check_answer(replace(world, pending=()), decisions)
    assert world.holds == {}


@settings(deadline=None)
@given(contended())
def test_no_victim_of_a_lone_preemptor_could_have_been_spared(world: Snapshot) -> None:
    """The set of victims is minimal: with any one of them kept, the preemptor would not start."""
    late = [each for each in world.pending if each.shape.priority == 2][:1]
    first = tuple(each for each in world.pending if each.shape.priority < 2)
    world = replace(world, pending=first)
    world = world.apply(decide(world, POLICY, NOW - SECOND))
    alone = tuple(group(each.shape, each.heads[0]) for each in late)
    world = replace(world, last_looked={}, pending=alone)
    decisions = decide(world, POLICY, NOW)
    victims = {eviction.attempt_id for eviction in decisions.evictions}
    for hold in decisions.holds:
        for kept in victims:
            assert placed(decide(ended(world, *(victims - {kept})), NO_PREEMPTION, NOW)) == []
        assert placed(decide(ended(world, *victims), NO_PREEMPTION, NOW)) == [hold.attempt_id]


def test_every_waiting_workload_has_a_reason_within_one_cycle() -> None:
    """S-01, also where bounds leave shapes for a later cycle."""
    shapes_of = [shape(f"s{index}", request(gpu=1000, cpu=index + 1)) for index in range(400)]
    world = snapshot([node(1, gpus=2)], *(group(each, item(i + 1)) for i, each in enumerate(shapes_of)))
    decisions = decide(world, policy(max_placements=1), NOW)
    running = {placement.shape_key for placement in decisions.placements}
    assert set(decisions.reasons) | running == {each.key for each in shapes_of}


def test_an_empty_snapshot_gives_an_empty_answer() -> None:
    assert decide(Snapshot(), POLICY, NOW) == Decisions(NOW, 1, stats=decide(Snapshot(), POLICY, NOW).stats)
