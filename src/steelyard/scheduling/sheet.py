"""What is free, as columns of numbers: a copy of the board that scores are computed on at once.

A row is a node with one of its flavors, by node id; nodes have their own columns for CPU and memory. Rows
follow the board: what it changed since the last look is read again, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from steelyard.model.resources import DeviceClass
from steelyard.scheduling.board import Board
from steelyard.scheduling.prices import WHOLE, Ints
from steelyard.scheduling.views import NodeView


class Sheet:
    """Made once a cycle, when the first need asks for scores."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.at = len(board.touched)
        pairs = sorted((node, name) for name in board.usable for node in board.order(name))
        self.node_ids = sorted({node for node, _ in pairs})
        index = {node: number for number, node in enumerate(self.node_ids)}
        self.flavors = [name for _, name in pairs]
        self.names = sorted(set(self.flavors))
        numbers = {name: number for number, name in enumerate(self.names)}
        self.numbers: Ints = np.array([numbers[name] for name in self.flavors], dtype=np.int64)
        self.nodes: Ints = np.array([index[node] for node, _ in pairs], dtype=np.int64)
        self.rows_of: dict[int, list[int]] = {}
        for row, (node, _) in enumerate(pairs):
            self.rows_of.setdefault(node, []).append(row)
        found = [_read(board, node) for node in self.node_ids]
        self.cpu: Ints = np.array([cpu for cpu, _, _ in found], dtype=np.int64)
        self.memory: Ints = np.array([memory for _, memory, _ in found], dtype=np.int64)
        lists = [found[index[node]][2].get(name, []) for node, name in pairs]
        self.left: Ints = _matrix(lists)
        self.free: Ints = np.zeros(len(self.node_ids), dtype=np.int64)  # of a node's accelerators
        np.add.at(self.free, self.nodes, self.left.sum(axis=1))
        self.changed: list[int] = []  # rows, in the order in which they changed

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
        if len(left) > self.left.shape[1]:  # given back on a node that had shown fewer devices
            more = np.zeros((len(self.left), len(left) - self.left.shape[1]), dtype=np.int64)
            self.left = np.concatenate([self.left, more], axis=1)
        self.left[row] = 0
        self.left[row, : len(left)] = left


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
        name: [WHOLE] * len(held.whole) + sorted(left for left in held.part.values() if left > 0)
        for name, held in state.devices.items()
    }
    cpu, memory = (
        max((space.free for space in state.spaces.get(cls, ())), default=0)
        for cls in (DeviceClass.CPU, DeviceClass.MEMORY)
    )
    return cpu, memory, devices


def _read_view(view: NodeView) -> tuple[int, int, dict[str, list[int]]]:
    devices = {
        name: [WHOLE] * len(free.whole) + sorted(part.remaining for part in free.partial)
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
