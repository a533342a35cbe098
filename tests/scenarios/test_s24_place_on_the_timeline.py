"""S-24: a gang of 64 devices has its place on the timeline; of the endless stream of one-device jobs around
it those go first that end in time, so that it starts within a stated bound and little use is lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from steelyard.model.policy import Policy, QueueRules
from steelyard.model.units import HOUR, MINUTE
from steelyard.model.workloads import Shape
from steelyard.scheduling import ClusterView, PendingItem, ShapeGroup, Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    ended,
    item,
    node,
    placed,
    policy,
    request,
    shape,
    snapshot,
    started,
)

GANG, DEVICES, WAITING = 1, 64, 40
LIMITS = (15 * MINUTE, 30 * MINUTE, HOUR)  # what users say; the jobs take between half of it and all of it
COMES, HORIZON = 2 * HOUR, 5 * HOUR


def limited(key: str, limit: int, **fields: int) -> Shape:
    return replace(shape(key, request(gpu=8000 if fields else 1000), **fields), time_limit=limit)


@dataclass
class Stream:
    """Always somebody waits for one device. The gang comes once, behind those who wait then."""

    rules: Policy
    dice: Random = field(default_factory=lambda: Random(23))
    ends: dict[int, int] = field(default_factory=dict)
    started: int | None = None
    idle: int = 0  # device-time not used since the gang came and until it starts

    def run(self) -> None:
        base = snapshot([node(number, gpus=8) for number in range(1, 9)])
        jobs = [limited(f"job{limit}", limit) for limit in LIMITS]
        number, now, last = 10, NOW, NOW
        waits: list[tuple[Shape, PendingItem]] = []
        came = False
        while now < NOW + HORIZON:
            if self.started is None and came:
                free = sum(len(d.whole) for v in base.nodes.values() for d in v.accelerators.values())
                self.idle += free * (now - last)
            over = [attempt for attempt, at in self.ends.items() if at <= now]
            base = ended(base, *over)
            for attempt in over:
                del self.ends[attempt]
            if not came and now >= NOW + COMES:
                came = True
                waits.append((limited("gang", HOUR, count=8), item(GANG, now)))
            while True:
                while sum(of.key != "gang" for of, _ in waits) < WAITING:
                    number += 1
                    waits.append((self.dice.choice(jobs), item(number, now)))
                base, went = self._decide(base, waits, now)
                if not went:
                    break
            last, now = now, min(self.ends.values())

    def _decide(
        self, base: Snapshot, waits: list[tuple[Shape, PendingItem]], now: int
    ) -> tuple[Snapshot, bool]:
        groups = [
            ShapeGroup(of, heads := tuple(head for other, head in waits if other is of), len(heads))
            for of in {each.key: each for each, _ in waits}.values()
        ]
        seen = {name: ClusterView(name, now) for name in base.clusters}
        looked = {each.shape.key: now for each in groups}
        base = replace(base, pending=tuple(groups), clusters=seen, last_looked=looked)
        decisions = decide(base, self.rules, now)
        for attempt in placed(decisions):
            of = next(each for each, head in waits if head.attempt_id == attempt)
            waits[:] = [(each, head) for each, head in waits if head.attempt_id != attempt]
            if attempt == GANG:
                self.started = now
            limit = of.time_limit or 0
            self.ends[attempt] = now + (limit if attempt == GANG else self.dice.randrange(limit // 2, limit))
        return base.apply(decisions), bool(decisions.placements)


@pytest.mark.requirement("E12")
def test_the_gang_starts_within_its_bound_and_little_use_is_lost() -> None:
    """Those before it start within the longest time limit, and it within another one."""
    stream = Stream(policy(queues={"q": QueueRules(reservations=1)}))
    stream.run()
    assert stream.started is not None
    waited = stream.started - (NOW + COMES)
    assert waited <= 2 * max(LIMITS)
    assert stream.idle * 100 <= 30 * DEVICES * waited  # of the room, while it waits …
    assert stream.idle * 100 <= 8 * DEVICES * HORIZON  # … and of all of it


def test_without_a_reservation_it_would_starve() -> None:
    """What shows that the test tests something. It is not due yet, either."""
    stream = Stream(policy(queues={"q": QueueRules(reservations=0, starvation_bound=30 * 24 * HOUR)}))
    stream.run()
    assert stream.started is None


def test_two_heroes_that_want_the_same_nodes_get_one_after_the_other() -> None:
    """Neither loses its place because the other wants it, too; what is short goes before both."""
    base = snapshot([node(number, gpus=8) for number in range(1, 3)])
    busy = limited("busy", HOUR)
    base = started(base, ShapeGroup(busy, tuple(item(n) for n in range(90, 92)), 2), at=NOW)
    heroes = [limited("hero", 2 * HOUR, count=2), limited("rival", HOUR, count=2)]
    short, long = limited("short", HOUR), limited("long", 2 * HOUR)
    waits = [ShapeGroup(of, (item(n),), 1) for n, of in enumerate((*heroes, long, short), 1)]
    base = replace(base, pending=tuple(waits))
    decisions = decide(base, policy(queues={"q": QueueRules(reservations=2)}), NOW)
    assert [(r.attempt_id, r.starts_at - NOW) for r in decisions.reservations] == [(1, HOUR), (2, 3 * HOUR)]
    assert placed(decisions) == [4]
