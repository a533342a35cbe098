"""A small house kept in plain books, from which a snapshot is made anew each time: what really happens.

Nothing here uses `Snapshot.apply` or `with_`: what is free and what is charged is counted from who has what.
So it tells whether those who imagine a change imagine what comes of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Limit, Policy
from steelyard.model.resources import ShareKind
from steelyard.model.workloads import Shape
from steelyard.scheduling import (
    Decisions,
    DropCause,
    Eviction,
    FreeDevices,
    HoldView,
    NodeView,
    PartDevice,
    PendingItem,
    Placement,
    QuotaTree,
    RunningView,
    ShapeGroup,
    ShapeReasons,
    Snapshot,
    decide,
)
from steelyard.scheduling.bundles import imagined_ids, leaving_view, staying_view
from steelyard.scheduling.history import History, Used, start
from steelyard.scheduling.snapshot import least_of
from steelyard.scheduling.what_if import Fate
from tests.unit.scheduling.build import node, org_tree, queue_tree, recomputed, request, shape, snapshot

SECOND = 1_000_000
QUEUES, PROJECTS = ("q0", "q1", "q2"), ("p", "r")


@dataclass
class Books:
    """Who has what, who waits, what the limits are."""

    nodes: dict[int, NodeView]  # empty ones
    limits: dict[tuple[str, str], Limit]  # of the queue tree
    hard: dict[tuple[str, str], Limit]  # of the organisation
    waiting: dict[int, tuple[Shape, PendingItem]] = field(default_factory=dict)
    running: dict[int, RunningView] = field(default_factory=dict)
    holds: dict[int, HoldView] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    submitted: int = 0
    started: dict[Used, int] = field(default_factory=dict)  # since the grid's instant
    evicted: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def trees(self) -> dict[str, QuotaTree]:
        """As they are declared."""
        return {
            QUEUE_TREE: queue_tree(dict(self.limits), QUEUES),
            ORG_TREE: org_tree(dict(self.hard), PROJECTS),
        }

    def snapshot(self, now: int) -> Snapshot:
        """As the loop makes it, from nothing but the books."""
        groups: dict[str, list[PendingItem]] = {}
        came = sorted(self.waiting.values(), key=lambda one: (one[1].submitted, one[1].workload_id))
        for of, item in came:
            groups.setdefault(of.key, []).append(item)
        trees = self.trees()
        made = snapshot(
            [self._free(view) for view in self.nodes.values()],
            *(ShapeGroup(self.shapes[key], tuple(items), len(items)) for key, items in groups.items()),
            queues=trees[QUEUE_TREE], organisation=trees[ORG_TREE],
            running=dict(self.running), holds=dict(self.holds), last_looked=dict(self.looked),
            history=History(started=dict(self.started)), evicted=dict(self.evicted),
        )  # fmt: skip
        clusters = {name: replace(view, observed_at=now) for name, view in made.clusters.items()}
        return replace(made, usage=recomputed(made), clusters=clusters)

    def _free(self, view: NodeView) -> NodeView:
        used: dict[tuple[str, int | None], int] = {}
        kinds: dict[int | None, ShareKind] = {}
        for run in self.running.values():
            for member in run.members:
                for a in member.allocations:
                    if a.node_id == view.id:
                        used[a.flavor, a.device_id] = used.get((a.flavor, a.device_id), 0) + a.quantity
                        kinds[a.device_id] = a.share_kind
        accelerators = {}
        for flavor, free in view.accelerators.items():
            left = {device: 1000 - used.get((flavor, device), 0) for device in free.whole}
            parts = tuple(PartDevice(d, rest, kinds[d]) for d, rest in left.items() if 0 < rest < 1000)
            accelerators[flavor] = FreeDevices(tuple(d for d in free.whole if left[d] == 1000), parts)
        slots = tuple(
            slot.with_free(slot.free - used.get((slot.flavor, slot.device_id), 0)) for slot in view.slots
        )
        return replace(view, accelerators=accelerators, slots=slots)

    def submit(self, of: Shape, now: int) -> PendingItem:
        """One more that waits."""
        self.submitted += 1
        item = PendingItem(self.submitted, self.submitted, now)
        self.shapes[of.key] = of
        self.waiting[item.attempt_id] = (of, item)
        return item

    def end(self, attempt: int) -> None:
        """It leaves, whatever it was doing, and its release is proven."""
        self.running.pop(attempt, None)
        self.holds.pop(attempt, None)
        self.waiting.pop(attempt, None)

    def book(self, decisions: Decisions) -> None:
        """As the loop does: dropped holds, placements, holds, evictions."""
        for dropped in decisions.dropped_holds:
            hold = self.holds.pop(dropped.attempt_id)
            if dropped.cause is not DropCause.VANISHED:
                self.waiting[hold.attempt_id] = (hold.shape, hold.item)
        for placed in decisions.placements:
            self.holds.pop(placed.attempt_id, None)
            self.waiting.pop(placed.attempt_id, None)
            self._start(placed, decisions.now)
        for hold in decisions.holds:
            self.waiting.pop(hold.attempt_id, None)
            self.holds[hold.attempt_id] = hold
        for eviction in decisions.evictions:
            victim = self.running[eviction.attempt_id]
            if eviction.members:
                self.running[victim.attempt_id] = staying_view(victim, eviction.members)
                self.running |= {one.member_id: leaving_view(victim, one) for one in eviction.members}
            else:
                self.running[victim.attempt_id] = replace(victim, stopping=True)
            before = self.evicted.get(eviction.preemptor_queue, ())
            self.evicted[eviction.preemptor_queue] = (*before, decisions.now)
        self.looked.update(dict.fromkeys(decisions.looked, decisions.now))

    def _start(self, placed: Placement, now: int) -> None:
        of = self.shapes[placed.shape_key]
        self.running[placed.attempt_id] = RunningView(
            placed.attempt_id, placed.workload_id, of.key, of.queue, of.project, of.priority, now,
            placed.members, placed.charges, of.preemptible, user=of.user,
            ends_by=None if of.time_limit is None else now + of.time_limit, least=least_of(of),
            ids=imagined_ids(of, placed.attempt_id, placed.members),
        )  # fmt: skip
        start(self.started, (of.queue, of.project, of.user or ""), placed.charges)


@dataclass
class Happened:
    """What the loop did until it had nothing more to do."""

    placements: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    reasons: dict[str, ShapeReasons] = field(default_factory=dict)


def really(books: Books, policy: Policy, now: int) -> Happened:
    """The loop runs, at one instant, until a cycle does nothing more."""
    done = Happened()
    for _ in range(200):
        decisions = decide(books.snapshot(now), policy, now)
        books.book(decisions)
        done.placements += decisions.placements
        done.evictions += decisions.evictions
        done.reasons.update(decisions.reasons)
        if not decisions.changes_state and not decisions.stats.more:
            return done
    raise AssertionError("no fixed point")


def fates(books: Books, done: Happened) -> dict[int, Fate]:
    """What became of every attempt, from the books."""
    found = dict.fromkeys(books.waiting, Fate.WAITS)
    found.update(dict.fromkeys(books.holds, Fate.HELD))
    found.update(dict.fromkeys(books.running, Fate.RUNS))
    for eviction in done.evictions:
        found[eviction.attempt_id] = Fate.SHRINKS if eviction.members else Fate.EVICTED
        for gone in eviction.members:
            found.pop(gone.member_id, None)
    found.update((placed.attempt_id, Fate.STARTS) for placed in done.placements)
    return found


def some_shape(dice: random.Random) -> Shape:
    """One of a few dozen shapes."""
    queue, project = dice.choice(("q0", *QUEUES)), dice.choice(PROJECTS)
    priority, count = dice.choice([0, 0, 10, 100]), dice.choice([1, 1, 1, 2])
    gpu = dice.choice([250, 500, 1000, 1000, 1000, 2000, 2000])
    keep, user = dice.random() < 0.2, dice.choice([None, "ann", "bob"])
    limit = dice.choice([None, 5 * SECOND, 60 * SECOND])
    least = (1,) if count > 1 and dice.random() < 0.5 else ()
    key = f"{queue}-{project}-{priority}-{count}-{gpu}-{keep}-{user}-{limit}-{least}"
    made = shape(
        key, request(gpu=gpu, cpu=1000), count=count, queue=queue, project=project, priority=priority,
        preemptible=not keep,
    )  # fmt: skip
    return replace(made, user=user, time_limit=limit, least=least)


def some_limit(dice: random.Random) -> Limit:
    """A limit of a queue, of the cohort or of a project."""
    if dice.random() < 0.25:
        return Limit(ORG_TREE, dice.choice(PROJECTS), "gpu", 0, dice.choice([1000, 3000, 6000]))
    name = dice.choice([*QUEUES, "cohort"])
    borrowing = dice.choice([None, None, 0, 2000]) if name != "cohort" else None
    lending = dice.choice([None, None, 1000]) if name != "cohort" else None
    subject = dice.choice(["gpu", "gpu", "flavor/a100"])
    return Limit(QUEUE_TREE, name, subject, dice.choice([0, 1000, 2000, 4000, 6000]), borrowing, lending)


def some_books(dice: random.Random) -> Books:
    """Nodes and limits; nobody is there yet."""
    nodes: Mapping[int, NodeView] = {
        number: node(number, gpus=dice.choice([1, 2, 4, 4]), cpu=dice.choice([3_000, 64_000]))
        for number in range(1, dice.choice([2, 3, 4]))
    }
    books = Books(dict(nodes), {}, {})
    for _ in range(dice.choice([0, 0, 1, 2, 4])):
        set_limit(books, some_limit(dice))
    return books


def set_limit(books: Books, limit: Limit) -> None:
    """Declare it."""
    where = books.limits if limit.tree == QUEUE_TREE else books.hard
    where[limit.node, limit.subject] = limit


def live_on(books: Books, dice: random.Random, policy: Policy, now: int, steps: int) -> int:
    """Some life: submits, ends, cycles; the instant after it."""
    for _ in range(steps):
        for _ in range(dice.randrange(1, 5)):
            books.submit(some_shape(dice), now)
        if books.running and dice.random() < 0.4:
            books.end(dice.choice(sorted(books.running)))
        now += dice.randrange(1, 3 * SECOND)
        really(books, policy, now)
    return now + 2 * SECOND
