"""Limits lowered below what is used: who leaves, when, in which order, and who never does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    ORG_TREE,
    QUEUE_TREE,
    Limit,
    OnLowered,
    Policy,
    PreemptionRule,
    QueueRules,
    TreeNode,
)
from steelyard.model.units import HOUR, SECOND
from steelyard.scheduling import Charge, Decisions, QuotaTree, Snapshot, decide, hard_limit
from steelyard.scheduling.changes import with_trees
from steelyard.scheduling.decisions import LOWERED
from steelyard.scheduling.lowered import Passed, foreseen
from steelyard.scheduling.what_if import run_course
from tests.unit.scheduling.build import (
    NOW,
    Limits,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    org_tree,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

GPU = "gpu"
DRAIN, RECLAIM, STOP_NEW = OnLowered.DRAIN, OnLowered.RECLAIM, OnLowered.STOP_NEW


def owned(name: str, quantity: int, effect: OnLowered | None, **changes: int) -> Limits:
    """A queue's limit on GPUs, nothing to be borrowed unless it is said."""
    given_changes = {"borrowing_limit": 0, **changes}
    return {(name, GPU): Limit(QUEUE_TREE, name, GPU, quantity * 1000, on_lowered=effect, **given_changes)}


def one_queue(limits: Limits) -> QuotaTree:
    """A queue by itself."""
    return QuotaTree({"q": TreeNode(QUEUE_TREE, "q", "queue", None)}, limits)


def cut(base: Snapshot, tree: QuotaTree, name: str = QUEUE_TREE) -> Snapshot:
    """The snapshot under another tree."""
    return with_trees(base, {**base.trees, name: tree})


def runs(*jobs: tuple[int, int], limits: Limits | None = None) -> Snapshot:
    """A queue of its own with (priority, GPUs) started one second after the other."""
    base = snapshot([node(n, gpus=8) for n in range(1, 5)], queues=one_queue(limits or owned("q", 32, None)))
    for number, (priority, gpus) in enumerate(jobs, start=1):
        job = shape(f"p{priority}g{gpus}", request(gpu=gpus * 1000), priority=priority)
        base = started(base, group(job, item(number)), at=NOW - 10**9 + number * SECOND)
    assert len(base.running) == len(jobs)
    return base


def stops(base: Snapshot, by: Policy | None = None, now: int = NOW) -> list[int]:
    """Whom the next cycle asks to stop."""
    decisions = decide(base, by or policy(), now)
    check_answer(base, decisions)
    assert all(made.rule == LOWERED for made in decisions.evictions)
    return [made.attempt_id for made in decisions.evictions]


# --- the effects -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("effect", [None, STOP_NEW])
def test_what_runs_goes_on_where_only_new_work_stops(effect: OnLowered | None) -> None:
    base = cut(runs((0, 4), (0, 4)), one_queue(owned("q", 4, effect)))
    base = replace(base, pending=(group(shape("new", request(gpu=1000)), item(9)),))
    decisions = decide(base, policy(), NOW)
    assert not decisions.evictions
    assert not decisions.placements
    (passed,) = foreseen(base, policy(), NOW)
    assert (passed.effect, passed.over, passed.stays, passed.leaving) == (STOP_NEW, 4000, 4000, ())


def test_reclaim_stops_as_much_as_is_above_the_lowest_priority_and_the_newest_first() -> None:
    base = runs((1, 2), (0, 2), (0, 2), (1, 2))
    assert stops(cut(base, one_queue(owned("q", 6, RECLAIM)))) == [3]
    assert stops(cut(base, one_queue(owned("q", 4, RECLAIM)))) == [2, 3]
    assert stops(cut(base, one_queue(owned("q", 2, RECLAIM)))) == [2, 3, 4]


def test_no_large_gang_leaves_for_little_where_a_small_one_does() -> None:
    base = runs((0, 1), (0, 8))
    assert stops(cut(base, one_queue(owned("q", 8, RECLAIM)))) == [1]
    assert stops(cut(base, one_queue(owned("q", 7, RECLAIM)))) == [2], "and whoever may then stay, stays"


def test_who_stops_already_counts_as_gone() -> None:
    base = cut(runs((0, 2), (0, 2), (0, 2)), one_queue(owned("q", 4, RECLAIM)))
    base = base.apply(decide(base, policy(), NOW))
    assert base.running[3].stopping
    assert stops(base, now=NOW + 10 * SECOND) == []


