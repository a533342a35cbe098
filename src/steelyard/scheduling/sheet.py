"""What is free, as columns of numbers: a copy of the board that scores are computed on at once.

A row is a node with one of its flavors, by node id; nodes have their own columns for CPU and memory. Rows
follow the board: what it changed since the last look is read again, nothing else. What is left of each single
device is kept only where somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from steelyard.model.resources import DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import Board, NodeState
from steelyard.scheduling.fleet import Fleet
from steelyard.scheduling.prices import Ints
from steelyard.scheduling.views import NodeView

#: Of a node: free CPU and memory (the largest piece, where it has several), free accelerators in all, and
#: what is left of each of them by flavor, whole ones first.
_Read: TypeAlias = tuple[int, int, int, dict[str, list[int]]]
#: Of a row: free CPU and memory, free accelerators of the node, whole devices, the largest part of one.
Facts: TypeAlias = tuple[int, int, int, int, int]
_NOTHING = (0, 0)


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
    free: Ints
    whole: Ints
    part: Ints
    left: Ints | None  # of each device
    fleet: Fleet | None = None  # whose views were read


class Columns(NamedTuple):
    """By node what is free of CPU, memory, accelerators; by row whole devices and the largest part of one."""

    cpu: Ints
    memory: Ints
    free: Ints
    whole: Ints
    part: Ints


class Sheet:
    """Made once a cycle, when the first need asks for scores."""

    def __init__(self, board: Board, is_detailed: bool = False) -> None:
        """`is_detailed`: what is left of each device is asked for, too."""
        self.board = board
        self.at = 0
        self._columns = columns = _columns(board, is_detailed)
        self.node_ids, self.flavors = columns.node_ids, columns.flavors
        self.names, self.numbers = columns.names, columns.numbers
        self.nodes, self.rows_of = columns.nodes, columns.rows_of
        self._written = Columns(
            columns.cpu.copy(), columns.memory.copy(), columns.free.copy(), columns.whole.copy(),
            columns.part.copy(),
        )  # fmt: skip
        self._until = 0  # how much of what changed is written there
        self._left = None if columns.left is None or not is_detailed else columns.left.copy()
        self.changed: list[int] = []  # rows, in the order in which they changed
        self.facts: dict[int, Facts] = {}  # of rows that changed
        self.sync()

    def beside(self, board: Board) -> Sheet:
        """The same for a board that was made beside this one just now."""
        self.sync()
        made = object.__new__(Sheet)
        made.board, made.at, made._columns = board, len(board.touched), self._columns
        made.node_ids, made.flavors = self.node_ids, self.flavors
        made.names, made.numbers = self.names, self.numbers
        made.nodes, made.rows_of = self.nodes, self.rows_of
        own = self.columns()
        made._written = Columns(*(column.copy() for column in own))
        made._until = 0
        made._left = None if self._left is None else self._left.copy()
        made.changed, made.facts = [], dict(self.facts)
        return made

    def over(self, board: Board, columns: Columns) -> Sheet:
        """Of another board with the same nodes, of which this is free now; without what is left of each."""
        made = object.__new__(Sheet)
        made.board, made.at, made._columns = board, len(board.touched), self._columns
        made.node_ids, made.flavors = self.node_ids, self.flavors
        made.names, made.numbers = self.names, self.numbers
        made.nodes, made.rows_of = self.nodes, self.rows_of
        made._written, made._until, made._left = columns, 0, None
        made.changed, made.facts = [], {}
        return made

    @property
    def left(self) -> Ints:
        """What is left of each device; only on a detailed sheet."""
        assert self._left is not None
        return self._left

    def sync(self) -> None:
        """Reads again what the board changed."""
        touched = self.board.touched
        if self.at == len(touched):
            return
        for node in dict.fromkeys(touched[self.at :]):
            rows = self.rows_of.get(node)
            if rows is not None:
                self._read(node, rows)
        self.at = len(touched)

    def _read(self, node: int, rows: list[int]) -> None:
        state = self.board.known(node)
        if state is None or self._left is not None:
            self._read_lists(node, rows)
            return
        free = 0
        by_flavor: dict[str, tuple[int, int]] = {}
        for name, held in state.devices.items():
            whole, part = len(held.whole), 0
            free += whole * WHOLE_DEVICE
            for left in held.part.values() if held.part else ():
                if left > 0:
                    free += left
                    if part < left < WHOLE_DEVICE:
                        part = left
                    whole += left == WHOLE_DEVICE
            by_flavor[name] = whole, part
        cpu, memory = _space(state, DeviceClass.CPU), _space(state, DeviceClass.MEMORY)
        for row in rows:
            self.facts[row] = (cpu, memory, free, *by_flavor.get(self.flavors[row], _NOTHING))
        self.changed += rows

    def _read_lists(self, node: int, rows: list[int]) -> None:
        cpu, memory, free, lists = _read(self.board, node)
        each = [lists.get(self.flavors[row], []) for row in rows]
        for row, of in zip(rows, each, strict=True):
            self.facts[row] = (cpu, memory, free, *_pieces(of))
        self.changed += rows
        if self._left is not None:
            for row, left in zip(rows, each, strict=True):
                self._left = _wide(self._left, len(left))  # more than the node had shown before
                self._left[row] = 0
                self._left[row, : len(left)] = left

    def columns(self) -> Columns:
        """What is free by node (CPU, memory, accelerators) and by row (whole devices, the largest part)."""
        written, rows = self._written, [*dict.fromkeys(self.changed[self._until :])]
        if rows:
            facts = np.array([self.facts[row] for row in rows], dtype=np.int64)
            nodes = self.nodes[rows]
            written.cpu[nodes], written.memory[nodes], written.free[nodes] = facts[:, :3].T
            written.whole[rows], written.part[rows] = facts[:, 3:].T
        self._until = len(self.changed)
        return written


def _columns(board: Board, is_detailed: bool) -> _Columns:
    memory = board.nodes.frame.memory
    kept = memory.get("sheet")
    if kept is None or kept[0] != board.usable:
        made = _read_all(board, is_detailed)
    else:
        assert isinstance(kept[1], _Columns)
        lacks = is_detailed and kept[1].left is None
        made = _read_all(board, True) if lacks else _followed(kept[1], board)
    if made.fleet is not board.nodes:
        made = replace(made, fleet=board.nodes)
    memory["sheet"] = (board.usable, made)
    return made


def _read_all(board: Board, is_detailed: bool) -> _Columns:
    pairs = sorted((node, name) for name in board.usable for node in board.order(name))
    node_ids = sorted({node for node, _ in pairs})
    index = {node: number for number, node in enumerate(node_ids)}
    rows_of: dict[int, list[int]] = {}
    for row, (node, _) in enumerate(pairs):
        rows_of.setdefault(node, []).append(row)
    views = [board.nodes[node] for node in node_ids]
    found = [_read_view(view) for view in views]
    lists = [found[index[node]][3].get(name, []) for node, name in pairs]
    flavors = [name for _, name in pairs]
    names = sorted(set(flavors))
    numbers = {name: number for number, name in enumerate(names)}
    pieces = [_pieces(left) for left in lists]
    return _Columns(
        views, node_ids, flavors, names, _ints([numbers[name] for name in flavors]),
        _ints([index[node] for node, _ in pairs]), rows_of, _ints([cpu for cpu, *_ in found]),
        _ints([memory for _, memory, *_ in found]), _ints([free for _, _, free, _ in found]),
        _ints([whole for whole, _ in pieces]), _ints([part for _, part in pieces]),
        _matrix(lists) if is_detailed else None,
    )  # fmt: skip


def _stale(known: _Columns, board: Board) -> list[int]:
    """The nodes, by position, whose views are others than those that were read."""
    changed = None if known.fleet is None else board.nodes.changed_since(known.fleet)
    if changed is None:
        nodes = enumerate(zip(known.views, known.node_ids, strict=True))
        return [at for at, (view, node) in nodes if view is not board.nodes[node]]
    rows = (known.rows_of.get(node) for node in sorted(changed))
    return [int(known.nodes[of[0]]) for of in rows if of]


def _followed(known: _Columns, board: Board) -> _Columns:
    """The columns with what changed since read again."""
    stale = _stale(known, board)
    if not stale:
        return known
    views = list(known.views)
    for at in stale:
        views[at] = board.nodes[known.node_ids[at]]
    cpu, memory, free = known.cpu.copy(), known.memory.copy(), known.free.copy()
    whole, part = known.whole.copy(), known.part.copy()
    left = None if known.left is None else known.left.copy()
    for at in stale:
        cpu[at], memory[at], free[at], lists = _read_view(views[at])
        for row in known.rows_of[known.node_ids[at]]:
            each = lists.get(known.flavors[row], [])
            whole[row], part[row] = _pieces(each)
            if left is not None:
                left = _wide(left, len(each))
                left[row] = 0
                left[row, : len(each)] = each
    return replace(
        known, views=views, cpu=cpu, memory=memory, free=free, whole=whole, part=part, left=left
    )


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _pieces(left: list[int]) -> tuple[int, int]:
    """(whole devices, the largest part of one) of what is left of each device."""
    whole = left.count(WHOLE_DEVICE)
    if len(left) == whole:
        return whole, 0
    return whole, max([each for each in left if each < WHOLE_DEVICE], default=0)


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


def _read(board: Board, node: int) -> _Read:
    state = board.known(node)
    if state is None:
        return _read_view(board.nodes[node])
    devices = {
        name: [WHOLE_DEVICE] * len(held.whole) + sorted(left for left in held.part.values() if left > 0)
        for name, held in state.devices.items()
    }
    free = sum(map(sum, devices.values()))
    return _space(state, DeviceClass.CPU), _space(state, DeviceClass.MEMORY), free, devices


def _space(state: NodeState, device_class: DeviceClass) -> int:
    spaces = state.spaces.get(device_class)
    if not spaces:
        return 0
    return spaces[0].free if len(spaces) == 1 else max([space.free for space in spaces])


def _read_view(view: NodeView) -> _Read:
    devices = {
        name: [WHOLE_DEVICE] * len(free.whole) + sorted(part.remaining for part in free.partial)
        for name, free in view.accelerators.items()
    }
    free = sum(map(sum, devices.values()))
    return _largest(view, DeviceClass.CPU), _largest(view, DeviceClass.MEMORY), free, devices


def _largest(view: NodeView, device_class: DeviceClass) -> int:
    return max((slot.free for slot in view.slots if slot.device_class is device_class), default=0)


def rows_with(sheet: Sheet, flavors: Iterable[str]) -> Ints:
    """The rows of some flavors, in order."""
    wanted = frozenset(flavors)
    numbers = [number for number, name in enumerate(sheet.names) if name in wanted]
    found: Ints = np.flatnonzero(np.isin(sheet.numbers, numbers))
    return found
