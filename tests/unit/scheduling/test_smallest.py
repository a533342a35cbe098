"""The smallest change that would start it: applied, it starts; no smaller one of its kind does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.model.policy import (
    NodeOrder,
    Policy,
    PreemptionRule,
    QueueingStrategy,
    QueueOrder,
    QueueRules,
)
from steelyard.model.workloads import Shape
from steelyard.scheduling import AddPending, PendingItem, Snapshot, decide
from steelyard.scheduling.explain import ORDER
from steelyard.scheduling.remedies import Elsewhere, Remedy, RemedyKind, World, applied, world_of
from steelyard.scheduling.smallest import HORIZON, smallest
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    group,
    item,
    node,
    nominal,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)
from tests.unit.scheduling.test_decide import contended, shapes, worlds

SECOND = 1_000_000
ONE, FOUR = request(gpu=1000, cpu=1000), request(gpu=4000, cpu=1000)


@dataclass(frozen=True)
class Case:
    """A workload that waits in a world with a past."""

    snapshot: Snapshot
    policy: Policy
    shape: Shape
    item: PendingItem
    elsewhere: tuple[Elsewhere, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Some work runs, some waits for it, and some has come since."""
    rules = {
        name: QueueRules(strategy=draw(st.sampled_from([None, *QueueingStrategy])))
        for name in ("q", "r")
    }
    found = policy(
        preemption=PreemptionRule(within_queue=draw(st.booleans())), queues=rules,
        order=draw(st.sampled_from(QueueOrder)), nodes=draw(st.sampled_from(NodeOrder)),
    )  # fmt: skip
    world = draw(worlds() | contended())
    limits = st.none() | st.integers(1, 12).map(lambda seconds: seconds * SECOND)
    world = replace(world, pending=tuple(
        replace(each, shape=replace(each.shape, time_limit=draw(limits))) for each in world.pending
    ))
    for step in range(draw(st.integers(0, 2))):
        world = world.apply(decide(world, found, NOW - (9 - step) * SECOND))
    running = {
        attempt: replace(run, ends_by=draw(st.none() | st.integers(1, 9).map(lambda n: NOW + n * SECOND)))
        for attempt, run in world.running.items()
    }
    world = replace(world, running=running, last_looked={})
    number = iter(range(2000, 3000))
    for each in draw(st.just([]) | shapes(fractions=True)):
        each = replace(each, key=f"new-{each.key}", time_limit=draw(limits), least=draw(leasts(each)))
        world = world.with_(AddPending(each, item(next(number))))
    heads = [(each.shape, head) for each in world.pending for head in each.heads]
    if not heads:
        heads = [(shape("probe", FOUR), item(999))]
        world = world.with_(AddPending(*heads[0]))
    chosen, head = draw(st.sampled_from(heads))
    to = st.builds(Elsewhere, st.sampled_from(["q", "r"]), st.none(), st.integers(0, 2))
    elsewhere = draw(st.lists(to))
    return Case(world, found, chosen, head, tuple(elsewhere))


@st.composite
def planned(draw: st.DrawFn) -> Case:
    """Wide gangs wait first, with places planned for them; small work with a time limit comes after them."""
    base = snapshot([node(number, gpus=4) for number in range(1, draw(st.integers(1, 3)) + 1)])
    busy = [item(number) for number in range(1, draw(st.integers(2, 8)) + 1)]
    base = started(base, group(shape("run", ONE), *busy))
    running = {
        attempt: replace(run, ends_by=NOW + draw(st.integers(1, 20)) * SECOND)
        for attempt, run in base.running.items()
    }
    groups = [
        group(shape(f"gang{n}", FOUR, count=draw(st.integers(1, 2)), queue=draw(st.sampled_from(["q", "r"]))),
              item(100 + n))
        for n in range(draw(st.integers(1, 3)))
    ]
    limits = st.none() | st.integers(1, 30).map(lambda seconds: seconds * SECOND)
    small = []
    for number in range(draw(st.integers(1, 3))):
        each = shape(f"small{number}", draw(st.sampled_from([ONE, request(gpu=2000)])))
        small.append((replace(each, time_limit=draw(limits)), item(200 + number)))
    groups += [group(*each) for each in small]
    rules = {"q": QueueRules(reservations=draw(st.integers(0, 3)))}
    trees = {"queue": queue_tree({}, ("q", "r"))}
    world = replace(base, running=running, pending=tuple(groups), trees=trees)
    return Case(world, policy(queues=rules), *draw(st.sampled_from(small)), ())