def test_an_eviction_names_the_limit_and_nobody_for_whom() -> None:
    base = cut(runs((0, 4), (0, 4)), one_queue(owned("q", 5, RECLAIM)))
    (made,) = decide(base, policy(), NOW).evictions
    assert (made.preemptor_workload_id, made.preemptor_attempt_id, made.preemptor_priority) == (None,) * 3
    assert made.limit is not None
    assert (made.limit.node, made.limit.subject, made.limit.limit, made.limit.used) == ("q", GPU, 5000, 8000)


def test_drain_gives_what_is_above_its_time_from_the_change_on() -> None:
    limits = {("q", GPU): replace(owned("q", 4, DRAIN)["q", GPU], drain_for=HOUR, since=NOW - 60 * SECOND)}
    base = cut(runs((0, 4), (0, 4)), one_queue(limits))
    due = NOW - 60 * SECOND + HOUR
    decisions = decide(base, policy(), NOW)
    assert not decisions.evictions
    assert decisions.stats.next_at == due
    assert stops(base, now=due - 1) == []
    fresh = replace(base, clusters={name: replace(c, observed_at=due) for name, c in base.clusters.items()})
    assert stops(fresh, now=due) == [2]
    (passed,) = foreseen(base, policy(), NOW)
    assert [(gone.view.attempt_id, gone.at) for gone in passed.leaving] == [(2, due)]


def test_the_minimum_run_time_holds_and_others_go_meanwhile() -> None:
    by = policy(preemption=PreemptionRule(min_runtime=10**9 - SECOND))
    base = cut(runs((0, 2), (0, 2)), one_queue(owned("q", 2, RECLAIM)))
    decisions = decide(base, by, NOW - 10**9 + 5 * SECOND + 10**9 - SECOND - 4 * SECOND)
    assert [made.attempt_id for made in decisions.evictions] == [1], "the newer one is protected still"


def test_what_may_not_be_preempted_stays_and_is_told() -> None:
    base = snapshot([node(1, gpus=8)], queues=one_queue(owned("q", 8, None)))
    firm = shape("firm", request(gpu=4000), preemptible=False)
    base = started(base, group(firm, item(1)))
    base = started(base, group(shape("soft", request(gpu=4000)), item(2)))
    base = cut(base, one_queue(owned("q", 2, RECLAIM)))
    assert stops(base) == [2]
    (passed,) = foreseen(base, policy(), NOW)
    assert (passed.over, passed.stays) == (6000, 2000)


def test_the_budget_of_an_hour_bounds_it_and_says_when_more_may_go() -> None:
    by = policy(preemption=PreemptionRule(per_hour=1))
    base = cut(runs((0, 2), (0, 2), (0, 2)), one_queue(owned("q", 2, RECLAIM)))
    assert len(stops(base, by)) == 1
    (passed,) = foreseen(base, by, NOW)
    assert [gone.at for gone in passed.leaving] == [NOW, NOW + HOUR]
    spent = replace(base, evicted={"q": (NOW - 60 * SECOND,)})
    decisions = decide(spent, by, NOW)
    assert not decisions.evictions
    assert decisions.stats.next_at == NOW - 60 * SECOND + HOUR


# --- whose limit says it -----------------------------------------------------------------------------------
def cohort(effects: Mapping[str, OnLowered | None], **quantities: int) -> QuotaTree:
    """Queues of one cohort that own so many GPUs each."""
    limits: dict[tuple[str, str], Limit] = {}
    for name, quantity in quantities.items():
        limits |= {(name, GPU): replace(nominal(name, GPU, quantity * 1000)[name, GPU],
                                        on_lowered=effects.get(name))}
    return queue_tree(limits, quantities)


def shared(a: int, b: int) -> Snapshot:
    """Two queues of four GPUs each that use so many."""
    base = snapshot([node(n, gpus=8) for n in range(1, 3)], queues=cohort({}, a=4, b=4))
    for number in range(a + b):
        name = "a" if number < a else "b"
        base = started(base, group(shape(f"{name}1", request(gpu=1000), queue=name), item(number + 1)))
    return base


def test_a_cohort_is_above_when_its_queues_own_less_and_the_queues_say_what_becomes_of_their_work() -> None:
    base = cut(shared(4, 4), cohort({"a": RECLAIM}, a=1, b=4))
    assert stops(base) == [2, 3, 4], "three of a's; b has what it owns"


def test_nobody_leaves_who_has_no_more_than_the_own_side_owns() -> None:
    base = cut(shared(2, 6), cohort({"a": RECLAIM, "b": RECLAIM}, a=2, b=4))
    assert stops(base) == [7, 8]
    told = cut(shared(2, 6), cohort({"a": RECLAIM}, a=2, b=4))
    assert stops(told) == [], "b says nothing of its work"


