"""All nodes, and what a cycle would otherwise have to sum up over them: which have a flavor, how much of it
is free in all, where a piece of some size could still be.

Only what changed is looked at anew. What does not change as work comes and goes (which nodes there are, their
labels, what they have in total) is in a `Frame`, which is made anew when that changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.layered import Layered
from steelyard.scheduling.views import FreeDevices, NodeView

_Ints: TypeAlias = NDArray[np.int64]
NOBODY: tuple[int, ...] = ()


class Frame:
    """What the nodes are. `memory` is for what others derive of it, by their own keys."""

    __slots__ = ("memory", "orders", "positions")

    def __init__(self, nodes: Mapping[int, NodeView]) -> None:
        self.orders: dict[str, list[int]] = {}  # flavor → nodes that may be given work, by id
        for node_id in sorted(nodes):
            view = nodes[node_id]
            if view.schedulable:
                for name in {*view.accelerators, *(slot.flavor for slot in view.slots)}:
                    self.orders.setdefault(name, []).append(node_id)
        self.positions = {
            name: {node: at for at, node in enumerate(order)} for name, order in self.orders.items()
        }
        self.memory: dict[str, tuple[object, object]] = {}


class Room:
    """Of one flavor, by position in its order: what is free, whole devices (of CPU and memory none), the
    largest piece."""

    __slots__ = ("free", "left", "most", "whole")

    def __init__(self, left: _Ints, whole: _Ints, most: _Ints) -> None:
        self.free = int(left.sum())  # on all nodes together
        self.left = left
        self.whole = whole
        self.most = most

    def copy(self) -> Room:
        """One of its own."""
        return Room(self.left.copy(), self.whole.copy(), self.most.copy())

    def first(self, at: int, whole: int, part: int) -> int:
        """The first position from `at` on with so many whole devices, or a piece of that size where none is
        asked for; the number of positions if there is none. A necessary condition, not a sufficient one."""
        column, least = (self.whole, whole) if whole else (self.most, part)
        if at < len(column) and column[at] >= least:
            return at
        found = np.flatnonzero(column[at:] >= least)
        return at + int(found[0]) if len(found) else len(column)


class Fleet(Layered[int, NodeView]):
    """Immutable, as the mappings of a snapshot are."""

    __slots__ = ("_rooms", "frame")

    def __init__(self, entries: Mapping[int, NodeView]) -> None:
        super().__init__(entries)
        self.frame = Frame(entries)
        self._rooms: dict[str, Room] = {}

    def order(self, flavor: str) -> Sequence[int]:
        """Nodes that may be given work and have the flavor, by id."""
        return self.frame.orders.get(flavor, NOBODY)

    def position(self, flavor: str, node: int) -> int | None:
        """Where a node stands in the order of a flavor; None where it does not."""
        positions = self.frame.positions.get(flavor)
        return None if positions is None else positions.get(node)

    def room(self, flavor: str) -> Room:
        """What is free of a flavor; not to be changed, but copied."""
        known = self._rooms.get(flavor)
        if known is None:
            pieces = [pieces_of(self[node], flavor) for node in self.order(flavor)]
            known = self._rooms[flavor] = Room(
                np.array([left for left, _, _ in pieces], dtype=np.int64),
                np.array([whole for _, whole, _ in pieces], dtype=np.int64),
                np.array([most for _, _, most in pieces], dtype=np.int64),
            )
        return known

    def _derive(self, made: Fleet, changed: Mapping[int, NodeView], gone: Collection[int]) -> None:
        if gone or any(not _is_alike(self.get(node), view) for node, view in changed.items()):
            made.frame, made._rooms = Frame(made), {}
            return
        made.frame, made._rooms = self.frame, dict(self._rooms)
        own: set[str] = set()
        for node, view in changed.items():
            if not view.schedulable:
                continue
            before = self[node]
            for flavor in {*view.accelerators, *(slot.flavor for slot in view.slots)} & made._rooms.keys():
                was, now = pieces_of(before, flavor), pieces_of(view, flavor)
                if was != now:
                    if flavor not in own:
                        own.add(flavor)
                        made._rooms[flavor] = made._rooms[flavor].copy()
                    room, at = made._rooms[flavor], self.frame.positions[flavor][node]
                    room.free += now[0] - was[0]
                    room.left[at], room.whole[at], room.most[at] = now


def as_fleet(nodes: Mapping[int, NodeView]) -> Fleet:
    """The mapping itself where it is one."""
    return nodes if isinstance(nodes, Fleet) else Fleet(nodes)


def pieces_of(view: NodeView, flavor: str) -> tuple[int, int, int]:
    """(what is free of a flavor on a node, whole devices, the largest piece)."""
    devices = view.accelerators.get(flavor)
    if devices is not None:
        return _of_devices(devices)
    free = most = 0
    for slot in view.slots:
        if slot.flavor == flavor and slot.free > 0:
            free += slot.free
            most = max(most, slot.free)
    return free, 0, most


def _of_devices(devices: FreeDevices) -> tuple[int, int, int]:
    whole = len(devices.whole)
    if not devices.partial:
        return whole * WHOLE_DEVICE, whole, WHOLE_DEVICE if whole else 0
    left = [part.remaining for part in devices.partial]
    return whole * WHOLE_DEVICE + sum(left), whole, WHOLE_DEVICE if whole else max(left)


#: What of a node stays while things on it are taken and given back.
_PASSING = ("accelerators", "slots", "unavailable", "withheld")
_lasting = attrgetter(*[field.name for field in fields(NodeView) if field.name not in _PASSING])


def _is_alike(before: NodeView | None, after: NodeView) -> bool:
    """Whether both are the same but for what is free of them."""
    if before is None or before.accelerators.keys() != after.accelerators.keys():
        return False
    if [slot.flavor for slot in before.slots] != [slot.flavor for slot in after.slots]:
        return False
    same: bool = _lasting(before) == _lasting(after)
    return same
