"""Taking back what others borrowed: from whom, by which rule, and that nobody goes round in circles."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    QUEUE_TREE,
    Limit,
    Policy,
    PreemptionRule,
    QueueOrder,
    QueueRules,
    Reclaim,
    TreeNode,
)
from steelyard.model.workloads import Shape
from steelyard.scheduling import Decisions, QuotaTree, ShapeGroup, Snapshot, decide
from steelyard.scheduling.decisions import BORROWING, FAIR_SHARE, RECLAIM, WITHIN_QUEUE
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    policy,
    queue_tree,
    request,
    running,
    shape,
    snapshot,
    started,
)

SECOND = 1_000_000
HOUR = 3600 * SECOND
A = shape("a", request(gpu=1000), queue="a")
B = shape("b", request(gpu=1000), queue="b")
QUEUES = ("a", "b", "c")
SIZES = st.sampled_from([1000, 2000, 4000])


def rule(**changes: object) -> Policy:
    """The default policy with this preemption rule for all queues."""
    return policy(preemption=PreemptionRule(**changes))  # type: ignore[arg-type]


def borrowed(gpus: int = 4, used: int = 4, own: int = 2, queues: tuple[str, ...] = ("a", "b")) -> Snapshot:
    """`a` and `b` own `own` devices each, of which `b` has `used`, attempts numbered from 1."""
    limits = {key: limit for name in queues for key, limit in nominal(name, "gpu", own * 1000).items()}
    base = snapshot([node(1, gpus=gpus)], queues=queue_tree(limits, queues))
    return started(base, group(B, *(item(n) for n in range(1, used + 1))))


def arrives(base: Snapshot, *groups: ShapeGroup, under: Policy | None = None, at: int = NOW) -> Decisions:
    """What the next cycle decides of what comes now; the answer is checked."""
    base = replace(base, pending=groups)
    decisions = decide(base, under or policy(), at)
    check_answer(base, decisions)
    return decisions


def victims(decisions: Decisions) -> list[int]:
    return [eviction.attempt_id for eviction in decisions.evictions]


# --- whose and by which rule --------------------------------------------------------------------------
@pytest.mark.requirement("E7", "E8")
def test_what_another_queue_borrowed_is_taken_back_whoever_came_first() -> None:
    decisions = arrives(borrowed(), group(A, item(50), item(51), item(52)))
    assert [(e.rule, e.queue, e.preemptor_queue) for e in decisions.evictions] == [(RECLAIM, "b", "a")] * 2
    assert [hold.attempt_id for hold in decisions.holds] == [50, 51]  # the third would borrow


@pytest.mark.parametrize(
    ("reclaim", "priority", "evicted"),
    [("Any", 0, 1), ("LowerPriority", 0, 0), ("LowerPriority", 1, 1), ("Never", 9, 0)],
)
def test_a_queue_takes_back_from_whom_it_says(reclaim: str, priority: int, evicted: int) -> None:
    decisions = arrives(
        borrowed(), group(replace(A, priority=priority), item(50)), under=rule(reclaim=Reclaim(reclaim))
    )
    assert len(decisions.evictions) == evicted


def test_a_queue_within_its_own_quota_loses_nothing() -> None:
    base = borrowed(gpus=3, used=2)
    base = started(base, group(replace(A, key="c", queue="a"), item(9)), at=NOW - SECOND)
    assert arrives(base, group(A, item(50))).evictions == ()


def test_a_queue_loses_no_more_than_it_borrowed() -> None:
    """The pair would have to go whole, and would find itself within nominal: its queue borrowed one only."""
    limits = {**nominal("a", "gpu", 1000), **nominal("b", "gpu", 2000)}
    base = snapshot([node(1, gpus=3)], queues=queue_tree(limits, ("a", "b")))
    base = started(base, group(B, item(1)))
    base = started(base, group(shape("pair", request(gpu=2000), queue="b"), item(2)), at=NOW - SECOND)
    assert victims(arrives(base, group(A, item(50)))) == [1]


def test_who_borrowed_processors_loses_no_devices() -> None:
    """A queue is judged on what is short, not on whatever it has above its quota."""
    limits = {
        **nominal("a", "gpu", 1000), **nominal("b", "gpu", 2000), **nominal("a", "cpu", 8000),
        **nominal("b", "cpu", 2000),
    }
    base = snapshot([node(1, gpus=3), node(2, gpus=1)], queues=queue_tree(limits, ("a", "b", "c")))
    greedy = shape("greedy", request(gpu=1000, cpu=3000), queue="b")
    base = started(base, group(greedy, item(1), item(2)))
    base = started(base, group(shape("own", request(gpu=1000), queue="c"), item(3)), at=NOW - SECOND)
    decisions = arrives(base, group(shape("wide", request(gpu=2000), queue="a"), item(50)))
    assert decisions.evictions == ()
    short = shape("short", request(cpu=5000), queue="a")
    assert [e.queue for e in arrives(base, group(short, item(51))).evictions] == ["b"]


def test_who_borrowed_processors_keeps_its_devices_also_where_both_are_short() -> None:
    """`c` has the device that is missing, and can't be stopped; `b` has only what it owns, but for CPU."""
    limits = {
        **nominal("a", "gpu", 2000), **nominal("b", "gpu", 2000), **nominal("c", "gpu", 0),
        **nominal("a", "cpu", 4000), **nominal("b", "cpu", 2000),
    }
    base = snapshot([node(1, gpus=4)], queues=queue_tree(limits, QUEUES))
    base = started(base, group(shape("b", request(gpu=1000, cpu=2000), queue="b"), item(1), item(2)))
    base = started(base, group(shape("c", request(gpu=1000), queue="c"), item(3), item(4)), at=NOW - SECOND)
    base = running(running(base, 3, preemptible=False), 4, preemptible=False)
    wants = group(shape("a", request(gpu=1000, cpu=4000), queue="a"), item(50))
    assert arrives(base, wants).evictions == ()
    base = running(base, 4, preemptible=True)
    assert victims(arrives(base, group(A, item(51)))) == [4]


