"""What room on accelerators can still earn: an optimiser's result, kept as a versioned input of the snapshot.

A device that is partly used is worth what the tasks that come can still make of it. `Prices` tell what each
size of a fraction earns (dual values of a cutting-stock programme over the tasks that came lately), and
`tables_of` turns them into look-ups: the best filling of every remainder, net of the CPU that it takes, at
sixteen prices of a core. All of it is in integers: millionths of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard.model.resources import DeviceClass
from steelyard.model.units import WHOLE_DEVICE

Ints: TypeAlias = NDArray[np.int64]
#: A whole device, in the unit of values.
DEVICE = 1_000_000
#: Prices of a core: nothing, then geometrically from 0.002 to 0.3 devices.
CORE_PRICES: tuple[int, ...] = (
    0, 2_000, 2_861, 4_092, 5_853, 8_372, 11_975, 17_128, 24_500, 35_042, 50_122, 71_691, 102_541, 146_668,
    209_783, 300_000,
)  # fmt: skip
#: Idle devices of one node that are told apart.
MOST_IDLE = 64


@dataclass(frozen=True, slots=True)
class Prices:
    """Of the accelerators of one class, made of a mix of tasks.

    `fractions`: (milli-device, what one earns in millionths of a device, median milli-cores of its tasks);
    `wholes`: (devices of a task, median milli-cores). `models`: (model that is asked for by name by more than
    there is, what taking a device of it costs, in millionths of a device).
    """

    version: int = 0
    fractions: tuple[tuple[int, int, int], ...] = ()
    wholes: tuple[tuple[int, int], ...] = ()
    models: tuple[tuple[str, int], ...] = ()


PriceList: TypeAlias = Mapping[DeviceClass, Prices]


@dataclass(frozen=True, slots=True)
class Tables:
    """By price of a core (second index): what the best filling earns, of a device with so many milli left
    (`part`), and of so many idle devices of a node (`idle`)."""

    part: Ints
    idle: Ints


@lru_cache(maxsize=8)
def tables_of(prices: Prices) -> Tables:
    """Unbounded knapsacks, solved once a version."""
    core = np.array(CORE_PRICES, dtype=np.int64)
    sizes = [
        (size, _net(earns, cores, core)) for size, earns, cores in prices.fractions if 0 < size < WHOLE_DEVICE
    ]
    part = np.zeros((WHOLE_DEVICE + 1, len(core)), dtype=np.int64)
    for left in range(1, WHOLE_DEVICE + 1):
        best = part[left - 1].copy()
        for size, net in sizes:
            if size <= left:
                np.maximum(best, part[left - size] + net, out=best)
        part[left] = best
    wholes = [(count, _net(count * DEVICE, cores, core)) for count, cores in prices.wholes if count > 0]
    idle = np.zeros((MOST_IDLE + 1, len(core)), dtype=np.int64)
    for left in range(1, MOST_IDLE + 1):
        best = idle[left - 1] + part[WHOLE_DEVICE]
        for count, net in wholes:
            if count <= left:
                np.maximum(best, idle[left - count] + net, out=best)
        idle[left] = best
    return Tables(part, idle)


def _net(earns: int, cores: int, core: Ints) -> Ints:
    net: Ints = np.maximum(0, earns - core * cores // 1000)
    return net
