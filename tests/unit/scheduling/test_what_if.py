"""What-if tells what the loop then does, and leaves no trace of the question."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    Fairness,
    NodeOrder,
    Policy,
    PreemptionRule,
    QueueingStrategy,
    QueueOrder,
    QueueRules,
    Reclaim,
)
from steelyard.scheduling.decisions import canonical
from steelyard.scheduling.snapshot import AddDevices, AddPending, ChangeLimit, CordonNode, Snapshot
from steelyard.scheduling.what_if import (
    EndAttempts,
    Fate,
    FollowPolicy,
    FollowTrees,
    Outcome,
    WhatIf,
    run_course,
    what_if,
)
from tests.unit.scheduling import reality
from tests.unit.scheduling.build import NOW, node, request, shape
from tests.unit.scheduling.reality import Books, fates, live_on, really, set_limit, some_limit, some_shape

Doing = tuple[WhatIf, Policy]
KINDS = ["submit", "submit", "submit", "limit", "limit", "end", "node", "cordon", "policy", "trees"]


def some_policy(dice: random.Random) -> Policy:
    """Few placements in a cycle, so that there are several; with and without preemption."""
    rule = PreemptionRule(
        within_queue=dice.random() < 0.8, min_runtime=dice.choice([0, 0, 4_000_000]),
        reclaim=dice.choice(list(Reclaim)), per_hour=dice.choice([None, None, 1]),
    )  # fmt: skip
    strategy = dice.choice([None, QueueingStrategy.STRICT_FIFO])
    weight, reservations = dice.choice([500, 3000]), dice.choice([0, 1, 2])
    queue = QueueRules(strategy=strategy, reservations=reservations, weight=weight)
    return Policy(
        dice.randrange(1, 9), rule, max_placements=dice.choice([1, 2, 512]), max_victims=8,
        queues={"q0": queue, "q1": QueueRules(preemption=rule)}, order=dice.choice(list(QueueOrder)),
        nodes=dice.choice(list(NodeOrder)), fairness=Fairness(dice.choice([0, 3_600_000_000])),
    )  # fmt: skip


def imagine_and_do(books: Books, dice: random.Random, policy: Policy, now: int) -> Doing:
    """A change as it is asked about; it is made in the books."""
    kind = dice.choice(KINDS)
    if kind == "limit":
        limit = some_limit(dice)
        set_limit(books, limit)
        return ChangeLimit(limit), policy
    if kind == "end" and (books.running or books.waiting or books.holds):
        known = sorted({*books.running, *books.waiting, *books.holds})
        gone = frozenset(dice.sample(known, min(len(known), dice.choice([1, 1, 2]))))
        for attempt in gone:
            books.end(attempt)
        return EndAttempts(gone), policy
    if kind == "node":
        fresh = node(max(books.nodes) + 1, gpus=dice.choice([1, 4]))
        books.nodes[fresh.id] = fresh
        return AddDevices(fresh), policy
    if kind == "cordon":
        chosen = dice.choice(sorted(books.nodes))
        books.nodes[chosen] = replace(books.nodes[chosen], schedulable=False)
        return CordonNode(chosen), policy
    if kind == "policy":
        other = some_policy(dice)
        return FollowPolicy(other), other
    if kind == "trees":
        for _ in range(3):
            set_limit(books, some_limit(dice))
        return FollowTrees(books.trees()), policy
    of = some_shape(dice)
    item = books.submit(of, now)
    return AddPending(of, item), policy


def ask_and_do(seed: int) -> None:
    """One case: a life, a question, the change itself, and the loop's decisions beside the answer."""
    dice = random.Random(seed)
    books, policy = reality.some_books(dice), some_policy(dice)
    now = live_on(books, dice, policy, NOW, dice.randrange(1, 5))
    frozen = books.snapshot(now)
    kept = canonical(frozen)
    then, changes = policy, []
    for _ in range(dice.choice([1, 1, 2, 4])):
        change, then = imagine_and_do(books, dice, then, now)
        changes.append(change)
    told = what_if(frozen, policy, now, changes)
    assert canonical(frozen) == kept  # the question left no trace
    done = really(books, then, now)
    assert told.complete
    assert canonical(told.after.placements) == canonical(done.placements)
    assert canonical(told.after.evictions) == canonical(done.evictions)
    assert told.after.fates() == fates(books, done)
    assert canonical(told.after.after.holds) == canonical(books.holds)
    waiting = {of.key for of, _ in books.waiting.values()}
    assert canonical(told.after.reasons) == canonical({k: r for k, r in done.reasons.items() if k in waiting})
    _check_differences(told)