def test_who_would_borrow_takes_only_from_priorities_below_the_bound() -> None:
    base = borrowed(used=4, own=1, queues=("a", "b", "c", "d"))
    for attempt, priority in ((1, 3), (2, 8), (3, 8), (4, 8)):
        base = running(base, attempt, priority=priority)
    wide = group(shape("wide", request(gpu=2000), queue="a", priority=9), item(50))
    assert arrives(base, wide).evictions == ()
    assert arrives(base, wide, under=rule(borrow_below=9)).evictions != ()
    assert {e.rule for e in arrives(base, wide, under=rule(borrow_below=9)).evictions} == {BORROWING}
    assert arrives(base, wide, under=rule(borrow_below=4)).evictions == ()


def test_who_would_borrow_takes_nothing_that_another_queue_owns() -> None:
    """`b` has borrowed one device with its pair; without the pair it would have less than it owns."""
    limits = {key: limit for name in "abc" for key, limit in nominal(name, "gpu", 1000).items()}
    base = snapshot([node(1, gpus=3)], queues=queue_tree(limits, QUEUES))
    base = started(base, group(shape("pair", request(gpu=2000), queue="b"), item(1)))
    base = started(base, group(replace(A, key="own"), item(2)), at=NOW - SECOND)
    wide = group(replace(A, priority=9), item(50))
    base = running(base, 2, priority=9)
    assert arrives(base, wide, under=rule(borrow_below=9)).evictions == ()


def deep() -> QuotaTree:
    """Two cohorts with two queues each below one root."""
    parents = {"all": None, "left": "all", "right": "all"}
    parents |= {"a": "left", "c": "left", "b": "right", "d": "right"}
    nodes = {
        name: TreeNode(QUEUE_TREE, name, "queue" if len(name) == 1 else "cohort", parent)
        for name, parent in parents.items()
    }
    limits = {key: limit for name in "abcd" for key, limit in nominal(name, "gpu", 1000).items()}
    return QuotaTree(nodes, limits)


def test_a_cohort_within_its_quota_shields_a_queue_that_borrowed_from_its_sister() -> None:
    base = started(snapshot([node(1, gpus=4)], queues=deep()), group(B, item(1), item(2)))
    base = started(base, group(replace(A, key="c", queue="c"), item(3), item(4)), at=NOW - SECOND)
    decisions = arrives(base, group(A, item(50)))
    assert [e.queue for e in decisions.evictions] == ["c"]


def test_what_a_whole_side_owns_is_taken_back_though_the_queue_borrows_from_its_sister() -> None:
    base = started(snapshot([node(1, gpus=4)], queues=deep()), group(B, *(item(n) for n in range(1, 5))))
    wide = group(shape("wide", request(gpu=2000), queue="a"), item(50))
    decisions = arrives(base, wide)
    assert [(e.rule, e.queue) for e in decisions.evictions] == [(RECLAIM, "b")] * 2


