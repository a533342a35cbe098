"""On which models work may run, how fast it is there, and why it starts on one of them: with numbers.

A shape that declares its speeds is restricted to the models that it names. Of one that says nothing they are
learned from finished runs of the same template and size (`run_times`): that orders what it may take, and
restricts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from steelyard.model.resources import ACCELERATORS
from steelyard.model.workloads import Shape
from steelyard.scheduling.run_times import RunTimes


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """Thousandths of the speed on the best model; `runs`: learned from so many. None: it was declared."""

    model: str
    speed: int
    runs: int | None = None


@dataclass(frozen=True, slots=True)
class ModelOption:
    """One model as the assignment saw it.

    `room`: how many attempts of this size what was free could hold, were it all together. `given`: to how
    many that waited in the same queue, at the same priority and of the same size the assignment gave it, this
    one among them. None: it was not assigned. `speed` None: not known. `flavor` None: nothing of that model
    may be taken.
    """

    model: str | None
    flavor: str | None
    speed: int | None
    runs: int | None = None
    room: int | None = None
    given: int | None = None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What an attempt could take, the fastest first, and what it took; `flavor` None: it waits.

    `assigned`: the assignment gave it that, and not what was left over after it.
    """

    workload_id: int
    attempt_id: int
    flavor: str | None
    assigned: bool
    options: tuple[ModelOption, ...]


def speeds_of(shape: Shape, run_times: RunTimes) -> tuple[ModelSpeed, ...]:
    """By model; declared, else learned; empty where nothing is known."""
    if shape.speeds:
        return _declared(shape.speeds)
    if shape.template is None or not run_times.by_model:
        return ()
    size = sum(amount for cls, amount in shape.totals().items() if cls in ACCELERATORS)
    return tuple(ModelSpeed(*found) for found in run_times.speeds(shape.template, size))


@lru_cache(maxsize=4096)
def _declared(speeds: tuple[tuple[str, int], ...]) -> tuple[ModelSpeed, ...]:
    return tuple(ModelSpeed(model, speed) for model, speed in speeds)


def options_of(
    speeds: tuple[ModelSpeed, ...],
    models: Mapping[str, str | None],
    room: Mapping[str, int],
    given: Mapping[str, int],
) -> tuple[ModelOption, ...]:
    """The flavors that may be taken (`models`: flavor → model), and models that are named but have none."""
    found = []
    there = set()
    for flavor, model in models.items():
        speed = next((each for each in speeds if each.model == model), None)
        there.add(model)
        quick, runs = (speed.speed, speed.runs) if speed is not None else (None, None)
        found.append(ModelOption(model, flavor, quick, runs, room.get(flavor), given.get(flavor)))
    found += [ModelOption(s.model, None, s.speed, s.runs) for s in speeds if s.model not in there]
    found.sort(key=_fastest_first)
    return tuple(found)


def _fastest_first(option: ModelOption) -> tuple[int, str, str]:
    return -(option.speed or 0), option.model or "", option.flavor or ""