def _check_differences(told: Outcome) -> None:
    """What is told to differ is all that differs."""
    first, then = told.before.fates(), told.after.fates()
    changed = {each.attempt_id: (each.before, each.after) for each in told.changed}
    for attempt in first.keys() | then.keys():
        before, after = first.get(attempt, Fate.ABSENT), then.get(attempt, Fate.ABSENT)
        assert changed.pop(attempt, (before, before)) == (before, after)
    assert not changed


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**48))
def test_what_if_is_what_the_loop_then_decides(seed: int) -> None:
    ask_and_do(seed)


@pytest.mark.soak
def test_what_if_is_what_the_loop_then_decides_in_ten_thousand_cases() -> None:
    for seed in range(10_000):
        ask_and_do(seed)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**48))
def test_no_change_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    books, policy = reality.some_books(dice), some_policy(dice)
    now = live_on(books, dice, policy, NOW, 3)
    told = what_if(books.snapshot(now), policy, now, ())
    assert (told.changed, told.reasons) == ((), ())


def _full() -> tuple[Books, Snapshot]:
    """One node with four devices, all of them taken by work of low priority."""
    books = Books({1: node(1, gpus=4)}, {}, {})
    books.submit(shape("low", request(gpu=4000), queue="q0"), NOW)
    really(books, Policy(1), NOW)
    return books, books.snapshot(NOW)


def test_who_is_evicted_and_for_whom_a_place_is_kept_is_told() -> None:
    books, frozen = _full()
    wanted = shape("high", request(gpu=2000), queue="q0", priority=10)
    told = what_if(frozen, Policy(1), NOW, [AddPending(wanted, books.submit(wanted, NOW))])
    assert [(each.attempt_id, each.before, each.after) for each in told.changed] == [
        (1, Fate.RUNS, Fate.EVICTED), (2, Fate.ABSENT, Fate.HELD),
    ]  # fmt: skip
    assert told.after.evictions[0].preemptor_attempt_id == 2


def test_who_stays_waiting_for_another_reason_is_told() -> None:
    books, _ = _full()
    wanted = shape("more", request(gpu=2000), queue="q1")
    books.submit(wanted, NOW)
    limit = reality.Limit("queue", "q1", "gpu", 0, 0)
    told = what_if(books.snapshot(NOW), Policy(1), NOW, [ChangeLimit(limit)])
    (changed,) = told.reasons
    assert changed.shape.key == "more"
    assert {reason.code for reason in changed.after} != {reason.code for reason in changed.before}
    assert not told.changed


def test_who_ends_gives_back_what_is_charged() -> None:
    books = Books({1: node(1, gpus=4)}, {}, {})
    set_limit(books, reality.Limit("queue", "q0", "gpu", 1000, 0))
    for _ in range(2):
        books.submit(shape("s", request(gpu=1000), queue="q0"), NOW)
    really(books, Policy(1), NOW)
    told = what_if(books.snapshot(NOW), Policy(1), NOW, [EndAttempts(frozenset({1}))])
    assert [(each.attempt_id, each.before, each.after) for each in told.changed] == [
        (1, Fate.RUNS, Fate.ABSENT), (2, Fate.WAITS, Fate.STARTS),
    ]  # fmt: skip


def test_a_course_that_meets_its_bound_says_so() -> None:
    books = Books({1: node(1, gpus=4)}, {}, {})
    for number in range(4):
        books.submit(shape(f"s{number}", request(gpu=1000), queue="q0"), NOW)
    one = Policy(1, max_placements=1)
    assert not run_course(books.snapshot(NOW), one, NOW, most=2).complete
    whole = run_course(books.snapshot(NOW), one, NOW)
    assert (whole.complete, len(whole.placements)) == (True, 4)
