"""The loop on virtual time does what the loop then does when what was expected happens."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import Policy, PreemptionRule, Reclaim
from steelyard.model.workloads import Shape
from steelyard.scheduling.decisions import canonical
from steelyard.scheduling.estimates import Estimate, Known, Why, estimate
from steelyard.scheduling.forward import Arrival, Expected, Foreseen, Forward
from steelyard.scheduling.run_times import Learned, RunTimes
from steelyard.scheduling.views import PendingItem
from tests.unit.scheduling import reality
from tests.unit.scheduling.build import NOW, node, request, shape
from tests.unit.scheduling.reality import SECOND, Books, live_on, really, some_shape

NO_EVICTIONS = Policy(1, PreemptionRule(within_queue=False, reclaim=Reclaim.NEVER))


def lived(
    books: Books, policy: Policy, now: int, ends: dict[int, int], lengths: dict[int, int],
    coming: tuple[Arrival, ...] = (),
) -> dict[int, int]:
    """workload → when it was placed, as the books have it, from one end to the next."""
    started: dict[int, int] = {}
    coming = tuple(sorted(coming, key=lambda each: each.at))
    while True:
        books.looked.clear()
        for placed in really(books, policy, now).placements:
            started.setdefault(placed.workload_id, now)
            if placed.workload_id in lengths:
                ends[placed.attempt_id] = now + lengths[placed.workload_id]
        instants = [at for attempt, at in ends.items() if attempt in books.running]
        instants += [arrival.at for arrival in coming[:1]]
        if not instants:
            return started
        now = min(instants)
        for attempt in [attempt for attempt, at in ends.items() if at == now]:
            books.end(attempt)
        while coming and coming[0].at == now:
            books.shapes[coming[0].shape.key] = coming[0].shape
            books.waiting[coming[0].item.attempt_id] = (coming[0].shape, coming[0].item)
            coming = coming[1:]


def _case(seed: int) -> tuple[random.Random, Books, int]:
    dice = random.Random(seed)
    books = reality.some_books(dice)
    now = live_on(books, dice, NO_EVICTIONS, NOW, dice.randrange(1, 5))
    return dice, books, now


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**48))
def test_the_future_is_what_then_happens_when_what_was_expected_happens(seed: int) -> None:
    dice, books, now = _case(seed)
    coming = []
    for number in range(dice.randrange(4)):
        at = now + dice.randrange(1, 50 * SECOND)
        coming.append(Arrival(at, some_shape(dice), PendingItem(900 + number, 900 + number, at)))
    known = [*books.running, *books.waiting, *(arrival.item.attempt_id for arrival in coming)]
    lengths = {n: dice.randrange(1, 40 * SECOND) for n in known if dice.random() < 0.9}
    ends = {n: now + lengths[n] for n in books.running if n in lengths}
    frozen = books.snapshot(now)
    kept = canonical(frozen)
    expected = Expected(ends, lambda _shape, item: lengths.get(item.workload_id), arrivals=tuple(coming))
    future = Forward(frozen, NO_EVICTIONS, now, expected).run(10_000)
    assert canonical(frozen) == kept
    assert future.complete
    assert future.first == lived(books, NO_EVICTIONS, now, dict(ends), lengths, tuple(coming))


def _future(books: Books, policy: Policy, expected: Expected) -> Foreseen:
    return Forward(books.snapshot(NOW), policy, NOW, expected).run(100)


def _full(*more: Shape) -> Books:
    books = Books({1: node(1, gpus=4)}, {}, {})
    books.submit(shape("low", request(gpu=4000), queue="q0"), NOW)
    really(books, Policy(1), NOW)
    for each in more:
        books.submit(each, NOW)
    return books


def test_a_victim_stops_within_its_time_and_is_submitted_anew() -> None:
    high = shape("high", request(gpu=4000), queue="q0", priority=10)
    books = _full(high)
    books.submit(books.shapes["low"], NOW)  # so that the victim's shape is known
    expected = Expected({1: NOW + 100 * SECOND}, lambda _shape, _item: 50 * SECOND, stop=5 * SECOND)
    future = _future(books, Policy(1), expected)
    assert future.first[2] == NOW + 5 * SECOND
    assert future.first[1] == NOW + 55 * SECOND
    assert [(at, each.attempt_id) for at, each in future.evictions] == [(NOW, 1)]


def test_a_run_that_meets_its_bound_says_so() -> None:
    books = _full(*(shape(f"s{n}", request(gpu=4000), queue="q0") for n in range(5)))
    expected = Expected({1: NOW + SECOND}, lambda _shape, _item: SECOND)
    future = Forward(books.snapshot(NOW), Policy(1), NOW, expected).run(3)
    assert (future.complete, len(future.first)) == (False, 2)


def _one(books: Books, known: Known | None = None, number: int = 2) -> Estimate:
    return estimate(books.snapshot(NOW), Policy(1), NOW, known)[number]


def test_what_fits_starts_now() -> None:
    books = Books({1: node(1, gpus=4)}, {}, {})
    books.submit(shape("s", request(gpu=1000), queue="q0"), NOW)
    found = _one(books, number=1)
    assert (found.earliest, found.latest, found.why) == (NOW, NOW, None)


def test_a_time_limit_bounds_the_start_of_who_waits_for_it() -> None:
    books = _full(shape("next", request(gpu=4000), queue="q0"))
    books.running[1] = replace(books.running[1], ends_by=NOW + 60 * SECOND)
    found = _one(books)
    assert (found.earliest, found.latest) == (NOW, NOW + 60 * SECOND)
    assert found.rests["time-limit"] == 1


def test_finished_runs_narrow_the_interval() -> None:
    books = _full(shape("next", request(gpu=4000), queue="q0"))
    books.running[1] = replace(books.running[1], ends_by=NOW + 600 * SECOND, kind="training")
    times = RunTimes(1, {"kind/training": Learned(10, tuple(n * SECOND for n in range(10, 20)))})
    found = _one(books, Known(times))
    assert (found.earliest, found.latest) == (NOW + 10 * SECOND, NOW + 19 * SECOND)
    assert found.rests["finished-runs"] == 1


def test_where_nothing_is_known_of_an_end_the_interval_is_open_and_says_why() -> None:
    found = _one(_full(shape("next", request(gpu=4000), queue="q0")))
    assert (found.earliest, found.latest, found.why) == (NOW, None, Why.ENDS_UNKNOWN)


def test_what_can_never_fit_has_no_start() -> None:
    found = _one(_full(shape("next", request(gpu=8000), queue="q0")))
    assert (found.earliest, found.latest, found.why) == (None, None, Why.NEVER_FITS)


def covered(seed: int) -> tuple[int, int]:
    """(starts within their interval, starts): runs end somewhere between what their sample has."""
    dice, books, now = _case(seed)
    sample = tuple(sorted(dice.randrange(1, 60 * SECOND) for _ in range(30)))
    known = Known(RunTimes(1, {"kind/x": Learned(30, sample)}))
    for number, (of, item) in list(books.waiting.items()):
        books.waiting[number] = (replace(of, kind="x"), item)
    books.shapes = {key: replace(of, kind="x") for key, of in books.shapes.items()}
    limits = {n: of.time_limit for n, (of, _) in books.waiting.items()}
    for attempt, run in books.running.items():  # as if they had just begun
        limits[attempt] = None if run.ends_by is None else run.ends_by - run.placed_at
        ends_by = None if run.ends_by is None else now + run.ends_by - run.placed_at
        books.running[attempt] = replace(run, placed_at=now, ends_by=ends_by, kind="x")
    told = estimate(books.snapshot(now), NO_EVICTIONS, now, known)
    lengths = {n: min(dice.choice(sample), limit or 2**62) for n, limit in limits.items()}
    started = lived(books, NO_EVICTIONS, now, {n: now + lengths[n] for n in books.running}, lengths)
    closed = {n: found for n, found in told.items() if found.latest is not None}
    within = [
        found.earliest <= started[n] <= found.latest
        for n, found in closed.items()
        if n in started and found.earliest is not None and found.latest is not None
    ]
    return sum(within), len(within)


@pytest.mark.requirement("E5")
def test_nearly_all_starts_fall_into_their_intervals() -> None:
    found = [covered(seed) for seed in range(100)]
    within, starts = (sum(each) for each in zip(*found, strict=True))
    assert starts > 150
    assert within * 100 >= 85 * starts, (within, starts)
