"""Running gangs get members on what nobody waits for, and put nobody back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.workloads import Shape, Topology
from steelyard.scheduling import ChangeLimit, Decisions, Snapshot, decide
from steelyard.scheduling.bundles import may_grow
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    request,
    running,
    shape,
    snapshot,
    started,
)

ONE = request(gpu=1000)


def gang(count: int = 4, least: int = 1, **more: Any) -> Shape:
    """One role whose program takes new members."""
    made = shape(more.pop("key", "gang"), more.pop("asked", ONE), count=count)
    return replace(made, least=(least,), grows=("role0",), **more)


def small(count: int, of: Shape | None = None, gpus: int = 4, beside: int = 0, **fields: Any) -> Snapshot:
    """A gang that started with so many members, for others held the rest and have ended since; `beside` such
    others still run."""
    of = of or gang()
    base = snapshot([node(1, gpus=gpus)], **fields)
    held = gpus - count
    others = [item(number) for number in range(2, 2 + held)]
    base = started(base, group(shape("other", ONE), *others)) if others else base
    base = started(base, group(of, item(1)))
    base = ended(base, *(one.attempt_id for one in others[beside:]))
    return runs(base, of)


def runs(base: Snapshot, of: Shape) -> Snapshot:
    """The gang may get members now."""
    view = base.running[1]
    grows = of if may_grow(of, view.members) else None
    running = {**base.running, 1: replace(view, grows=grows)}
    return replace(base, running=running, growing=frozenset((1,)))


def cycle(base: Snapshot, by: Any = POLICY) -> Decisions:
    decisions = decide(base, by, NOW)
    check_answer(base, decisions)
    return decisions


def joined(decisions: Decisions) -> list[int]:
    """Indexes of the members that join."""
    return [member.index for growth in decisions.growths for member in growth.members]


@pytest.mark.requirement("C9")
def test_what_became_free_goes_to_a_gang_that_runs_with_fewer() -> None:
    base = small(2)
    decisions = cycle(base)
    assert joined(decisions) == [2, 3]
    after = base.apply(decisions)
    assert [member.index for member in after.running[1].members] == [0, 1, 2, 3]
    assert sum(bool(number) for number in after.running[1].ids) == 3
    assert decisions.changes_state


def test_one_that_does_not_take_members_gets_none() -> None:
    assert joined(cycle(small(2, replace(gang(), grows=())))) == []


def test_whoever_waits_for_such_devices_keeps_them_free() -> None:
    waits = group(shape("wide", request(gpu=4000)), item(90))
    base = replace(small(2, beside=1), pending=(waits,))
    decisions = cycle(base)
    assert (placed(decisions), joined(decisions)) == ([], [])


def test_whoever_waits_elsewhere_keeps_nothing_free() -> None:
    base = small(2)
    other = snapshot([node(2, gpus=1, flavor="h100", cluster="c2")])
    both = replace(
        base, nodes={**base.nodes, **other.nodes}, flavors={**base.flavors, **other.flavors},
        clusters={**base.clusters, **other.clusters},
    )  # fmt: skip
    waits = group(shape("wide", request(gpu=2000, flavors=("h100",))), item(90))
    assert joined(cycle(replace(both, pending=(waits,)))) == [2, 3]


def test_who_is_in_a_pause_waits_too() -> None:
    waits = group(shape("later", ONE), item(90, not_before=NOW + 1_000_000))
    assert joined(cycle(replace(small(2), pending=(waits,)))) == []


def test_what_starts_in_the_same_cycle_goes_first() -> None:
    base = replace(small(2), pending=(group(shape("new", ONE), item(90)),))
    decisions = cycle(base)
    assert (placed(decisions), joined(decisions)) == ([90], [2])


def test_a_member_that_was_taken_does_not_come_back_at_the_cost_of_whom_it_left_for() -> None:
    of = gang()
    base = small(4, of)
    high = shape("high", ONE, priority=10)
    first = decide(replace(base, pending=(group(high, item(90)),)), POLICY, NOW)
    assert [len(one.members) for one in first.evictions] == [1]
    after = replace(base, pending=(group(high, item(90)),)).apply(first)
    part = next(key for key, run in after.running.items() if run.stopping)
    freed = runs(ended(after, part), of)
    second = decide(freed, POLICY, NOW + 1)
    assert (placed(second), joined(second)) == ([90], [])
    done = runs(ended(freed.apply(second), 90), of)
    assert joined(decide(done, policy(growth_window=2), NOW + 2)) == [3]


def test_a_gang_that_gave_up_members_gets_none_until_the_window_is_over() -> None:
    base, rule = running(small(2), 1, shrunk_at=NOW - 1), policy(growth_window=1000)
    soon = cycle(base, rule)
    assert (joined(soon), soon.stats.next_at) == ([], NOW + 999)
    assert joined(decide(base, rule, NOW + 998)) == []
    assert joined(decide(base, rule, NOW + 999)) == [2, 3]


def test_that_one_rests_keeps_nothing_from_another() -> None:
    base = small(2, gang(2), gpus=6)
    rests = replace(base.running[1], attempt_id=5, workload_id=5, members=(), charges=(), ids=(), priority=9)
    wide = gang(4)
    both = replace(
        runs(base, wide), growing=frozenset((1, 5)),
        running={**runs(base, wide).running, 5: replace(rests, grows=wide, shrunk_at=NOW - 1)},
    )  # fmt: skip
    assert [(one.attempt_id, len(one.members)) for one in decide(both, POLICY, NOW).growths] == [(1, 2)]


@pytest.mark.requirement("C9")
@settings(max_examples=40, deadline=None)
@given(
    window=st.integers(0, 50),
    events=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3)), min_size=4, max_size=25),
)
def test_after_members_left_none_join_for_a_window_and_then_all_do(
    window: int, events: list[tuple[int, int]]
) -> None:
    """Work of a higher priority comes and goes, as fast as it likes; 0: what is there of it ends."""
    of, rule, at = gang(), policy(growth_window=window), NOW
    base, left, number = small(4, of), None, 100
    for later, comes in (*events, (1, 0), (window, 0)):
        at, number = at + later, number + 10
        if comes:
            there = len(base.running) - 1 + len(base.holds)  # so that one member can always go on
            came = [item(number + each) for each in range(min(comes, 3 - there))]
            base = replace(base, pending=(group(shape("high", ONE, priority=10), *came),) if came else ())
        else:
            base = replace(ended(base, *(key for key in base.running if key >= 100)), pending=())
        decisions = decide(runs(base, of), rule, at)
        if decisions.growths:
            assert left is None or at - left >= window
        left = at if decisions.evictions else left
        base = runs(base, of).apply(decisions)
        base = ended(base, *(key for key, run in base.running.items() if run.stopping))
    assert len(base.running[1].members) == 4


def test_quota_bounds_it_and_where_others_wait_for_the_same_quota_it_stays_as_it_is() -> None:
    (limit,) = nominal("q", "gpu", 3000, borrowing=0).values()
    tree = queue_tree(nominal("q", "gpu", 4000), ("q", "r"))
    base = small(2, queues=tree).with_(ChangeLimit(limit))
    assert joined(cycle(base)) == [2]
    waits = shape("elsewhere", request(gpu=4000, flavors=("none",)))
    assert joined(cycle(replace(base, pending=(group(waits, item(90)),)))) == []


def test_it_stays_in_the_domain_of_those_that_it_has() -> None:
    of = gang(topology=Topology(required="rack"))
    nodes = [node(n, gpus=2, labels={"rack": rack}) for n, rack in ((1, "a"), (2, "b"), (3, "a"))]
    base = started(snapshot(nodes), group(shape("other", request(gpu=2000)), item(7), item(8)))
    base = started(base, group(of, item(1)))
    home = {member.node_id for member in base.running[1].members}
    base = runs(ended(base, 7, 8), of)
    decisions = cycle(base)
    racks = {base.nodes[m.node_id].labels["rack"] for growth in decisions.growths for m in growth.members}
    assert racks <= {base.nodes[number].labels["rack"] for number in home}
    assert len(racks) <= 1


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 6), least=st.integers(1, 3), there=st.integers(1, 6), free=st.integers(0, 6),
    waits=st.integers(0, 3), asked=st.integers(1, 8),
)  # fmt: skip
def test_it_grows_as_far_as_is_free_and_never_while_somebody_waits(
    count: int, least: int, there: int, free: int, waits: int, asked: int
) -> None:
    of = gang(count, min(least, count))
    there = max(min(there, count), min(least, count))
    base = small(there, of, gpus=there + free)
    pending = (group(shape("wide", request(gpu=asked * 1000)), *(item(90 + n) for n in range(waits))),)
    decisions = cycle(replace(base, pending=pending if waits else ()))
    here = len(base.running[1].members)
    left = there + free - here - asked * len(placed(decisions))
    if len(placed(decisions)) < waits:
        assert not joined(decisions)
    else:
        assert len(joined(decisions)) == min(left, count - here)
