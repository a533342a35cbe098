"""A whole control plane in one process on a virtual clock: store, loops, a simulated cluster, a desk.

Nothing waits for real time: `run_until` ticks the loop and moves the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from steelyard.control.loop import ControlLoop
from steelyard.engines.port import Engine
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import workloads
from steelyard.services.checks import check_everything
from steelyard.services.declared import apply
from steelyard.services.documents import parse_document
from steelyard.services.live_load import SnapshotSource
from steelyard.store.store import Store

START = 1_800_000_000_000_000
ADMIN = Principal("us_0000000000000", "user", "admin", (Binding("admin", RoleName.ADMINISTRATOR, None, 1),))

DOCUMENTS = """
kind: Cluster
metadata: {name: sim}
spec:
  engine: simulated
  simulation:
    nodes:
    - {count: 2, prefix: n, cpu: "16", memory: 64Gi,
       devices: [{class: gpu, family: nvidia, model: A100, count: 4, memory: 80Gi}]}
    timing: {provision: 10ms, image: 10ms, environment: 10ms, launch: 10ms, stop: 10ms, release: 10ms}
---
kind: Cluster
metadata: {name: other}
spec:
  engine: simulated
  simulation:
    nodes: [{count: 1, prefix: m, cpu: "8", memory: 32Gi}]
---
kind: Pool
metadata: {name: accelerators}
spec:
  {cluster: sim, purpose: training, owner: platform, flavors: [{name: a100, class: gpu},
  {name: sim-cpu, class: cpu}, {name: sim-memory, class: memory}]}
---
kind: Pool
metadata: {name: cores}
spec:
  {cluster: other, purpose: batch, owner: platform,
  flavors: [{name: other-cpu, class: cpu}, {name: other-memory, class: memory}]}
---
kind: Team
metadata: {name: vision}
spec: {}
---
kind: Team
metadata: {name: language}
spec: {}
---
kind: Project
metadata: {name: detect}
spec: {team: vision}
---
kind: Project
metadata: {name: translate}
spec: {team: language}
---
kind: Namespace
metadata: {name: detect-dev}
spec: {project: detect, environment: dev, costCentre: c1}
---
kind: Namespace
metadata: {name: translate-dev}
spec: {project: translate, environment: dev, costCentre: c2}
---
kind: PriorityClass
metadata: {name: normal}
spec: {value: 10}
---
kind: PriorityClass
metadata: {name: high}
spec: {value: 100}
---
kind: Cohort
metadata: {name: all}
spec: {limits: []}
---
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "8"}]}
---
kind: Quota
metadata: {name: translate}
spec: {project: translate, limits: [{class: gpu, hard: "2", onExceed: refuse}]}
---
kind: Routing
metadata: {name: default}
spec: {routes: [{queue: main, priorityClass: normal}, {queue: main, priorityClass: high}]}
"""


class VirtualClock:
    """Microseconds that move only when told."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def __call__(self) -> int:
        self.at += 1  # two readings are never the same instant
        return self.at

    def advance(self, micros: int) -> None:
        """Let time go by."""
        self.at += micros


class House:
    """The control plane under test."""

    def __init__(
        self,
        url: str,
        folder: Path,
        documents: str = DOCUMENTS,
        *,
        clock: VirtualClock | None = None,
        wrap: Callable[[Engine], Engine] = lambda engine: engine,
        holder: str = "sv_test",
    ) -> None:
        self.clock = clock or VirtualClock()
        self.folder = folder
        self.wrap = wrap
        self.tampered = False  # the books were damaged on purpose
        self.holder = holder
        self.engines: dict[str, Engine] = {}
        self.store = Store(url, self.clock, wall=getattr(self.clock, "wall", None))
        self.store.start()
        self.apply(documents)
        self.loop = self._loop()
        self.desk = workloads.Desk(self.store, SnapshotSource())
        for _ in range(3):
            self.loop.tick()

    def _loop(self) -> ControlLoop:
        return ControlLoop(self.store, self._engine, lambda _reason: None, self.holder, inline=True)

    def _engine(self, name: str, spec: Mapping[str, Any]) -> Engine:
        made = SimulatedEngine(
            name, parse_simulation(spec["simulation"]), self.clock, self.folder / f"{name}.jsonl"
        )
        self.engines[name] = self.wrap(made)
        return self.engines[name]

    def restart(self) -> None:
        """The loop dies without a word and a new one starts over the same store."""
        self.loop = self._loop()

    def apply(self, documents: str) -> None:
        """Declare objects."""
        apply(self.store, ADMIN, [parse_document(doc) for doc in yaml.safe_load_all(documents)])

    def submit(self, name: str, *, namespace: str = "detect-dev", **spec: Any) -> str:
        """Submit a one-role workload; its id. `requests`, `expect`, `count`, `min`, `grow` go to the role."""
        role: dict[str, Any] = {
            "name": "main",
            "command": ["train"],
            "count": spec.pop("count", 1),
            "requests": spec.pop("requests", {"cpu": "1", "memory": "1Gi", "gpu": 1}),
            "expect": spec.pop("expect", {"run": "1s"}),
            **{name: spec.pop(name) for name in ("min", "grow") if name in spec},
        }
        document = {
            "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"kind": "training", **spec, "roles": [role]},
        }
        return str(workloads.submit(self.desk, ADMIN, document)["id"])

    def show(self, workload_id: str) -> dict[str, Any]:
        """The page of a workload."""
        return workloads.show(self.desk, ADMIN, parse("workload", workload_id))

    def phase(self, workload_id: str) -> str:
        """Its phase."""
        return str(self.show(workload_id)["phase"])

    def cancel(self, workload_id: str) -> None:
        """Ask for its end."""
        workloads.cancel(self.desk, ADMIN, parse("workload", workload_id))

    def hold(self, workload_id: str) -> None:
        """Take it out of the queue."""
        workloads.hold(self.desk, ADMIN, parse("workload", workload_id))

    def release(self, workload_id: str) -> None:
        """Put it back."""
        workloads.release(self.desk, ADMIN, parse("workload", workload_id))

    def tick(self, times: int = 1, step: int = 10_000) -> None:
        """Tick the loop; the clock moves `step` µs before each."""
        for _ in range(times):
            self.clock.advance(step)
            self.loop.tick()

    def run_until(self, done: Callable[[], bool], *, step: int = 20_000, most: int = 2_000) -> None:
        """Tick until `done`; fails when that takes too many ticks."""
        for _ in range(most):
            if done():
                return
            self.tick(step=step)
        live = {render("workload", w): a.phase for w, a in self.live.items()}
        raise AssertionError(f"not reached after {most} ticks; live: {live}")

    @property
    def live(self) -> dict[int, Any]:
        """Live workloads by id."""
        assert self.loop.desk is not None
        return self.loop.desk.context.state.by_workload

    def run_dry(self) -> None:
        """Until nothing is live any more."""
        self.tick()
        self.run_until(lambda: not self.live)

    def close(self) -> None:
        """Let go. Whatever a test did, its books must add up (CK1 to CK9) and its log be whole."""
        try:
            broken = [] if self.tampered else [c for c in check_everything(self.store) if not c.ok]
            assert not broken, broken
        finally:
            self.loop.close()
            self.store.close()