@st.composite
def choosy(draw: st.DrawFn) -> Case:
    """Nodes of two flavors, of which the workload takes one only, and some of either is in use."""
    flavors = draw(st.lists(st.sampled_from(["a100", "b200"]), min_size=2, max_size=4))
    base = snapshot([node(n, gpus=2, flavor=name) for n, name in enumerate(flavors, start=1)])
    for number in range(draw(st.integers(0, 4))):
        gpus, only = draw(st.sampled_from([1000, 2000])), draw(st.sampled_from([("a100",), ("a100",), ()]))
        job = shape(f"run{number}", request(gpu=gpus, flavors=only))
        base = started(base, group(job, item(number + 1)))
    only = request(gpu=draw(st.sampled_from([1000, 2000])), cpu=1000, flavors=("a100",))
    wanted = shape("only", only, count=draw(st.integers(1, 2)))
    other = shape("other", request(gpu=1000, flavors=(draw(st.sampled_from(["a100", "b200"])),)))
    world = replace(base, pending=(group(other, item(100)), group(wanted, item(101))))
    return Case(world, policy(nodes=draw(st.sampled_from(NodeOrder))), wanted, item(101), ())


def leasts(of: Shape) -> st.SearchStrategy[tuple[int, ...]]:
    """All or none, or the fewest members of each role that it would start with."""
    return st.just(()) | st.tuples(*(st.integers(1, count) for _, count, _ in of.roles))


def starts(case: Case, world: World) -> bool:
    """By a whole decision, with everything else that waits."""
    decided = decide(world.waiting(), case.policy, NOW)
    return world.item.attempt_id in {placed.attempt_id for placed in decided.placements}


def remedies(case: Case) -> tuple[World, tuple[Remedy, ...]]:
    found = smallest(case.snapshot, case.policy, NOW, case.shape, case.item, case.elsewhere)
    return world_of(case.snapshot, case.shape, case.item), found


def check_all(case: Case) -> Counter[str]:
    """What is told starts it, nothing smaller of its kind does, and what is not told would not."""
    world, found = remedies(case)
    kinds = [remedy.kind for remedy in found]
    assert kinds == sorted(set(kinds), key=list(RemedyKind).index)
    if starts(case, world):
        assert found == ()
        return Counter(starts=1)
    for remedy in found:
        assert starts(case, applied(world, remedy)), remedy
        for smaller in () if remedy.approximate else below(case, remedy):
            assert not starts(case, applied(world, smaller)), (remedy, smaller)
    for kind, others in everything(case).items():
        for remedy in () if kind in kinds else others:
            assert not starts(case, applied(world, remedy)), remedy
    return Counter(map(str, kinds)) if kinds else Counter(none=1)


@pytest.mark.requirement("J4", "E5")
@given(cases() | planned() | choosy())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_change_applied_starts_the_workload_and_nothing_smaller_of_its_kind_does(case: Case) -> None:
    check_all(case)


