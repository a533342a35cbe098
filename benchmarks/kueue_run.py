"""Kueue's performance work through the whole control plane: submitted when its generator would, every
transition durable with its leaf, run by the simulated engine.
On the machine's clock, or on one that moves when it is told.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from benchmarks.kueue import Load, documents, means, workload
from benchmarks.policies import documents as policy_documents
from benchmarks.support import progress
from steelyard.bootstrap import SWITCH_SECONDS
from steelyard.control.collector import tune
from steelyard.control.loop import ControlLoop
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import MILLISECOND, SECOND
from steelyard.services.declared import apply
from steelyard.services.documents import parse_document
from steelyard.services.live_load import SnapshotSource
from steelyard.services.submission import Submitted
from steelyard.services.workloads import Desk
from steelyard.store.store import Store

ADMIN = Principal("us_0000000000000", "user", "admin", (Binding("admin", RoleName.ADMINISTRATOR, None, 1),))
#: The most that is submitted at once: a group of the store's writer.
MOST_AT_ONCE = 200
#: How far a virtual clock moves in a pass.
STEP = 20 * MILLISECOND
#: How long whoever has nothing to do sleeps on the machine's clock, seconds.
REST = 0.001


class Clock:
    """µs UTC: the machine's, or one that moves when told."""

    def __init__(self, virtual: bool) -> None:
        self.virtual = virtual
        self.at = time.time_ns() // 1000

    def __call__(self) -> int:
        if not self.virtual:
            return time.time_ns() // 1000
        self.at += 1
        return self.at

    def step(self, idle: bool) -> None:
        """The next pass; on the machine's clock that of an idle loop comes a moment later."""
        if self.virtual:
            self.at += STEP
        elif idle:
            time.sleep(REST)


@dataclass(frozen=True)
class Outcome:
    """What a run came to. Waits count from the instant at which the generator submits."""

    wall_s: float
    means: Mapping[str, float]
    evictions: int
    lost_unit_s: float
    processor_s: float
    rss_mb: float


def run(url: str, load: Load, profile: str, virtual: bool, beside: bool = False) -> Outcome:
    """All of the load through one database, until the last release is proven. `beside`: a thread of its own
    submits; else it is done in turns with the loop."""
    assert not (virtual and beside), "a virtual clock stands still between two passes"
    sys.setswitchinterval(SWITCH_SECONDS)  # as in a server
    clock = Clock(virtual)
    store = Store(url, clock)
    store.start()
    with closing(store):
        docs = [*policy_documents(profile), *documents(load)]
        apply(store, ADMIN, [parse_document(each) for each in docs])

        def engine(name: str, spec: Mapping[str, Any]) -> SimulatedEngine:
            return SimulatedEngine(name, parse_simulation(spec["simulation"]), clock)

        loop = ControlLoop(store, engine, lambda _reason: None, "sv_benchmark", inline=True)
        with closing(loop):
            for _ in range(3):
                loop.tick()
            tune()
            begun, used = clock(), time.process_time()
            due = _drive(loop, clock, Generator(store, clock, load, begun), beside)
            wall = (clock() - begun) / SECOND
            return _outcome(store, load, due, wall, time.process_time() - used)


class Generator:
    """Submits each workload when it is due: when asked, or in a thread of its own, as people do beside a
    server's loop."""

    def __init__(self, store: Store, clock: Clock, load: Load, begun: int) -> None:
        self.due: dict[int, tuple[str, int]] = {}  # workload → (size, when it was due)
        self.load = load
        self._store, self._clock, self._begun = store, clock, begun
        self._desk = Desk(store, SnapshotSource())
        self._arrivals, self._sent = load.arrivals(), 0

    @property
    def is_done(self) -> bool:
        """All of it is submitted."""
        return self._sent == len(self._arrivals)

    def send(self) -> int:
        """What is due now, durable when it returns: how many."""
        now, futures = self._clock(), []
        while not self.is_done and len(futures) < MOST_AT_ONCE:
            at, queue, size = self._arrivals[self._sent]
            if self._begun + at > now:
                break
            planned = self._desk.plan(ADMIN, workload(self._sent, queue, size))
            assert isinstance(planned, Submitted)
            self.due[planned.workload_id] = (size.name, self._begun + at)
            futures.append(self._store.writer.submit(planned.unit))
            self._sent += 1
        for future in futures:
            future.result()
        return len(futures)

    def send_all(self, stopped: threading.Event) -> None:
        """Until the last, or until it is stopped."""
        while not self.is_done and not stopped.is_set():
            if not self.send():
                time.sleep(REST)


def _drive(
    loop: ControlLoop, clock: Clock, generator: Generator, beside: bool
) -> dict[int, tuple[str, int]]:
    """Submits and ticks until nothing is live: workload → (size, when it was due)."""
    load, stopped = generator.load, threading.Event()
    bar = progress(f"{load.name}: workloads finished", load.total)
    with ThreadPoolExecutor(1, "generator") as threads:
        sending = threads.submit(generator.send_all, stopped) if beside else None
        try:
            while True:
                sent = generator.send() if sending is None else 0
                was_done = generator.is_done if sending is None else sending.done()
                busy = loop.tick()
                for agent in loop.agents.values():
                    agent.step()  # as its own thread does in a server: what was placed starts now
                assert loop.desk is not None
                live = len(loop.desk.context.state.by_workload)
                bar(len(generator.due) - live)
                if was_done and not live:
                    break
                clock.step(idle=not busy and not sent)
        finally:
            stopped.set()
        if sending is not None:
            sending.result()
    return generator.due


def _outcome(
    store: Store, load: Load, due: Mapping[int, tuple[str, int]], wall: float, processor: float
) -> Outcome:
    units = {size.name: size.units for size in load.sizes}
    with store.read() as view:
        placed = view.execute(
            text("SELECT workload_id, min(placed) FROM attempt WHERE placed IS NOT NULL GROUP BY workload_id")
        ).all()
        done = view.execute(text("SELECT count(*) FROM receipt WHERE state = 'confirmed'")).scalar_one()
        evicted = view.execute(text("SELECT workload_id, lost_time FROM eviction")).all()
    assert len(placed) == load.total, f"{len(placed)} of {load.total} were placed"
    assert load.total <= done <= load.total + len(evicted), f"{done} receipts"  # a victim may have ended
    lost = sum(time_lost * units[due[workload_id][0]] for workload_id, time_lost in evicted)
    return Outcome(
        wall,
        means((due[workload_id][0], at - due[workload_id][1]) for workload_id, at in placed),
        len(evicted),
        lost / SECOND,
        processor,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
