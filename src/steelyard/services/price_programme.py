"""What each size of a fraction earns: the dual values of a cutting-stock programme over a mix of tasks.

Devices are cut into sets of sizes (patterns) so that as much as possible is handed out, while a part of the
mix must be placed and at most twice that may be. A size that leaves no useful room beside it earns a whole
device; one that fits into room which is there anyway earns nothing.

A revised simplex with columns made as they are needed (Gilmore and Gomory, 1961): the next pattern is the
best filling of a device at the present prices. Floating point is allowed here, since what comes of it is
rounded, stored with a version, and only looked up by decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from statistics import median_low
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.prices import DEVICE, Prices
from steelyard.services.model_prices import model_prices

Reals: TypeAlias = NDArray[np.float64]
#: Parts of the mix that must be placed, in tenths; the first that can be is taken.
PARTS = (7, 6, 5, 4)
#: Sizes that are told apart; above, sizes are rounded up to steps that keep their number below it.
MOST_SIZES = 64
_SHORT = 100.0  # what a missing task costs, in devices: more than any pattern can earn
_TINY = 1e-9
_MOST_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of task of a mix: milli-devices and milli-cores of one, how many there are, and the models
    that would do (empty: any)."""

    milli: int
    cores: int
    count: int = 1
    models: frozenset[str] = frozenset()


