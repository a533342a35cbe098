"""A trial under way: the candidate, the observers, the folder, and each look at the inventory as a sample."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from steelyard.model.errors import SteelyardError
from steelyard.poc.candidate import Candidate, ClassSum, Refusal, Resource, TaskSpec
from steelyard.poc.folder import Folder
from steelyard.poc.observers.kernel import KernelProbe, ProcessProbe
from steelyard.poc.observers.observed import Held, Seen
from steelyard.poc.observers.simulation import SimulationProbe
from steelyard.poc.observers.tools import ToolProbe
from steelyard.poc.plan import Observers, Plan

T = TypeVar("T")
Json = dict[str, Any]
_MOST = 20  # names that a sample keeps of what is wrong with it


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the inventory, by the trial's own clock (µs). `oldest`: the age in ms of the oldest
    observation that it rests on, None where the candidate does not say. What is wrong is listed by name."""

    step: str
    at: int
    resources: int | None  # None: only sums were read
    oldest: int | None
    unequal: tuple[str, ...]
    without_reason: tuple[str, ...]
    capacity: dict[str, int]  # CLUSTER/CLASS → the candidate's sum


class Eyes:
    """The observers of a plan."""

    def __init__(self, observers: Observers) -> None:
        self.tools = ToolProbe(observers.tools, observers.devices)
        self.kernel = KernelProbe(observers.root)
        self.processes = ProcessProbe(observers.root)
        self._simulations = observers.simulations

    def look(self, observer: str, cluster: str, device_class: str) -> Seen:
        """What the named observer sees of a class in a cluster."""
        if observer == "simulation":
            return SimulationProbe(self._simulations.get(cluster)).look(device_class)
        return (self.kernel if observer == "kernel" else self.tools).look(device_class)

    def task(self, mark: str, cluster: str) -> Held:
        """What is there of a task."""
        if cluster in self._simulations:
            return SimulationProbe(self._simulations[cluster]).task(mark)
        return self.processes.task(mark)


@dataclass
class Trial:
    """What steps act on. `seen`: what each step wrote down, by its id; rules look at nothing else."""

    plan: Plan
    candidate: Candidate
    folder: Folder
    clock: Callable[[], int] = lambda: time.time_ns() // 1000
    sleep: Callable[[float], None] = time.sleep
    mark: str = field(default_factory=lambda: f"poc-{secrets.token_hex(4)}")
    seen: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    step: str = "1.0"
    later: ExitStack = field(default_factory=ExitStack)  # what is still to be taken back, however it ends

    def __post_init__(self) -> None:
        self.eyes = Eyes(self.plan.observers)

    # ---- what is taken back

    def submit(self, task: TaskSpec) -> str | Refusal:
        """Submits a task that ends with the trial at the latest."""
        asked = self.candidate.submit(task)
        if isinstance(asked, str):
            self.later.callback(self._end, asked)
        return asked

    def _end(self, task: str) -> None:
        with suppress(SteelyardError):
            if self.candidate.task(task).state not in ("ending", "ended"):
                self.candidate.end(task)

    # ---- looking, each time as a sample

    def inventory(self) -> list[Resource]:
        """Everything, with the sums beside it."""
        resources = self.candidate.inventory()
        ages = [one.observed_at for one in resources if one.observed_at is not None]
        self._sample(resources, ages)
        return resources

    def sums(self) -> dict[tuple[str, str], ClassSum]:
        """The sums by cluster and class."""
        _, sums = self.candidate.sums()
        self._sample(None, [one.observed_at for one in sums if one.observed_at is not None], sums)
        return {(one.cluster, one.device_class): one for one in sums}

    def _sample(
        self, resources: list[Resource] | None, ages: list[int], sums: Iterable[ClassSum] = ()
    ) -> None:
        unequal = [f"{one.cluster}/{one.device_class}" for one in sums if one.capacity != sum(one.parts)]
        capacity = {f"{one.cluster}/{one.device_class}": one.capacity for one in sums}
        silent: list[str] = []
        if resources is not None:
            counted: Counter[str] = Counter()
            for one in resources:
                if one.divided:
                    continue
                counted[f"{one.cluster}/{one.device_class}"] += one.capacity
                if one.capacity != sum(one.parts):
                    unequal.append(f"{one.cluster}/{one.uid}")
                if one.state in ("unavailable", "unknown") and not one.reason:
                    silent.append(f"{one.cluster}/{one.uid}")
            capacity = dict(counted)
        now = self.clock()
        sample = Sample(
            step=self.step, at=now, resources=None if resources is None else len(resources),
            oldest=(now - min(ages)) // 1000 if ages else None, unequal=tuple(unequal[:_MOST]),
            without_reason=tuple(silent[:_MOST]), capacity=capacity,
        )  # fmt: skip
        self.samples.append(sample)
        self.folder.append("observe.jsonl", sample)

    # ---- waiting

    def until(self, look: Callable[[], T | None], *, health: bool = False) -> tuple[T | None, int]:
        """What `look` gives as soon as it gives something, and after how many ms; (None, ms) after the bound
        for changes of use, or of `health`."""
        began = self.clock()
        bound = self.plan.bounds.health_ms if health else self.plan.bounds.change_ms
        while True:
            found = look()
            took = (self.clock() - began) // 1000
            if found is not None or took > bound:
                return found, took
            self.sleep(self.plan.bounds.poll_ms / 1000)

    # ---- evidence

    def path(self, name: str) -> str:
        """Where an evidence file of this step lies."""
        return name if name.startswith("observe") else f"runs/s1/{self.step}/{name}"

    def keep(self, name: str, value: Any) -> str:
        """Writes an evidence file of this step."""
        return self.folder.write(self.path(name), value)


def brief(resource: Resource) -> Json:
    """A resource as evidence keeps it: what it is and how it stands, its own record left out."""
    told = msgspec.to_builtins(resource)
    told.pop("raw")
    return {**told, "holders": resource.raw["holders"], "flags": resource.raw.get("flags", [])}
