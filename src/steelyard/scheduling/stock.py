"""Where a class is to be found on the nodes of a flavor: positions in the columns of what is free.

Follows what the nodes are, not what is free of them, so it is kept beside the fleet's frame; a sum of what is
free then costs one addition of columns, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard.model.resources import DeviceClass
from steelyard.scheduling.board import Board, Need, matches
from steelyard.scheduling.ever import class_flavors, kind_of
from steelyard.scheduling.fleet import Fleet
from steelyard.scheduling.views import FlavorView, NodeView

_Ints: TypeAlias = NDArray[np.int64]
_Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """One flavor of the class: where its nodes stand in its order, and what each has in total."""

    flavor: str
    positions: _Ints
    totals: _Ints
    elsewhere: int  # the totals of nodes on which none of it can be offered


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes that may be given work and are alike but for what is free of them; one of their views."""

    view: NodeView
    flavors: frozenset[str]
    nodes: list[int]


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one class on the nodes of a flavor: flavors it comes in, what there is, what is free."""

    flavors: tuple[str, ...]
    limit: int
    free: int


class Stock:
    """Of one inventory. `flavors` are those that its nodes' names stand for."""

    def __init__(self, fleet: Fleet, flavors: Mapping[str, FlavorView]) -> None:
        self._flavors = flavors
        self._kinds = _kinds(fleet)
        self._nodes: dict[tuple[str, _Labels], tuple[int, ...]] = {}
        self._columns: dict[tuple[str, _Labels, DeviceClass, bool], tuple[_Column, ...]] = {}

    def nodes(self, board: Board, need: Need, flavor: str) -> tuple[int, ...]:
        """The nodes of a usable flavor that have the labels a need asks for, by id."""
        if flavor not in board.usable:
            return ()
        key = (flavor, need.labels)
        known = self._nodes.get(key)
        if known is None:
            found = [node for kind in self._of_flavor(flavor, need) for node in kind.nodes]
            known = self._nodes[key] = tuple(sorted(found))
        return known

    def sums(self, board: Board, need: Need, flavor: str, device_class: DeviceClass) -> Sums:
        """What is free of a class on these nodes, and what there is: no less than what is free."""
        if flavor not in board.usable:
            return Sums((), 0, 0)
        columns = self._of(board, need, flavor, device_class)
        free = limit = 0
        for column in columns:
            left = board.room(column.flavor).left[column.positions]
            free += int(left.sum())
            limit += int(np.maximum(left, column.totals).sum()) + column.elsewhere
        return Sums(tuple(column.flavor for column in columns), limit, free)

    def _of_flavor(self, flavor: str, need: Need) -> list[_Kind]:
        return [kind for kind in self._kinds if flavor in kind.flavors and matches(kind.view, need)]

    def _of(self, board: Board, need: Need, flavor: str, device_class: DeviceClass) -> tuple[_Column, ...]:
        is_primary = device_class is need.primary
        key = (flavor, need.labels, device_class, is_primary)
        known = self._columns.get(key)
        if known is None:
            known = self._columns[key] = self._made(board, need, flavor, device_class)
        return known

    def _made(self, board: Board, need: Need, flavor: str, device_class: DeviceClass) -> tuple[_Column, ...]:
        only = flavor if device_class is need.primary else None
        found: dict[str, tuple[list[int], list[int]]] = {}
        elsewhere: dict[str, int] = {}
        for kind in self._of_flavor(flavor, need):
            for name in class_flavors(kind.view, self._flavors, device_class, only):
                positions, totals = found.setdefault(name, ([], []))
                total = kind.view.totals.get(name, 0)
                there = [at for node in kind.nodes if (at := board.nodes.position(name, node)) is not None]
                positions += there
                totals += [total] * len(there)
                elsewhere[name] = elsewhere.get(name, 0) + total * (len(kind.nodes) - len(there))
        return tuple(
            _Column(
                name, np.array(positions, dtype=np.int64), np.array(totals, dtype=np.int64),
                elsewhere.get(name, 0),
            )
            for name, (positions, totals) in sorted(found.items())
        )  # fmt: skip


def _kinds(fleet: Fleet) -> list[_Kind]:
    found: dict[object, _Kind] = {}
    for node in sorted(fleet):
        view = fleet[node]
        if not view.schedulable:
            continue
        key = (kind_of(view), tuple(view.labels.items()))
        known = found.get(key)
        if known is None:
            flavors = frozenset((*view.accelerators, *(slot.flavor for slot in view.slots)))
            known = found[key] = _Kind(view, flavors, [])
        known.nodes.append(node)
    return list(found.values())


def stock_of(board: Board) -> Stock:
    """The stock of a board's nodes: made once, until the inventory changes."""
    memory = board.nodes.frame.memory
    known = memory.get("stock")
    if known is None or known[0] is not board.flavors:
        known = memory["stock"] = (board.flavors, Stock(board.nodes, board.flavors))
    assert isinstance(known[1], Stock)
    return known[1]
