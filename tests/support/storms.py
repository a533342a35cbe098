"""Random lives of a whole house: submits of several shapes, cancels, preemption, lost clusters, moved limits.

A storm is a list of steps; each is one act of a person or of fate, followed by ticks of the loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

from steelyard.model.errors import ConflictError, SteelyardError, UnavailableError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import Phase
from steelyard.model.units import SECOND
from steelyard.services import workloads
from tests.support.house import ADMIN, DOCUMENTS, House

SHAPES: list[dict[str, object]] = [
    {"requests": {"cpu": "1", "memory": "1Gi", "gpu": 1}},
    {"requests": {"cpu": "1", "memory": "1Gi", "gpu": 2}},
    {"requests": {"cpu": "2", "memory": "2Gi", "gpu": 4}},
    {"requests": {"cpu": "1", "memory": "1Gi", "gpu": "500m"}},
    {"requests": {"cpu": "500m", "memory": "512Mi", "gpu": 2}, "count": 2},
    {"requests": {"cpu": "1", "memory": "1Gi", "gpu": 1}, "count": 5, "min": 1, "grow": True},
    {"requests": {"cpu": "4", "memory": "8Gi"}},
    {"requests": {"cpu": "7", "memory": "1Gi"}, "count": 2},
]
LIMITS = """
kind: Queue
metadata: {{name: main}}
spec: {{cohort: all, owner: platform, stopped: {stopped}, limits: [{{class: gpu, nominal: "{gpu}"}}]}}
"""
#: Gangs get members again soon after some left.
RESTLESS = """
kind: SchedulingPolicy
metadata: {name: default}
spec: {growth: {stabilizationWindow: 200ms}}
"""
FAULTS = [
    "",
    "",
    "suffer: [{fault: cluster-lost, for: 800ms}]",
    "suffer: [{fault: lost-reply, count: 3}]",
    "suffer: [{fault: node-lost, match: {node: n-0}, for: 600ms}]",
    "suffer: [{fault: device-vanishes, match: {node: n-1}, count: 1, for: 500ms}]",
    "suffer: [{fault: stuck-release, count: 2, for: 200ms}]",
    "suffer: [{fault: start-failure, count: 1}]",
]
CLUSTER = DOCUMENTS.split("---")[0]


class Storm:
    """One random life. `after_tick` is called after each tick of the loop."""

    def __init__(self, house: House, seed: int, after_tick: Callable[[], None] = lambda: None) -> None:
        self.house = house
        self.dice = random.Random(seed)
        self.after_tick = after_tick
        self.known: list[str] = []
        self.steps: list[Callable[[], None]] = [
            self.submit, self.submit, self.submit, self.submit_high, self.submit_high, self.submit_many,
            self.submit_many, self.cancel, self.cancel_reserved, self.cancel_reserved, self.fate,
            self.hold_and_release, self.retry, self.limits, self.fate, self.move, self.restart, self.wait,
        ]  # fmt: skip

    def run(self, steps: int) -> None:
        """Live through so many steps, then let everything end."""
        for _ in range(steps):
            with suppress(SteelyardError):  # refused: a quota, a phase that does not allow it
                self.dice.choice(self.steps)()
            for _ in range(self.dice.randrange(1, 6)):
                self.tick()
        self.house.apply(CLUSTER)
        self.house.apply(LIMITS.format(gpu=8, stopped="false"))
        for workload in self.known:
            try:
                self.house.cancel(workload)
            except SteelyardError:
                continue
        for _ in range(600):
            self.tick(SECOND // 5)
            if self.house.loop.desk is not None and not self.house.live:
                return
        raise AssertionError("something is still live")

    def tick(self, micros: int | None = None) -> None:
        """One pass of the loop, some time later."""
        try:
            self.house.tick(step=self.dice.randrange(1_000, 400_000) if micros is None else micros)
        except (ConflictError, UnavailableError):
            return  # somebody was quicker, or the database failed: the next tick loads anew what is there
        self.after_tick()

    def submit(self, **more: object) -> None:
        """One workload of some shape."""
        run = f"{self.dice.randrange(10, 3000)}ms"
        namespace = self.dice.choice(["detect-dev", "detect-dev", "translate-dev"])
        spec: dict[str, object] = {**self.dice.choice(SHAPES), "expect": {"run": run}, **more}
        spec["preemptible"] = self.dice.random() < 0.9
        if self.dice.random() < 0.7:  # what is bounded lets others reserve, and go first
            spec["timeLimit"] = self.dice.choice(["1s", "4s", "9s"])
        name = f"w{len(self.known)}"
        self.known.append(self.house.submit(name, namespace=namespace, **spec))

    def submit_high(self) -> None:
        """One that may evict others."""
        self.submit(priorityClass="high")

    def submit_many(self) -> None:
        """A handful of one shape."""
        shape = self.dice.choice(SHAPES)
        for _ in range(self.dice.randrange(2, 6)):
            self.submit(**shape)

    def cancel(self) -> None:
        """Somebody changes their mind."""
        if self.known:
            self.house.cancel(self.dice.choice(self.known))

    def hold_and_release(self) -> None:
        """Out of the queue and, maybe after a while, back."""
        if self.known:
            workload = self.dice.choice(self.known)
            self.house.hold(workload)
            for _ in range(self.dice.randrange(3)):
                self.tick()
            self.house.release(workload)

    def retry(self) -> None:
        """Once more."""
        if self.known:
            workloads.retry(self.house.desk, ADMIN, parse("workload", self.dice.choice(self.known)))

    def limits(self) -> None:
        """A quota moves, or the queue is stopped."""
        stopped = "true" if self.dice.random() < 0.2 else "false"
        self.house.apply(LIMITS.format(gpu=self.dice.choice([4, 6, 8, 8]), stopped=stopped))

    def fate(self) -> None:
        """The accelerators' cluster suffers something, or recovers."""
        cluster = CLUSTER.rstrip() + f"\n    {self.dice.choice(FAULTS)}\n"
        if self.dice.random() < 0.7:  # who is asked to stop takes its time: places are kept meanwhile
            cluster = cluster.replace("stop: 10ms, release: 10ms", "stop: 900ms, release: 400ms")
        self.house.apply(cluster)

    def cancel_reserved(self) -> None:
        """One for which others are stopping leaves."""
        desk = self.house.loop.desk
        for attempt in [] if desk is None else desk.context.state.attempts.values():
            if attempt.phase is Phase.RESERVED:
                self.house.cancel(render("workload", attempt.workload_id))
                if self.dice.random() < 0.5:
                    self.house.loop.tick()
                    self.restart()  # before anything was decided on it
                return

    def move(self) -> None:
        """A project moves to another team, or back."""
        team = self.dice.choice(["vision", "language"])
        self.house.apply(f"kind: Project\nmetadata: {{name: detect}}\nspec: {{team: {team}}}")

    def restart(self) -> None:
        """The loop dies and a new one begins."""
        self.house.restart()

    def wait(self) -> None:
        """Nothing happens for a while."""
        self.tick(SECOND)
