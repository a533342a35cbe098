"""The walk through a queue's flavors: which one an attempt takes, and what ends the search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import FlavorFungibility, Policy, Preference, QueueRules, ResourceGroup, Search
from steelyard.scheduling import Decisions, Snapshot, decide
from steelyard.scheduling.explain import can_ever_fit
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

ONE = shape("one", request(gpu=1000))
URGENT = shape("urgent", request(gpu=1000), priority=10)
ORDER = ("t4", "a100", "h100")


def walks(
    borrow: Search = Search.MAY_STOP,
    preempt: Search = Search.TRY_NEXT,
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION,
    order: tuple[str, ...] = ORDER,
) -> Policy:
    rules = QueueRules(
        fungibility=FlavorFungibility(borrow, preempt, preference),
        groups=(ResourceGroup(("gpu", "cpu", "memory"), order),),
    )
    return policy(queues={"q": rules})


def floor(**nominals: int) -> Snapshot:
    """A node of two devices of each flavor; what the queue owns of each, in devices. More is borrowed."""
    limits = {}
    for name in ORDER:
        limits |= nominal("q", f"flavor/{name}", nominals.get(name, 0) * 1000)
        limits |= nominal("cohort", f"flavor/{name}", 4000)
    nodes = [node(number, gpus=2, flavor=name) for number, name in enumerate(ORDER, 1)]
    return snapshot(nodes, queues=queue_tree(limits))


def flavor_of(decisions: Decisions) -> list[str]:
    """The flavors taken, one for each placement or hold."""
    taken = [*decisions.placements, *decisions.holds]
    return [plan.members[0].allocations[0].flavor for plan in taken]


def full_of(base: Snapshot, *flavors: str) -> Snapshot:
    """Two devices of each of these taken by work of low priority in the same queue."""
    taken = base
    for number, name in enumerate(flavors):
        low = shape(f"low-{name}", request(gpu=1000, flavors=(name,)))
        taken = started(taken, group(low, item(10 + 2 * number), item(11 + 2 * number)))
    return taken


def test_the_first_flavor_within_nominal_quota_is_taken_in_the_queues_order() -> None:
    base = replace(floor(t4=2, a100=2, h100=2), pending=(group(ONE, *(item(n) for n in range(1, 6))),))
    assert flavor_of(decide(base, walks(), NOW)) == ["t4", "t4", "a100", "a100", "h100"]
    assert flavor_of(decide(base, walks(order=("h100", "t4")), NOW)) == ["h100", "h100", "t4", "t4"]


def test_a_flavor_that_the_queue_does_not_name_is_not_taken_even_when_all_else_is_full() -> None:
    base = full_of(floor(t4=2, a100=2), "t4")
    base = replace(base, pending=(group(ONE, item(1)),))
    rules = walks(order=("t4",))
    assert placed(decide(base, rules, NOW)) == []
    elsewhere = shape("elsewhere", request(gpu=1000, flavors=("h100",)))
    assert [reason.code for reason in can_ever_fit(base, rules, elsewhere)] == ["no-matching-flavor"]


@pytest.mark.parametrize(
    ("rules", "taken"),
    [
        (walks(), "t4"),
        (walks(borrow=Search.TRY_NEXT), "a100"),
        (walks(borrow=Search.TRY_NEXT, order=("t4", "h100")), "t4"),
    ],
    ids=["borrowing may stop", "a later one is owned", "all would be borrowed"],
)
def test_whether_borrowing_ends_the_search(rules: Policy, taken: str) -> None:
    base = replace(floor(a100=2), pending=(group(ONE, item(1)),))
    assert flavor_of(decide(base, rules, NOW)) == [taken]


@pytest.mark.parametrize(
    ("rules", "taken"),
    [
        (walks(), "a100"),
        (walks(preempt=Search.MAY_STOP), "t4"),
        (walks(preference=Preference.PREEMPTION_OVER_BORROWING), "t4"),
        (walks(borrow=Search.TRY_NEXT, preference=Preference.PREEMPTION_OVER_BORROWING), "t4"),
        (walks(order=("t4",)), "t4"),
    ],
    ids=["borrows", "preempts at once", "preempts rather, of the walked", "preempts rather", "nothing else"],
)
def test_the_smaller_drawback_is_taken(rules: Policy, taken: str) -> None:
    """T4 is owned and full of work of low priority; the others are free and would be borrowed."""
    base = full_of(floor(t4=2), "t4")
    base = replace(base, pending=(group(URGENT, item(1)),))
    decisions = decide(base, rules, NOW)
    assert flavor_of(decisions) == [taken]
    assert len(decisions.evictions) == (taken == "t4")
    check_answer(base, decisions)


def test_a_retry_begins_at_the_first_flavor() -> None:
    """S-28: an attempt that found all flavors full is not pinned to the last one it tried."""
    base = full_of(floor(t4=2, a100=2, h100=2), *ORDER)
    base = replace(base, pending=(group(ONE, item(1)),))
    first = decide(base, walks(), NOW)
    assert first.placements == ()
    emptied = replace(floor(t4=2, a100=2, h100=2), pending=base.pending, last_looked={"one": NOW})
    assert flavor_of(decide(emptied, walks(), NOW + 1)) == ["t4"]


def test_without_groups_the_requests_own_order_counts() -> None:
    base = replace(floor(t4=2, a100=2, h100=2), pending=(
        group(shape("own", request(gpu=1000, flavors=("h100", "t4"))), item(1), item(2), item(3)),
    ))
    assert flavor_of(decide(base, policy(), NOW)) == ["h100", "h100", "t4"]


_searches = st.sampled_from(list(Search))


@given(
    owned=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    full=st.sets(st.sampled_from(ORDER)),
    order=st.permutations(ORDER),
    borrow=_searches,
    preempt=_searches,
    preference=st.sampled_from(list(Preference)),
    count=st.integers(1, 3),
)
def test_a_flavor_within_nominal_quota_wins_over_any_drawback_unless_the_search_may_stop(
    owned: list[int], full: set[str], order: list[str], borrow: Search, preempt: Search,
    preference: Preference, count: int,
) -> None:
    """With both searches going on to the next, the choice is the best of all; it always keeps the books."""
    base = full_of(floor(**dict(zip(ORDER, owned, strict=True))), *sorted(full))
    base = replace(base, pending=(group(URGENT, *(item(n) for n in range(1, count + 1))),))
    decisions = decide(base, walks(borrow, preempt, preference, tuple(order)), NOW)
    check_answer(base, decisions)
    assert len(flavor_of(decisions)) == count  # whatever is full may be preempted
    if borrow is preempt is Search.TRY_NEXT and count == 1:
        free = [name for name in order if name not in full and owned[ORDER.index(name)]]
        assert not free or flavor_of(decisions) == free[:1]