def test_the_minimum_run_time_is_that_of_the_victims_side_of_the_common_ancestor() -> None:
    base = started(snapshot([node(1, gpus=4)], queues=deep()), group(B, *(item(n) for n in range(1, 5))))
    base = replace(base, running={k: replace(r, placed_at=NOW - 5) for k, r in base.running.items()})

    def ruled(name: str, runtime: int) -> Policy:
        return policy(queues={name: QueueRules(preemption=PreemptionRule(min_runtime=runtime))})

    waits = group(A, item(50))
    assert arrives(base, waits, under=ruled("b", 6)).evictions != ()  # inside the side, for its own queues
    assert arrives(base, waits, under=ruled("right", 6)).evictions == ()
    assert arrives(base, waits, under=ruled("all", 6)).evictions == ()
    assert arrives(base, waits, under=ruled("right", 5)).evictions != ()


def test_a_delay_runs_from_the_last_eviction_and_says_when_it_ends() -> None:
    waits = group(A, item(50, submitted=5, eligible_at=NOW - 4))
    early = arrives(borrowed(), waits, under=rule(delay=10))
    assert (early.evictions, early.stats.next_at) == ((), NOW + 6)
    assert arrives(borrowed(), waits, under=rule(delay=4)).evictions != ()


def test_evictions_count_against_the_budget_of_the_queue_that_they_are_made_for() -> None:
    rules = {"a": QueueRules(preemption=PreemptionRule(per_hour=2))}
    base = replace(borrowed(), evicted={"a": (NOW - HOUR, NOW - HOUR + 9), "b": (NOW, NOW, NOW)})
    decisions = arrives(base, group(A, item(50), item(51)), under=policy(queues=rules))
    assert len(decisions.evictions) == 1
    spent = replace(base, evicted={"a": (NOW - 5, NOW - HOUR + 9)})
    decisions = arrives(spent, group(A, item(50)), under=policy(queues=rules))
    assert (decisions.evictions, decisions.stats.next_at) == ((), NOW + 9)


def test_what_others_borrowed_goes_before_the_queues_own_lower_priorities() -> None:
    base = started(borrowed(used=3), group(A, item(9)), at=NOW - SECOND)
    decisions = arrives(base, group(replace(A, key="high", priority=5), item(50)))
    assert [(e.rule, e.attempt_id) for e in decisions.evictions] == [(RECLAIM, 3)]


def test_a_queue_full_of_its_own_makes_room_itself() -> None:
    base = started(borrowed(used=2), group(A, item(8), item(9)), at=NOW - SECOND)
    decisions = arrives(base, group(replace(A, key="high", priority=5), item(50)))
    assert [e.rule for e in decisions.evictions] == [WITHIN_QUEUE]


def test_evicted_and_requested_are_counted() -> None:
    stats = arrives(borrowed(), group(A, item(50), item(51))).stats
    assert (stats.evicted, stats.requested) == (2000, 2000)


# --- fair share ------------------------------------------------------------------------------------------
FAIR = policy(order=QueueOrder.FAIR_SHARE)


def test_a_borrower_with_the_larger_share_gives_way_until_shares_are_even() -> None:
    base = borrowed(gpus=6, used=6, own=1, queues=("a", "b", "c", "d", "e", "f"))
    decisions = arrives(base, group(A, *(item(n) for n in range(50, 56))), under=FAIR)
    assert sorted(e.rule for e in decisions.evictions) == [FAIR_SHARE, FAIR_SHARE, RECLAIM]
    shares = next(e.shares for e in decisions.evictions if e.rule == FAIR_SHARE)
    assert shares is not None
    assert (shares.side, shares.victim_side) == ("a", "b")
    assert shares.preemptor <= shares.without
    assert shares.preemptor < shares.with_it


def test_a_larger_weight_may_have_more() -> None:
    base = borrowed(gpus=6, used=6, own=1, queues=("a", "b", "c", "d", "e", "f"))
    waits = group(A, *(item(n) for n in range(50, 56)))
    heavy = replace(FAIR, queues={"a": QueueRules(weight=4000)})
    assert len(arrives(base, waits, under=heavy).evictions) > 3


