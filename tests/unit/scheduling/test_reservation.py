"""Reservation and backfill: what is let go first delays nobody who has a place on the timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steelyard.model.policy import Policy, PreemptionRule, QueueOrder, QueueRules, Reclaim
from steelyard.model.reasons import ReasonCode
from steelyard.model.workloads import Shape
from steelyard.scheduling import ClusterView, Reservation, ShapeGroup, Snapshot, decide, explain
from steelyard.scheduling.run_times import Learned, RunTimes
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    codes,
    ended,
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

HOUR = 3_600_000_000


def limited(key: str, gpus: int, hours: int | None, count: int = 1, queue: str = "q", **fields: int) -> Shape:
    made = shape(key, request(gpu=gpus * 1000), count=count, queue=queue, **fields)
    return replace(made, time_limit=None if hours is None else hours * HOUR)


def reserving(count: int) -> Policy:
    return policy(queues={"q": QueueRules(reservations=count), "r": QueueRules(reservations=count)})


def busy(*hours: int | None, gpus: int = 4, **fields: object) -> Snapshot:
    """A node of four devices; one is taken for each of these many hours more."""
    base = snapshot([node(1, gpus=gpus)], **fields)
    for number, length in enumerate(hours):
        base = started(base, group(limited(f"runs-{number}", 1, length), item(90 + number)), at=NOW)
    return base


WIDE = limited("wide", 4, 1)


def waiting(base: Snapshot, *shapes: Shape) -> Snapshot:
    """Each of these shapes waits once, in this order; attempts are numbered from 1."""
    return replace(base, pending=tuple(group(each, item(n)) for n, each in enumerate(shapes, 1)))


def test_the_first_blocked_gets_the_earliest_instant_at_which_all_of_it_fits() -> None:
    base = waiting(busy(5, 2, 3), WIDE)
    (made,) = decide(base, POLICY, NOW).reservations
    assert (made.attempt_id, made.starts_at, made.ends_at) == (1, NOW + 5 * HOUR, NOW + 6 * HOUR)
    (two,) = decide(waiting(busy(5, 2, 3), limited("two", 2, 1)), POLICY, NOW).reservations
    assert two.starts_at == NOW + 2 * HOUR


POLICY = reserving(1)


@pytest.mark.parametrize(
    ("behind", "goes"),
    [(limited("short", 1, 5), True), (limited("long", 1, 6), False), (limited("unbounded", 1, None), False)],
    ids=["ends in time", "would still run", "nobody knows"],
)
def test_what_comes_after_goes_first_only_if_it_ends_before(behind: Shape, goes: bool) -> None:
    base = waiting(busy(5, 2, 3), WIDE, behind)
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == ([2] if goes else [])
    check_answer(base, decisions)
    assert placed(decide(base, reserving(0), NOW)) == [2]


def test_what_the_reservation_does_not_need_may_be_used_for_ever() -> None:
    one = group(limited("unbounded", 1, None), item(2), item(3), item(4))
    base = replace(busy(5, 5, 5, gpus=8), pending=(group(limited("six", 6, 1), item(1)), one))
    decisions = decide(base, POLICY, NOW)
    assert [made.starts_at for made in decisions.reservations] == [NOW + 5 * HOUR]
    assert placed(decisions) == [2, 3]


def test_a_quota_that_the_reservation_needs_then_is_not_given_away() -> None:
    limits = nominal("q", "gpu", 3000, borrowing=0) | nominal("r", "gpu", 3000, borrowing=0)
    limits |= nominal("cohort", "gpu", 0)
    base = busy(5, gpus=8, queues=queue_tree(limits, ("q", "r")))
    three = limited("three", 3, 1)
    long, short = limited("long", 1, 6), limited("short", 1, 5)
    other = limited("other", 1, 6, queue="r")
    decisions = decide(waiting(base, three, long, short, other), POLICY, NOW)
    assert [made.starts_at for made in decisions.reservations] == [NOW + 5 * HOUR]
    assert sorted(placed(decisions)) == [3, 4]  # devices are there for all of them
    assert [reason.code for reason in decisions.reasons["long"].reasons] == [ReasonCode.RESERVED_FOR]


def test_as_many_get_a_place_as_the_queue_declares_also_of_one_shape() -> None:
    base = replace(busy(5, 2, 3), pending=(
        group(WIDE, item(1), item(2), item(3)), group(limited("short", 1, 5), item(4))
    ))
    found = {count: decide(base, reserving(count), NOW) for count in (0, 1, 2)}
    assert [[made.attempt_id for made in found[n].reservations] for n in (0, 1, 2)] == [[], [1], [1, 2]]
    assert [made.starts_at for made in found[2].reservations] == [NOW + 5 * HOUR, NOW + 6 * HOUR]
    assert [placed(found[n]) for n in (0, 1, 2)] == [[4], [4], [4]]


def test_work_without_a_time_limit_is_bounded_by_what_like_work_took() -> None:
    """Nine of ten runs of the template took an hour at most, those that passed it four."""
    runs = Learned(20, tuple(sorted([HOUR] * 15 + [4 * HOUR] * 5)))
    times = RunTimes(1, {"template/fit": runs})
    unbounded = replace(limited("runs", 1, None), template="fit")
    running = group(unbounded, *(item(n) for n in (90, 91)))
    base = started(snapshot([node(1, gpus=4)]), running, at=NOW - HOUR // 2)
    behind = replace(limited("same", 1, None), template="fit")
    other = limited("other", 1, None)
    base = replace(waiting(base, limited("wide", 4, 1), behind, other), run_times=times)
    (made,) = decide(base, POLICY, NOW).reservations
    assert made.starts_at == NOW - HOUR // 2 + 4 * HOUR
    assert placed(decide(base, POLICY, NOW)) == []  # one may take four hours, of the other nobody knows
    later = replace(base, run_times=RunTimes(2, {"template/fit": Learned(20, (HOUR,) * 20)}))
    assert [made.starts_at for made in decide(later, POLICY, NOW).reservations] == [NOW + HOUR // 2]
    mixed = Learned(20, (HOUR // 2,) * 10 + (HOUR,) * 10)
    soon = replace(later, run_times=RunTimes(3, {"template/fit": mixed}))
    assert placed(decide(soon, POLICY, NOW)) == []


def test_what_starts_from_a_held_place_ends_on_the_timeline_too() -> None:
    full = busy(5, 2)
    cycle = decide(waiting(full, limited("evictor", 4, 3, priority=20)), POLICY, NOW)
    (hold,) = cycle.holds
    freed = ended(waiting(full, limited("evictor", 4, 3, priority=20)).apply(cycle), *hold.victims)
    then = decide(replace(freed, pending=(group(WIDE, item(2)),)), POLICY, NOW)
    (start,), (made,) = then.placements, then.reservations
    assert start.from_hold
    assert (made.attempt_id, made.starts_at) == (2, NOW + 3 * HOUR)


def of_equal_rank(victim: Shape | None, quota: int, *behind: Shape) -> Snapshot:
    """Eight devices; the queue has quota for some. Three are taken for two hours by one as important as all
    who come, and some by a victim. Who wants four of them waits first."""
    limits = nominal("q", "gpu", quota * 1000, borrowing=0) | nominal("cohort", "gpu", 0)
    base = snapshot([node(1, gpus=8)], queues=queue_tree(limits))
    base = started(base, group(limited("equal", 3, 2, priority=20), item(90)), at=NOW)
    if victim is not None:
        base = started(base, group(victim, item(91)), at=NOW)
    return waiting(base, limited("four", 4, 1, priority=20), *behind)


ENDLESS = limited("endless", 1, None, priority=20)


def test_who_evicts_delays_nobody_who_has_a_place() -> None:
    first = decide(of_equal_rank(limited("victim", 1, 1), 4, ENDLESS), POLICY, NOW)
    assert [(made.attempt_id, made.starts_at) for made in first.reservations] == [(1, NOW + 2 * HOUR)]
    assert (first.placements, first.evictions, first.holds) == ((), (), ())


def test_what_fits_but_would_delay_a_reservation_gets_no_hold_either() -> None:
    first = decide(of_equal_rank(None, 4, ENDLESS), POLICY, NOW)
    assert (placed(first), first.holds) == ([], ())
    assert codes(first, "endless") == [ReasonCode.RESERVED_FOR]


def test_a_victim_that_would_still_run_when_the_reservation_starts_gives_its_quota_to_its_evictor() -> None:
    """Of five: the victim's one would not have been there for the reservation's four either."""
    two = limited("two", 2, None, priority=20)
    first = decide(of_equal_rank(limited("victim", 1, 3), 5, two), POLICY, NOW)
    assert (first.holds, first.evictions) == ((), ())
    then = decide(of_equal_rank(limited("victim", 2, 3), 6, two), POLICY, NOW)
    assert [made.attempt_id for made in then.reservations] == [1]
    assert [eviction.attempt_id for eviction in then.evictions] == [91]


def test_a_hold_that_waits_for_nobody_of_its_own_is_looked_at_again_at_once() -> None:
    """Its places may be free already: what keeps them from being taken is what another hold will have."""
    full = snapshot([node(1, cpu=16_000)])
    full = started(full, group(shape("first", request(cpu=14_000)), item(90)), at=NOW)
    evictor = group(shape("evictor", request(cpu=14_000), priority=20), item(1))
    stopping = full.apply(decide(replace(full, pending=(evictor,)), POLICY, NOW))
    small = replace(stopping, pending=(group(shape("small", request(cpu=1000), priority=20), item(2)),))
    cycle = decide(small, POLICY, NOW)
    assert [hold.attempt_id for hold in cycle.holds] == [2]
    assert not cycle.evictions
    assert cycle.stats.more
    assert placed(decide(small.apply(cycle), POLICY, NOW)) == [2]


def test_nothing_is_reserved_where_nobody_knows_when_anything_ends() -> None:
    base = waiting(busy(None, 2, 3), WIDE, limited("unbounded", 1, None))
    decisions = decide(base, POLICY, NOW)
    assert decisions.reservations == ()
    assert placed(decisions) == [2]


def test_who_would_delay_a_reservation_is_told_whose_and_until_when() -> None:
    long = limited("long", 1, 6)
    base = waiting(busy(5, 2, 3), WIDE, long)
    found = explain(base, POLICY, NOW, long)
    (reason,) = found.reasons
    assert reason.code == ReasonCode.RESERVED_FOR
    assert reason.params == {"until": NOW + 5 * HOUR, "ends_at": NOW + 6 * HOUR}
    assert [(holder.project, holder.queue, holder.amount) for holder in reason.holders] == [("p", "q", 4000)]
    assert explain(base, POLICY, NOW, WIDE).reservation is not None
    (own,) = explain(base, POLICY, NOW, WIDE).reasons
    assert (own.code, own.short_by) == (ReasonCode.WAITING_FOR_CAPACITY, 3000)
    assert sum(holder.amount for holder in own.holders) == 3000


# --- a whole life ----------------------------------------------------------------------------------
@dataclass
class Life:
    """Work with exact run times, over virtual time; what was promised, and when what began."""

    base: Snapshot
    rules: Policy
    work: list[tuple[int, Shape]]  # (comes at, shape); its number is its place in the list + 1

    def run(self) -> None:
        self.promised: dict[int, Reservation] = {}
        self.began: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        instants = {at for at, _ in self.work}
        while instants:
            now = min(instants)
            instants.discard(now)
            over = [attempt for attempt, at in self.ends.items() if at == now]
            self.base = ended(self.base, *over)
            for number, (at, of) in enumerate(self.work, 1):
                if at == now:
                    self._submit(of, number, now)
            instants |= self._decide(now)

    def _submit(self, of: Shape, number: int, now: int) -> None:
        pending = list(self.base.pending)
        known = next((g for g in pending if g.shape.key == of.key), None)
        new = ShapeGroup(of, (item(number, now),), 1)
        if known is not None:
            pending.remove(known)
            new = ShapeGroup(of, (*known.heads, item(number, now)), known.count + 1)
        self.base = replace(self.base, pending=(*pending, new))

    def _decide(self, now: int) -> set[int]:
        seen = {name: ClusterView(name, now) for name in self.base.clusters}
        self.base = replace(self.base, clusters=seen)
        new: set[int] = set()
        while True:
            decisions = decide(self.base, self.rules, now)
            self.base = check_answer(self.base, decisions)
            self._note(decisions.reservations)
            for attempt in placed(decisions):
                self.began[attempt] = now
                limit = self.work[attempt - 1][1].time_limit
                assert limit is not None
                self.ends[attempt] = now + limit
                new.add(now + limit)
            if not decisions.placements:
                return new

    def _note(self, reservations: tuple[Reservation, ...]) -> None:
        """What is promised while all that came before has a promise, too."""
        waits = {head.attempt_id for each in self.base.pending for head in each.heads}
        waits -= {made.attempt_id for made in reservations}
        for made in reservations:
            if made.attempt_id < min(waits, default=made.attempt_id + 1):
                self.promised.setdefault(made.attempt_id, made)


_jobs = st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))


def a_life(jobs: list[tuple[int, int, int, int]], reservations: int, limits: bool, nodes: int) -> Life:
    quotas = nominal("q", "gpu", 5000, borrowing=2000) | nominal("r", "gpu", 3000) if limits else {}
    tree = queue_tree(quotas, ("q", "r"))  # between queues the order moves with use
    base = snapshot([node(number, gpus=4) for number in range(1, nodes + 1)], queues=tree)
    work = [
        (NOW + at * HOUR, limited(f"{gpus}x{count}-{hours}", gpus, hours, count))
        for at, gpus, count, hours in sorted(jobs, key=lambda job: job[0])
    ]
    return Life(base, reserving(reservations), work)


_some = st.sampled_from([None, 0, 2000])


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(st.tuples(_jobs, st.sampled_from("qqr")), min_size=3, max_size=20),
    owned=st.tuples(st.sampled_from([3000, 5000]), st.sampled_from([0, 3000]), st.sampled_from([0, 2000])),
    borrowing=st.tuples(_some, _some),
    reservations=st.integers(1, 3),
)
def test_nor_where_another_queue_may_take_what_it_borrows(
    jobs: list[tuple[tuple[int, int, int, int], str]], owned: tuple[int, int, int],
    borrowing: tuple[int | None, int | None], reservations: int,
) -> None:  # fmt: skip
    """Two queues, each of which goes on using quota of the other; the order between them is by time alone."""
    quotas = nominal("q", "gpu", owned[0], borrowing[0]) | nominal("r", "gpu", owned[1], borrowing[1])
    tree = queue_tree(quotas | nominal("cohort", "gpu", owned[2]), ("q", "r"))
    work = [
        (NOW + at * HOUR, replace(limited(f"{queue}{gpus}x{count}-{hours}", gpus, hours, count), queue=queue))
        for (at, gpus, count, hours), queue in sorted(jobs, key=lambda job: job[0][0])
    ]
    never = PreemptionRule(within_queue=False, reclaim=Reclaim.NEVER)
    rules = replace(reserving(reservations), order=QueueOrder.STRICT_PRIORITY, preemption=never)
    life = Life(snapshot([node(number, gpus=4) for number in (1, 2)], queues=tree), rules, work)
    life.run()
    for attempt, made in life.promised.items():
        assert life.began[attempt] <= made.starts_at


@settings(max_examples=150, deadline=None)
@given(
    jobs=st.lists(_jobs, min_size=3, max_size=24),
    reservations=st.integers(1, 3),
    limits=st.booleans(),
    nodes=st.integers(1, 3),
)
@example([(0, 1, 2, 2), (0, 1, 3, 1), (0, 1, 3, 1), (0, 1, 3, 1), (0, 2, 3, 1), (1, 1, 2, 3)], 2, True, 2)
def test_nobody_starts_later_than_the_place_that_was_promised_first(
    jobs: list[tuple[int, int, int, int]], reservations: int, limits: bool, nodes: int
) -> None:
    """All of one priority, so that only what is let go first could be in the way."""
    life = a_life(jobs, reservations, limits, nodes)
    life.run()
    for attempt, made in life.promised.items():
        assert life.began[attempt] <= made.starts_at