@pytest.mark.soak
def test_the_same_in_thousands_of_worlds_of_which_every_kind_is_met() -> None:
    met: Counter[str] = Counter()

    @given(cases() | planned() | choosy())
    @settings(max_examples=5000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def run(case: Case) -> None:
        met.update(check_all(case))

    run()
    assert all(met[kind] >= 20 for kind in RemedyKind), met


def everything(case: Case) -> dict[RemedyKind, list[Remedy]]:
    """All changes of the kinds that can be listed whole."""
    listed: dict[RemedyKind, list[Remedy]] = {kind: [] for kind in RemedyKind}
    for role, count, asked in case.shape.roles:
        listed[RemedyKind.FEWER_MEMBERS] += [
            Remedy(RemedyKind.FEWER_MEMBERS, role, before=count, after=after) for after in range(1, count)
        ]
        listed[RemedyKind.FEWER_DEVICES] += [
            Remedy(RemedyKind.FEWER_DEVICES, role, cls.value, amount, after)
            for cls, amount in asked.amounts if cls in ORDER for after in range(1000, amount, 1000)
        ]
    listed[RemedyKind.OTHER_QUEUE] = [
        Remedy(RemedyKind.OTHER_QUEUE, to=to) for to in case.elsewhere if to.queue != case.shape.queue
    ][:8]
    listed[RemedyKind.WAIT_FOR] = [
        Remedy(RemedyKind.WAIT_FOR, attempts=(attempt,)) for attempt in case.snapshot.running
    ]
    return listed


def below(case: Case, remedy: Remedy) -> Iterable[Remedy]:
    """Changes of the kind that are smaller."""
    if remedy.kind in (RemedyKind.FEWER_MEMBERS, RemedyKind.FEWER_DEVICES):
        return _less(case, remedy)
    if remedy.kind is RemedyKind.RAISE_LIMIT:
        return _lower(remedy)
    if remedy.kind is RemedyKind.SHORTER_TIME_LIMIT:
        longest = (remedy.before or HORIZON) // SECOND
        longer = range((remedy.after or 0) // SECOND + 1, min(longest, 30) + (remedy.before is None))
        return [replace(remedy, after=seconds * SECOND) for seconds in longer]
    return _sooner(case, remedy) if remedy.kind is RemedyKind.WAIT_FOR else ()


def _less(case: Case, remedy: Remedy) -> Iterable[Remedy]:
    given_up = (remedy.before or 0) - (remedy.after or 0)
    for other in everything(case)[remedy.kind]:
        earlier = other.resource is not None and rank(other) < rank(remedy)
        less = (other.before or 0) - (other.after or 0) < given_up
        if earlier or (other.resource == remedy.resource and less):
            yield other
    if remedy.kind is RemedyKind.FEWER_DEVICES and (remedy.before or 0) % 1000:
        for step in {1, given_up // 2, given_up - 1} - {0, given_up}:
            yield replace(remedy, after=(remedy.before or 0) - step)


def _lower(remedy: Remedy) -> Iterable[Remedy]:
    steps = [sorted({0, 1, each.by // 2, each.by - 1000, each.by - 1, each.by}) for each in remedy.raises]
    for values in product(*([step for step in each if step >= 0] for each in steps)):
        pairs = list(zip(values, remedy.raises, strict=True))
        if any(value < each.by for value, each in pairs):
            yield replace(
                remedy, raises=tuple(replace(each, by=value) for value, each in pairs if value)
            )


def _sooner(case: Case, remedy: Remedy) -> Iterable[Remedy]:
    running = case.snapshot.running
    (*fewer, last) = remedy.attempts
    if fewer:
        yield replace(remedy, attempts=tuple(fewer))
    end = running[last].ends_by
    for attempt, run in running.items():
        if fewer or (run.ends_by is not None and (end is None or run.ends_by < end)):
            yield replace(remedy, attempts=(attempt,))


def rank(remedy: Remedy) -> int:
    return [cls.value for cls in ORDER].index(remedy.resource or "")


# --- by example ------------------------------------------------------------------------------------------
def told(base: Snapshot, *args: object, found: Policy = POLICY) -> list[Remedy]:
    return list(smallest(base, found, NOW, *args))  # type: ignore[arg-type]


def test_a_gang_is_told_how_many_members_would_start() -> None:
    wanted = shape("s", ONE, count=5)
    base = snapshot([node(1, gpus=2), node(2, gpus=1)], group(wanted, item(1)))
    (members,) = told(base, wanted, item(1))
    assert (members.kind, members.role, members.before, members.after) == (
        RemedyKind.FEWER_MEMBERS, "role0", 5, 3
    )


def test_a_member_is_told_how_many_devices_there_are_on_one_node() -> None:
    wanted = shape("s", request(gpu=8000, cpu=1000))
    base = snapshot([node(1, gpus=2), node(2, gpus=3)], group(wanted, item(1)))
    (devices,) = told(base, wanted, item(1))
    assert (devices.kind, devices.resource, devices.after) == (RemedyKind.FEWER_DEVICES, "gpu", 3000)


def test_a_fraction_is_told_exactly_what_is_left() -> None:
    base = started(snapshot([node(1, gpus=1)]), group(shape("run", request(gpu=630)), item(1)))
    wanted = shape("s", request(gpu=500))
    (devices, wait) = told(replace(base, pending=(group(wanted, item(2)),)), wanted, item(2))
    assert devices.after == 370
    assert wait.attempts == (1,)


def test_an_excluded_flavor_of_the_same_class_is_named_and_a_cpu_pool_never_is() -> None:
    wanted = shape("s", request(gpu=1000, cpu=1000, flavors=("a100",)))
    base = snapshot(
        [node(1, gpus=0), node(2, gpus=1, flavor="b200"), node(3, gpus=1, flavor="npu-x")],
        group(wanted, item(1)),
    )
    (other,) = told(base, wanted, item(1))
    assert (other.kind, other.flavor) == (RemedyKind.OTHER_FLAVOR, "b200")


def test_another_queue_of_the_project_is_named() -> None:
    limits = nominal("q", "gpu", 0, 0) | nominal("r", "gpu", 2000, 0)
    wanted = shape("s", ONE)
    base = snapshot([node(1, gpus=2)], group(wanted, item(1)), queues=queue_tree(limits, ("q", "r")))
    queue, limit = told(base, wanted, item(1), (Elsewhere("r", None, 0),))
    assert queue.to == Elsewhere("r", None, 0)
    assert [(each.node, each.by) for each in limit.raises] == [("q", 1000)]


def test_a_limit_is_raised_by_exactly_what_it_is_short_also_for_those_who_go_first() -> None:
    limits = nominal("q", "gpu", 1000, 0)
    base = started(
        snapshot([node(1, gpus=8)], queues=queue_tree(limits)), group(shape("run", ONE), item(1))
    )
    first, wanted = shape("a", ONE), shape("b", request(gpu=2000))
    waits = replace(base, pending=(group(first, item(2)), group(wanted, item(3))))
    limit = told(waits, wanted, item(3))[-1]
    assert [(each.node, each.field, each.by) for each in limit.raises] == [("q", "nominal", 3000)]


def test_of_two_holders_the_one_that_ends_first_is_waited_for() -> None:
    base = started(
        snapshot([node(1, gpus=1), node(2, gpus=1)]), group(shape("run", ONE), item(1), item(2))
    )
    running = {
        attempt: replace(run, ends_by=NOW + (3 - attempt) * SECOND) for attempt, run in base.running.items()
    }
    wanted = shape("s", ONE)
    (wait,) = told(replace(base, running=running, pending=(group(wanted, item(3)),)), wanted, item(3))
    assert (wait.kind, wait.attempts, wait.at) == (RemedyKind.WAIT_FOR, (2,), NOW + SECOND)


def test_where_one_end_does_not_do_those_that_end_first_are_waited_for_together() -> None:
    base = started(snapshot([node(1, gpus=4)]), group(shape("run", ONE), *(item(n) for n in range(1, 5))))
    wanted = shape("s", request(gpu=3000))
    found = told(replace(base, pending=(group(wanted, item(9)),)), wanted, item(9))
    wait = next(remedy for remedy in found if remedy.kind is RemedyKind.WAIT_FOR)
    assert len(wait.attempts) == 3
    assert [holder.amount for holder in wait.holders] == [1000, 1000, 1000]


def test_who_gives_nothing_of_what_is_missing_is_not_waited_for() -> None:
    base = started(
        snapshot([node(1, gpus=2)]),
        group(shape("cpu", request(cpu=1000)), item(1), item(2)), group(shape("run", ONE), item(3), item(4)),
    )  # fmt: skip
    running = {
        attempt: replace(run, ends_by=NOW + attempt * SECOND) for attempt, run in base.running.items()
    }
    wanted = shape("s", request(gpu=2000))
    found = told(replace(base, running=running, pending=(group(wanted, item(9)),)), wanted, item(9))
    wait = next(remedy for remedy in found if remedy.kind is RemedyKind.WAIT_FOR)
    assert wait.attempts == (3, 4)


def test_nothing_is_told_for_what_is_not_eligible_yet_and_where_the_queue_is_stopped() -> None:
    wanted = shape("s", request(gpu=8000))
    later = item(1, not_before=NOW + SECOND)
    assert told(snapshot([node(1, gpus=2)], group(wanted, later)), wanted, later) == []


def before_a_planned_place(limit: int | None) -> tuple[Snapshot, Shape]:
    """Three of four devices are in use for ten more seconds, and a gang has its place planned after that."""
    base = started(snapshot([node(1, gpus=4)]), group(shape("run", request(gpu=3000)), item(90)))
    running = {90: replace(base.running[90], ends_by=NOW + 10 * SECOND)}
    short = replace(shape("short", ONE), time_limit=limit)
    waits = (group(shape("gang", FOUR), item(1)), group(short, item(2)))
    return replace(base, running=running, pending=waits), short


@pytest.mark.parametrize("limit", [None, 60 * SECOND, 10 * SECOND + 1])
def test_the_longest_time_limit_that_delays_no_planned_place_is_told(limit: int | None) -> None:
    base, short = before_a_planned_place(limit)
    found = {remedy.kind: remedy for remedy in told(base, short, item(2))}
    shorter = found[RemedyKind.SHORTER_TIME_LIMIT]
    assert (shorter.before, shorter.after) == (limit, 10 * SECOND)
    assert told(*before_a_planned_place(10 * SECOND), item(2)) == []