# --- no circles --------------------------------------------------------------------------------------------
@st.composite
def loads(draw: st.DrawFn) -> tuple[Snapshot, Policy]:
    """More than fits, from three queues, under any rules."""
    count = draw(st.integers(1, 3))
    nodes = [node(n, gpus=draw(st.sampled_from([2, 4])), cpu=8000) for n in range(1, count + 1)]
    limits: dict[tuple[str, str], Limit] = {}
    for name in QUEUES:
        bounds = (draw(st.sampled_from([None, None, 2000])), draw(st.sampled_from([None, None, 1000])))
        limits |= nominal(name, "gpu", draw(st.sampled_from([0, 1000, 2000, 4000])), *bounds)
        if draw(st.booleans()):
            limits |= nominal(name, "cpu", draw(st.sampled_from([0, 2000, 6000])))
    tree = queue_tree(limits, QUEUES)
    if draw(st.booleans()):
        nodes_of = {**tree.nodes, "inner": TreeNode(QUEUE_TREE, "inner", "cohort", "cohort")}
        nodes_of |= {name: replace(tree.nodes[name], parent="inner") for name in QUEUES[:2]}
        tree = QuotaTree(nodes_of, limits)
    number = iter(range(1, 1000))
    groups = [
        group(
            shape(
                f"s{index}",
                request(gpu=draw(SIZES), cpu=draw(st.sampled_from([500, 2000]))),
                count=draw(st.sampled_from([1, 1, 2])), queue=draw(st.sampled_from(QUEUES)),
                priority=draw(st.integers(0, 2)),
            ),
            *(item(next(number), draw(st.integers(0, 50))) for _ in range(draw(st.integers(1, 4)))),
        )
        for index in range(draw(st.integers(2, 7)))
    ]
    preemption = PreemptionRule(
        reclaim=draw(st.sampled_from(list(Reclaim))), borrow_below=draw(st.sampled_from([None, 1, 9])),
    )
    weights = {name: QueueRules(weight=draw(st.sampled_from([0, 1000, 1000, 3000]))) for name in QUEUES}
    under = policy(order=draw(st.sampled_from(list(QueueOrder))), preemption=preemption, queues=weights)
    return snapshot(nodes, *groups, queues=tree), under


def requeued(base: Snapshot, shapes: Mapping[str, Shape], attempts: list[int]) -> Snapshot:
    """The snapshot after these ended and wait again, with their first submit time."""
    waiting = {each.shape.key: each for each in base.pending}
    for run in [base.running[attempt] for attempt in attempts]:
        known = waiting.get(run.shape_key, ShapeGroup(shapes[run.shape_key], (), 0))
        heads = (*known.heads, item(run.attempt_id, run.workload_id % 50, eligible_at=NOW))
        waiting[run.shape_key] = replace(known, heads=heads, count=len(heads))
    return replace(ended(base, *attempts), pending=tuple(waiting.values()), last_looked={})


def frozen(
    base: Snapshot, under: Policy, chance: random.Random | None = None, running: tuple[Shape, ...] = ()
) -> list[tuple[int, int]]:
    """Cycles while nothing new comes and nothing ends but what is evicted; (evictor, evicted) of each.
    `running`: shapes of what runs already."""
    shapes = {each.shape.key: each.shape for each in base.pending} | {each.key: each for each in running}
    pairs: list[tuple[int, int]] = []
    for step in range(60):
        decisions = decide(base, under, NOW + step * SECOND)
        pairs += [(e.preemptor_attempt_id, e.attempt_id) for e in decisions.evictions]
        base = check_answer(base, decisions)
        stopping = [attempt for attempt, run in base.running.items() if run.stopping]
        if not stopping and not decisions.changes_state:
            return pairs
        if chance is not None and len(stopping) > 1:
            stopping = chance.sample(stopping, len(stopping) // 2)
        base = requeued(base, shapes, stopping)
    raise AssertionError(f"no rest: {pairs[-12:]}")


@pytest.mark.requirement("E7", "E12")
@settings(deadline=None, max_examples=60)
@given(loads(), st.randoms(use_true_random=False) | st.none())
def test_a_frozen_load_comes_to_rest_and_no_two_evict_each_other(
    load: tuple[Snapshot, Policy], chance: random.Random | None
) -> None:
    pairs = set(frozen(*load, chance))
    assert not [pair for pair in pairs if pair[::-1] in pairs]
