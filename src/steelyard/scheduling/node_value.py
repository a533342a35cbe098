"""Scores of nodes: how good a place is for a member. The highest is taken; of equals the first node.

`NodeValue`: a node's value is what its free resources can still earn; a member goes where that falls least.
The node itself sets the price of its CPU: its value is the least, over sixteen prices of a core, of the free
cores at that price and the best filling of its devices net of it (a Lagrangian bound). `BestFit`: where least
is left over. Scores are integers (thousandths of a device), so that equal places are equal on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from steelyard.model.resources import DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import Need
from steelyard.scheduling.prices import CORE_PRICES, MOST_IDLE, Ints, Prices, tables_of
from steelyard.scheduling.sheet import Sheet

#: The score of a row that can't hold the need.
NO_PLACE = -(2**62)
_CORE = np.array(CORE_PRICES, dtype=np.int64)
_ROUNDING = 1000  # millionths of a device to the thousandths that scores are compared in


class Scores(Protocol):
    """A way to score rows of a sheet."""

    def of(self, need: Need, rows: Ints) -> Ints:
        """The score of each row, `NO_PLACE` where the need does not fit."""

    def device(self, need: Need, row: int) -> int | None:
        """What the device has left that the fraction of a need should go on; None: the tightest."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Which rows can hold a need, and what is free there."""

    holds: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    cpu: Ints
    left: Ints
    idle: Ints


def fit_of(sheet: Sheet, need: Need, rows: Ints) -> Fit:
    """What follows from the amounts: labels and other accelerators are looked at when a place is taken."""
    nodes = sheet.nodes[rows]
    columns = sheet.columns()
    cpu, left = columns.cpu[nodes], sheet.left[rows]
    idle: Ints = (left == WHOLE_DEVICE).sum(axis=1)
    holds = (cpu >= amount_of(need, DeviceClass.CPU)) & (
        columns.memory[nodes] >= amount_of(need, DeviceClass.MEMORY)
    )
    if need.is_accelerated:
        count, fraction = divmod(need.amount, WHOLE_DEVICE)
        holds &= idle >= count
        if fraction:
            holds &= (idle > count) | ((left >= fraction) & (left < WHOLE_DEVICE)).any(axis=1)
    return Fit(holds, cpu, left, idle)


def amount_of(need: Need, device_class: DeviceClass) -> int:
    """How much of a class a need asks for."""
    return next((amount for cls, amount in need.amounts if cls is device_class), 0)