def test_the_own_word_of_the_node_goes_first() -> None:
    tree = cohort({"a": RECLAIM}, a=1, b=4)
    own = Limit(QUEUE_TREE, "cohort", GPU, 0, on_lowered=STOP_NEW)
    assert stops(cut(shared(4, 4), tree.with_limit(own))) == []


def test_a_limit_of_the_organisation_says_it_for_all_queues() -> None:
    base = shared(4, 4)
    before = org_tree()
    base = replace(base, trees={**base.trees, ORG_TREE: before})
    limit = replace(hard_limit("p", GPU, 6000), on_lowered=RECLAIM)
    charged = {
        key: replace(run, charges=(*run.charges, Charge(ORG_TREE, "ns-p", GPU, run.charges[0].quantity)))
        for key, run in base.running.items()
    }
    assert all(run.charges[0].subject == GPU for run in base.running.values())
    base = cut(replace(base, running=charged), before.with_limit(limit), ORG_TREE)
    assert stops(base) == [7, 8]


# --- always -----------------------------------------------------------------------------------------------
@st.composite
def cuts(draw: st.DrawFn) -> tuple[Snapshot, Policy]:
    """Three queues in two levels with work, and then other limits that say anything."""
    nodes = {
        "top": TreeNode(QUEUE_TREE, "top", "cohort", None),
        "mid": TreeNode(QUEUE_TREE, "mid", "cohort", "top"),
        "a": TreeNode(QUEUE_TREE, "a", "queue", "mid"), "b": TreeNode(QUEUE_TREE, "b", "queue", "mid"),
        "c": TreeNode(QUEUE_TREE, "c", "queue", "top"),
    }  # fmt: skip
    wide = {(name, GPU): Limit(QUEUE_TREE, name, GPU, 64_000) for name in "abc"}
    base = snapshot([node(n, gpus=8) for n in range(1, 11)], queues=QuotaTree(nodes, wide))
    jobs = draw(st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.sampled_from([1, 1, 2, 3, 6]), st.booleans()),
        min_size=1, max_size=10,
    ))  # fmt: skip
    for number, (queue, priority, gpus, firm) in enumerate(jobs, start=1):
        firm = firm and number % 3 == 0
        key = f"{queue}{priority}{gpus}{firm}"
        job = shape(key, request(gpu=gpus * 1000), queue=queue, priority=priority, preemptible=not firm)
        base = started(base, group(job, item(number)), at=NOW - 10**9 + number * SECOND)
    effects = st.sampled_from([None, STOP_NEW, DRAIN, RECLAIM, RECLAIM, RECLAIM])
    limits = {}
    for name in draw(st.sets(st.sampled_from(["top", "mid", "a", "b", "c"]), min_size=1)):
        limits[name, GPU] = Limit(
            QUEUE_TREE, name, GPU, draw(st.integers(0, 6)) * 1000,
            draw(st.sampled_from([None, 0, 2000])), draw(st.sampled_from([None, 0, 1000])),
            on_lowered=draw(effects), drain_for=HOUR, since=NOW - draw(st.sampled_from([0, 2 * HOUR])),
        )  # fmt: skip
    rule = PreemptionRule(min_runtime=draw(st.sampled_from([0, 0, 10**9 - 5 * SECOND])),
                          per_hour=draw(st.sampled_from([None, None, 2])))  # fmt: skip
    queues = {"b": QueueRules(preemption=PreemptionRule(min_runtime=draw(st.sampled_from([0, HOUR]))))}
    return cut(base, QuotaTree(nodes, limits)), policy(preemption=rule, queues=queues)


def over(base: Snapshot, key: tuple[str, str, str]) -> int:
    """How much a node has above its limit."""
    tree = base.trees[key[0]]
    ceiling = tree.terms(key[1], key[2])[0].ceiling
    assert ceiling is not None
    return base.usage[key[0]].get((key[1], key[2]), 0) - ceiling


def now_gone(told: Mapping[tuple[str, str, str], Passed]) -> set[int]:
    """Who leaves at once, for any limit."""
    return {one.view.attempt_id for each in told.values() for one in each.leaving if one.at <= NOW}


@settings(deadline=None, max_examples=30)
@given(cuts())
def test_who_leaves_has_more_than_its_side_owns(world: tuple[Snapshot, Policy]) -> None:
    base, by = world
    by = replace(by, preemption=replace(by.preemption, per_hour=None))  # it would put some off
    tree, left = base.trees[QUEUE_TREE], list[int]()
    told = [(one.at, each.limit.node, one.view) for each in foreseen(base, by, NOW) for one in each.leaving]
    for _, limited, view in sorted(told, key=lambda one: one[0]):
        rest = ended(base, *left) if left else base
        for name in tree.path(view.queue):
            if name == limited:
                break
            assert rest.usage[QUEUE_TREE].get((name, GPU), 0) > tree.subtree(name, GPU)
        left.append(view.attempt_id)