def prices_of(
    tasks: Iterable[Task], version: int = 0, capacity: Mapping[str, int] | None = None
) -> Prices | None:
    """The prices that follow from a mix; None where nothing in it asks for a device. `capacity`: milli-
    devices by model; without it no model has a price."""
    asked = [task for task in tasks if task.milli > 0 and task.count > 0]
    parts = _parts(asked)
    wholes: dict[int, list[int]] = {}
    for task in asked:
        if task.milli % WHOLE_DEVICE == 0:
            wholes.setdefault(task.milli // WHOLE_DEVICE, []).extend([task.cores] * task.count)
    if not asked:
        return None
    counts = {size: sum(task.count for task in of) for size, of in parts.items()}
    if wholes:
        counts[WHOLE_DEVICE] = sum(count * len(of) for count, of in wholes.items())
    earned = earnings(counts)
    return Prices(
        version,
        tuple((size, earned[size], _median(of)) for size, of in sorted(parts.items())),
        tuple((count, median_low(of)) for count, of in sorted(wholes.items())),
        model_prices(_by_models(asked), capacity or {}),
    )


def _by_models(tasks: Iterable[Task]) -> dict[frozenset[str], int]:
    """Milli-devices by the models that would do."""
    found: dict[frozenset[str], int] = {}
    for task in tasks:
        found[task.models] = found.get(task.models, 0) + task.milli * task.count
    return found


def _parts(tasks: Sequence[Task]) -> dict[int, list[Task]]:
    """By size, the tasks with a fraction of a device; whole devices beside it are not counted."""
    sizes = {task.milli % WHOLE_DEVICE for task in tasks} - {0}
    step = next(step for step in (1, 10, 20, 50, 100) if len({-(-s // step) for s in sizes}) <= MOST_SIZES)
    found: dict[int, list[Task]] = {}
    for task in tasks:
        if task.milli % WHOLE_DEVICE:
            size = min(WHOLE_DEVICE - 1, -(-(task.milli % WHOLE_DEVICE) // step) * step)
            found.setdefault(size, []).append(task)
    return found


def _median(tasks: Sequence[Task]) -> int:
    return median_low([task.cores for task in tasks for _ in range(task.count)])


def earnings(counts: Mapping[int, int]) -> dict[int, int]:
    """By size in milli-devices (1000: whole ones), what one earns in millionths of a device."""
    sizes = sorted(counts)
    amounts = np.array([counts[size] for size in sizes], dtype=np.float64)
    devices = sum(size * count for size, count in counts.items()) / WHOLE_DEVICE
    programme = _Programme(sizes, amounts, devices)
    for part in PARTS:
        if programme.solve(part / 10):
            break
    return {
        size: min(DEVICE, max(0, round(value * DEVICE)))
        for size, value in zip(sizes, programme.values(), strict=True)
    }


class _Programme:
    """Rows: at least a part of each size, at most twice that, and the devices there are."""

    def __init__(self, sizes: Sequence[int], amounts: Reals, devices: float) -> None:
        self.sizes = sizes
        self.amounts = amounts
        self.devices = devices
        self.worth = np.array(sizes, dtype=np.float64) / WHOLE_DEVICE
        unit = reduce(gcd, sizes, WHOLE_DEVICE)
        self._steps = [size // unit for size in sizes]
        self._room = WHOLE_DEVICE // unit
        self._duals: Reals = np.zeros(2 * len(sizes) + 1)

    def values(self) -> Reals:
        """What each size earns, in devices."""
        count = len(self.sizes)
        device = self._duals[-1]
        earned: Reals = self.worth + self._duals[:count] - self._duals[count:-1]
        return earned / device if device > _TINY else self.worth

    def solve(self, part: float) -> bool:
        """Finds the optimum; True when the part can be placed.

        The first basis is all tasks missing: `short_i = part × amount_i` in the lower rows, slacks elsewhere.
        """
        count = len(self.sizes)
        rows = 2 * count + 1
        least = part * self.amounts
        inverse = np.eye(rows)
        have = np.concatenate([least, 2 * least, [self.devices]])
        cost = np.concatenate([np.full(count, -_SHORT), np.zeros(count + 1)])
        missing = np.arange(rows) < count  # which basic columns are tasks that are not placed
        for _ in range(_MOST_STEPS):
            self._duals = self._signed(cost @ inverse)
            entering = self._entering()
            if entering is None:
                break
            column, earns = entering
            along = inverse @ column
            steps = np.where(along > _TINY, have / np.where(along > _TINY, along, 1.0), np.inf)
            row = int(steps.argmin())
            if not np.isfinite(steps[row]):
                break
            have -= along * steps[row]
            have[row] = steps[row]
            inverse[row] /= along[row]
            others = np.arange(rows) != row
            inverse[others] -= np.outer(along[others], inverse[row])
            np.maximum(have, 0.0, out=have)
            cost[row], missing[row] = earns, False
        return bool(have[missing].sum() < 1e-6 * max(1.0, self.devices))

    def _signed(self, duals: Reals) -> Reals:
        """Lower rows stand as `placed − surplus + short = least`: what one more task to place costs."""
        count = len(self.sizes)
        return np.concatenate([-duals[:count], duals[count:]])

    def _entering(self) -> tuple[Reals, float] | None:
        """The column that promises most a unit, and what it earns; None at the optimum."""
        count = len(self.sizes)
        lower, upper, device = self._duals[:count], self._duals[count:-1], self._duals[-1]
        value, pattern = self._filling(self.worth + lower - upper)
        best, earns = value - float(device), float(self.worth @ pattern)
        column: Reals = np.concatenate([pattern, pattern, [1.0]])
        for at, gain in ((lower, -1.0), (upper, 1.0)):
            index = int(at.argmin())
            if -at[index] > best:
                best, earns = -float(at[index]), 0.0
                column = np.zeros(2 * count + 1)
                column[index + (0 if gain < 0 else count)] = gain
        if -device > best:
            best, earns = -float(device), 0.0
            column = np.eye(2 * count + 1)[-1]
        return (column, earns) if best > 1e-7 else None

    def _filling(self, values: Reals) -> tuple[float, Reals]:
        """The best set of sizes for one device (an unbounded knapsack)."""
        useful = [
            (steps, float(value), index)
            for index, (steps, value) in enumerate(zip(self._steps, values, strict=True))
            if value > 0
        ]
        best = [0.0] * (self._room + 1)
        chosen = [-1] * (self._room + 1)
        for room in range(1, self._room + 1):
            most, choice = best[room - 1], -1
            for steps, value, index in useful:
                if steps <= room and best[room - steps] + value > most + 1e-12:
                    most, choice = best[room - steps] + value, index
            best[room], chosen[room] = most, choice
        pattern = np.zeros(len(self.sizes))
        room = self._room
        while room > 0:
            index = chosen[room]
            if index >= 0:
                pattern[index] += 1
            room -= self._steps[index] if index >= 0 else 1
        return best[self._room], pattern