class BestFit:
    """Where the fewest devices stay free, then the least CPU: free milli-devices weigh more than any CPU."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._asked: dict[Need, tuple[int, int, int, int]] = {}  # CPU, memory, whole devices, part of one

    def of(self, need: Need, rows: Ints) -> Ints:
        """All at once."""
        columns, nodes = self.sheet.columns(), self.sheet.nodes[rows]
        cpu = columns.cpu[nodes]
        holds = cpu >= amount_of(need, DeviceClass.CPU)
        holds &= columns.memory[nodes] >= amount_of(need, DeviceClass.MEMORY)
        if need.is_accelerated:
            count, fraction = divmod(need.amount, WHOLE_DEVICE)
            whole = columns.whole[rows]
            holds &= whole >= count
            if fraction:
                holds &= (whole > count) | (columns.part[rows] >= fraction)
        scores: Ints = np.where(holds, -(columns.free[nodes] * 2**32 + cpu), NO_PLACE)
        return scores

    def note(self, need: Need, scores: Ints, places: Iterable[tuple[int, int]]) -> None:
        """Puts the scores of rows that changed, (place, row), where they belong."""
        facts = self.sheet.facts
        asked = self._asked.get(need)
        if asked is None:
            devices = divmod(need.amount, WHOLE_DEVICE) if need.is_accelerated else (0, 0)
            amounts = amount_of(need, DeviceClass.CPU), amount_of(need, DeviceClass.MEMORY)
            asked = self._asked[need] = *amounts, *devices
        asked_cpu, asked_memory, count, fraction = asked
        for place, row in places:
            if place >= 0:
                cpu, memory, free, whole, part = facts[row]
                holds = cpu >= asked_cpu and memory >= asked_memory and whole >= count
                if fraction and whole == count and part < fraction:
                    holds = False
                scores[place] = -(free * 2**32 + cpu) if holds else NO_PLACE

    def device(self, need: Need, row: int) -> int | None:
        """The tightest."""
        return None


class NodeValue:
    """Keeps the worth of every node's devices, redone where rows changed."""

    def __init__(self, sheet: Sheet, prices: Mapping[DeviceClass, Prices]) -> None:
        self.sheet = sheet
        classes = [sheet.board.flavors[name].device_class for name in sheet.flavors]
        known = [cls for cls in prices if cls in classes]
        tables = [tables_of(prices[cls]) for cls in known]
        # class 0 has no prices: its devices are worth nothing
        zeros = np.zeros((1, len(_CORE)), dtype=np.int64)
        nothing = np.repeat(zeros, WHOLE_DEVICE + 1, axis=0)
        self._part: list[Ints] = [nothing, *(table.part for table in tables)]
        self._idle: list[Ints] = [np.repeat(zeros, MOST_IDLE + 1, axis=0), *(table.idle for table in tables)]
        self._part_of, self._idle_of = np.stack(self._part), np.stack(self._idle)
        self._class: Ints = np.array(
            [known.index(cls) + 1 if cls in known else 0 for cls in classes], dtype=np.int64
        )
        self._charge = _charges(sheet, prices)
        self._row_worth: Ints = self._worth(np.arange(len(sheet.flavors)))
        self._node_worth: Ints = np.zeros((len(sheet.node_ids), len(_CORE)), dtype=np.int64)
        np.add.at(self._node_worth, sheet.nodes, self._row_worth)
        self._at = len(sheet.changed)

    def _worth(self, rows: Ints) -> Ints:
        """The best filling of each row's devices, by price of a core."""
        left, cls = self.sheet.left[rows], self._class[rows]
        idle = np.minimum((left == WHOLE_DEVICE).sum(axis=1), MOST_IDLE)
        parts = self._part_of[cls[:, None], np.where(left == WHOLE_DEVICE, 0, left)]
        worth: Ints = parts.sum(axis=1) + self._idle_of[cls, idle]
        return worth

    def _sync(self) -> None:
        changed = self.sheet.changed
        if self._at == len(changed):
            return
        rows = np.array(list(dict.fromkeys(changed[self._at :])), dtype=np.int64)
        worth = self._worth(rows)
        np.add.at(self._node_worth, self.sheet.nodes[rows], worth - self._row_worth[rows])
        self._row_worth[rows] = worth
        self._at = len(changed)

    def of(self, need: Need, rows: Ints) -> Ints:
        """What a node's value changes by, less what taking its model costs."""
        self._sync()
        fit = fit_of(self.sheet, need, rows)
        worth = self._node_worth[self.sheet.nodes[rows]]
        cpu = np.maximum(0, fit.cpu - amount_of(need, DeviceClass.CPU))
        before = _value(fit.cpu, worth)
        after = self._after(need, rows, fit, cpu, worth).max(axis=1)
        if self._charge is not None and need.is_accelerated:
            before = before + self._charge[rows] * need.amount // WHOLE_DEVICE
        scores: Ints = (after - before + _ROUNDING // 2) // _ROUNDING
        placed: Ints = np.where(fit.holds, scores, NO_PLACE)
        return placed

    def _after(self, need: Need, rows: Ints, fit: Fit, cpu: Ints, worth: Ints) -> Ints:
        """The value of each row's node afterwards, one column for each device that a fraction could be of."""
        if not need.is_accelerated:
            return _value(cpu, worth)[:, None]
        cls = self._class[rows]
        count, fraction = divmod(need.amount, WHOLE_DEVICE)
        idle = np.minimum(fit.idle, MOST_IDLE)
        rest = np.maximum(0, idle - count)
        worth = worth - self._idle_of[cls, idle] + self._idle_of[cls, rest]
        if not fraction:
            return _value(cpu, worth)[:, None]
        return self._fractions(fraction, cls, fit, rest, cpu, worth)

    def _fractions(self, fraction: int, cls: Ints, fit: Fit, rest: Ints, cpu: Ints, worth: Ints) -> Ints:
        left = fit.left
        whole = left == WHOLE_DEVICE
        unbroken = self._idle_of[cls, rest] - self._idle_of[cls, np.maximum(0, rest - 1)]
        part, kind = self._part_of, cls[:, None]
        lost = np.where(whole[:, :, None], unbroken[:, None, :], part[kind, left])
        gained = part[kind, np.maximum(0, left - fraction)]
        value = (worth[:, None, :] - lost + gained + (cpu[:, None] * _CORE // 1000)[:, None, :]).min(axis=2)
        can = (left >= fraction) & (~whole | (rest > 0)[:, None])
        fractions: Ints = np.where(can, value, NO_PLACE // 2)
        return fractions

    def device(self, need: Need, row: int) -> int | None:
        """The one that leaves the node worth most; of equals the one with the least left."""
        fraction = need.amount % WHOLE_DEVICE
        if not need.is_accelerated or not fraction:
            return None
        rows = np.array([row], dtype=np.int64)
        fit = fit_of(self.sheet, need, rows)
        cpu = np.maximum(0, fit.cpu - amount_of(need, DeviceClass.CPU))
        values = self._after(need, rows, fit, cpu, self._node_worth[self.sheet.nodes[rows]])[0].tolist()
        lefts: Sequence[int] = fit.left[0].tolist()
        return min(zip(values, lefts, strict=True), key=lambda entry: (-entry[0], entry[1]))[1]


def _charges(sheet: Sheet, prices: Mapping[DeviceClass, Prices]) -> Ints | None:
    """By row, what a device of its model costs; None where no model has a price."""
    costs = {(cls, model): price for cls, found in prices.items() for model, price in found.models}
    if not costs:
        return None
    flavors = [sheet.board.flavors[name] for name in sheet.flavors]
    known = [costs.get((flavor.device_class, flavor.model or ""), 0) for flavor in flavors]
    return np.array(known, dtype=np.int64)


def _value(cpu: Ints, worth: Ints) -> Ints:
    """The least over the prices of a core: nobody values a node higher than it can be used."""
    value: Ints = (cpu[:, None] * _CORE // 1000 + worth).min(axis=1)
    return value