@settings(deadline=None, max_examples=60)
@given(cuts())
def test_who_leaves_is_needed_allowed_and_was_foreseen(world: tuple[Snapshot, Policy]) -> None:
    base, by = world
    decisions = decide(base, by, NOW)
    check_answer(base, decisions)
    told = {(each.limit.tree, each.limit.node, each.limit.subject): each for each in foreseen(base, by, NOW)}
    gone = {made.attempt_id for made in decisions.evictions}
    event(f"{min(len(gone), 3)} leave")
    for made in decisions.evictions:
        view = base.running[made.attempt_id]
        assert made.limit is not None
        key = (made.limit.tree, made.limit.node, made.limit.subject)
        runtime = 0 if view.queue != "b" else by.queues["b"].preemption.min_runtime  # type: ignore[union-attr]
        assert view.placed_at + max(runtime, by.preemption.min_runtime if view.queue != "b" else 0) <= NOW
        assert view.preemptible
        foreseen_now = {each.view.attempt_id for each in told[key].leaving if each.at <= NOW}
        assert made.attempt_id in foreseen_now
    for key, each in told.items():
        leaving = [one.view.attempt_id for one in each.leaving if one.at <= NOW]
        for number in leaving:  # each is needed, also for a limit further up; where all stay above, all are
            rest = ended(base, *(now_gone(told) - {number}))
            assert any(over(rest, other) > max(0, told[other].stays) for other in told), key


@settings(deadline=None, max_examples=25)
@given(cuts())
def test_in_the_end_only_what_was_told_to_stay_is_above(world: tuple[Snapshot, Policy]) -> None:
    base, by = world
    by = replace(by, preemption=replace(by.preemption, per_hour=None))
    now, told = NOW, foreseen(base, by, NOW)
    for _ in range(40):
        base = replace(base, clusters={n: replace(c, observed_at=now) for n, c in base.clusters.items()})
        course = run_course(base, by, now)
        base = ended(course.after, *(made.attempt_id for made in course.evictions))
        later = decide(base, by, now).stats.next_at
        if not course.evictions and later is None:
            break
        now = max(now, later or now)
    for each in told:
        key = (each.limit.tree, each.limit.node, each.limit.subject)
        assert over(base, key) <= max(0, each.stays)
    left = {run for run in range(1, 11) if run not in base.running}
    event(f"{len(left & {gone.view.attempt_id for each in told for gone in each.leaving})} left")


def test_nothing_is_looked_at_where_no_limit_says_that_anything_leaves() -> None:
    tree = one_queue(owned("q", 1, STOP_NEW))
    assert tree.watched == ()
    assert one_queue(owned("q", 1, DRAIN)).watched == ((("q", GPU), 1000),)


def passed_of(base: Snapshot) -> tuple[Passed, ...]:
    """What is foreseen by the usual policy."""
    return foreseen(base, policy(), NOW)


def test_the_answer_is_the_same_whatever_the_order_of_the_mappings() -> None:
    base = cut(runs((0, 2), (1, 2), (0, 2), (0, 1)), one_queue(owned("q", 3, RECLAIM)))
    turned = replace(base, running=dict(reversed(list(base.running.items()))))
    first: Decisions = decide(base, policy(), NOW)
    assert first.evictions == decide(turned, policy(), NOW).evictions
    assert [gone.view.attempt_id for gone in passed_of(base)[0].leaving] == [
        gone.view.attempt_id for gone in passed_of(turned)[0].leaving
    ]


def test_a_gang_that_can_go_on_with_fewer_gives_up_members_only() -> None:
    gang = replace(shape("gang", request(gpu=1000), count=4), least=(1,))
    base = snapshot([node(1, gpus=4)], queues=one_queue(owned("q", 4, RECLAIM)))
    base = started(base, group(gang, item(1)))
    for left, indexes in ((3, [3]), (2, [3, 2]), (1, [3, 2, 1]), (0, [])):
        lower = with_trees(base, {**base.trees, QUEUE_TREE: one_queue(owned("q", left, RECLAIM))})
        decisions = decide(lower, policy(), NOW)
        check_answer(lower, decisions)
        (eviction,) = decisions.evictions
        assert [gone.index for gone in eviction.members] == indexes
        (passed,) = foreseen(lower, policy(), NOW)
        assert (len(passed.leaving), passed.stays) == (1, 0)
        after = lower.apply(decisions)
        parts = [key for key, run in after.running.items() if run.stopping]
        assert decide(ended(after, *parts), policy(), NOW + 1).evictions == ()
