"""What is free, as columns of numbers: a copy of the board that scores are computed on at once.

A row is a node with one of its flavors, by node id; nodes have their own columns for CPU and memory. Rows
follow the board: what it changed since the last look is read again, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from steelyard.model.resources import DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import Board
from steelyard.scheduling.prices import Ints
from steelyard.scheduling.views import NodeView


@dataclass(frozen=True, slots=True)
class _Columns:
    """Of nodes as their views are. Kept beside the fleet, so that the next cycle reads only views that are
    new; not to be changed, but copied."""

    views: list[NodeView]
    node_ids: list[int]
    flavors: list[str]
    names: list[str]
    numbers: Ints
    nodes: Ints
    rows_of: dict[int, list[int]]
    cpu: Ints
    memory: Ints
    left: Ints
    free: Ints


class Sheet:
    """Made once a cycle, when the first need asks for scores."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.at = 0
        columns = _columns(board)
        self.node_ids, self.flavors = columns.node_ids, columns.flavors
        self.names, self.numbers = columns.names, columns.numbers
        self.nodes, self.rows_of = columns.nodes, columns.rows_of
        self.cpu, self.memory = columns.cpu.copy(), columns.memory.copy()
        self.left, self.free = columns.left.copy(), columns.free.copy()
        self.changed: list[int] = []  # rows, in the order in which they changed
        self.sync()

    def sync(self) -> None:
        """Reads again what the board changed."""
        touched = self.board.touched
        if self.at == len(touched):
            return
        for node in dict.fromkeys(touched[self.at :]):
            rows = self.rows_of.get(node)
            if rows is None:
                continue
            at = int(self.nodes[rows[0]])
            self.cpu[at], self.memory[at], lists = _read(self.board, node)
            for row in rows:
                self._write(row, lists.get(self.flavors[row], []))
            self.free[at] = sum(map(sum, lists.values()))
            self.changed += rows
        self.at = len(touched)

    def _write(self, row: int, left: list[int]) -> None:
        self.left = _wide(self.left, len(left))  # given back on a node that had shown fewer devices
        self.left[row] = 0
        self.left[row, : len(left)] = left


def _columns(board: Board) -> _Columns:
    memory = board.nodes.frame.memory
    kept = memory.get("sheet")
    if kept is None or kept[0] != board.usable:
        made = _read_all(board)
    else:
        assert isinstance(kept[1], _Columns)
        made = _followed(kept[1], board)
    memory["sheet"] = (board.usable, made)
    return made


def _read_all(board: Board) -> _Columns:
    pairs = sorted((node, name) for name in board.usable for node in board.order(name))
    node_ids = sorted({node for node, _ in pairs})
    index = {node: number for number, node in enumerate(node_ids)}
    rows_of: dict[int, list[int]] = {}
    for row, (node, _) in enumerate(pairs):
        rows_of.setdefault(node, []).append(row)
    nodes: Ints = np.array([index[node] for node, _ in pairs], dtype=np.int64)
    views = [board.nodes[node] for node in node_ids]
    found = [_read_view(view) for view in views]
    left = _matrix([found[index[node]][2].get(name, []) for node, name in pairs])
    free: Ints = np.zeros(len(node_ids), dtype=np.int64)  # of a node's accelerators
    np.add.at(free, nodes, left.sum(axis=1))
    flavors = [name for _, name in pairs]
    names = sorted(set(flavors))
    numbers = {name: number for number, name in enumerate(names)}
    return _Columns(
        views, node_ids, flavors, names, np.array([numbers[name] for name in flavors], dtype=np.int64),
        nodes, rows_of,
        np.array([cpu for cpu, _, _ in found], dtype=np.int64),
        np.array([memory for _, memory, _ in found], dtype=np.int64), left, free,
    )  # fmt: skip


def _followed(known: _Columns, board: Board) -> _Columns:
    """The columns with what changed since read again."""
    views = [board.nodes[node] for node in known.node_ids]
    stale = [at for at, (old, new) in enumerate(zip(known.views, views, strict=True)) if old is not new]
    if not stale:
        return known
    cpu, memory, left, free = known.cpu.copy(), known.memory.copy(), known.left.copy(), known.free.copy()
    for at in stale:
        cpu[at], memory[at], lists = _read_view(views[at])
        left = _wide(left, max(map(len, lists.values()), default=0))
        rows = known.rows_of[known.node_ids[at]]
        for row in rows:
            each = lists.get(known.flavors[row], [])
            left[row] = 0
            left[row, : len(each)] = each
        free[at] = left[rows].sum()
    return replace(known, views=views, cpu=cpu, memory=memory, left=left, free=free)


def _wide(left: Ints, width: int) -> Ints:
    if width <= left.shape[1]:
        return left
    more: Ints = np.zeros((len(left), width - left.shape[1]), dtype=np.int64)
    return np.concatenate([left, more], axis=1)


def _matrix(lists: list[list[int]]) -> Ints:
    width = max(map(len, lists), default=0) or 1
    made: Ints = np.zeros((len(lists), width), dtype=np.int64)
    for row, left in enumerate(lists):
        made[row, : len(left)] = left
    return made


def _read(board: Board, node: int) -> tuple[int, int, dict[str, list[int]]]:
    """(free CPU, free memory, by flavor what is left of each device) of a node; the largest piece of CPU and
    of memory, where a node has several."""
    state = board.known(node)
    if state is None:
        return _read_view(board.nodes[node])
    devices = {
        name: [WHOLE_DEVICE] * len(held.whole) + sorted(left for left in held.part.values() if left > 0)
        for name, held in state.devices.items()
    }
    cpu, memory = (
        max((space.free for space in state.spaces.get(cls, ())), default=0)
        for cls in (DeviceClass.CPU, DeviceClass.MEMORY)
    )
    return cpu, memory, devices


def _read_view(view: NodeView) -> tuple[int, int, dict[str, list[int]]]:
    devices = {
        name: [WHOLE_DEVICE] * len(free.whole) + sorted(part.remaining for part in free.partial)
        for name, free in view.accelerators.items()
    }
    return _largest(view, DeviceClass.CPU), _largest(view, DeviceClass.MEMORY), devices


def _largest(view: NodeView, device_class: DeviceClass) -> int:
    return max((slot.free for slot in view.slots if slot.device_class is device_class), default=0)


def rows_with(sheet: Sheet, flavors: Iterable[str]) -> Ints:
    """The rows of some flavors, in order."""
    wanted = frozenset(flavors)
    numbers = [number for number, name in enumerate(sheet.names) if name in wanted]
    found: Ints = np.flatnonzero(np.isin(sheet.numbers, numbers))
    return found
