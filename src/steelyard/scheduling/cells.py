"""What is left of each device, CPU and memory, one number each: what many release together is added at once.

The numbers stand in the order of a sheet's rows and follow the fleet from one cycle to the next. Of a device
that is not free a node's view does not tell: it gets its place when somebody gives it back.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import TypeAlias, cast

import numpy as np

from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan
from steelyard.scheduling.board import Board, NodeState, Space
from steelyard.scheduling.devices import Devices
from steelyard.scheduling.fleet import Fleet
from steelyard.scheduling.prices import Ints
from steelyard.scheduling.sheet import Columns, Sheet
from steelyard.scheduling.views import NodeView

#: A larger fleet is not read as a whole.
MOST_NODES = 2_048
#: Attempts whose places are known by their numbers; when there are more, all are forgotten.
MOST_KEPT = 20_000
#: Stands where a node has fewer pieces of CPU or memory than others: less than any claim.
_NOTHING = -(2**40)

#: Numbers, and how much at each: one after the other, as arrays that are put together fast.
Change: TypeAlias = tuple["array[int]", "array[int]"]
#: Flavor, device.
_Key: TypeAlias = tuple[str, int | None]


class Uncounted(Exception):
    """Something has no number: whoever asks has to look at the nodes themselves."""


class Cells:
    """Of the nodes and flavors of a sheet. Two threads may use one."""

    def __init__(self, sheet: Sheet) -> None:
        nodes, flavors = sheet.board.nodes, sheet.board.flavors
        self.rows_of = sheet.rows_of
        self._flavors = sheet.flavors
        self._lock = Lock()
        rows = len(sheet.flavors)
        held = [flavors[name].device_class in ACCELERATORS for name in sheet.flavors]
        self._devices: list[dict[int, int] | None] = [{} if each else None for each in held]
        self._rows = {
            (node, sheet.flavors[row]): row for node, of in sheet.rows_of.items() for row in of if held[row]
        }
        self._node_of = [sheet.node_ids[number] for number in sheet.nodes.tolist()]
        pairs = zip(self._node_of, sheet.flavors, held, strict=True)
        self._width = max([_devices_of(nodes[node], name) for node, name, each in pairs if each], default=1)
        self._count = np.int8 if self._width < 128 else np.int64  # enough for the devices of a node
        self._starts = np.array([sheet.rows_of[node][0] for node in sheet.node_ids], dtype=np.int64)
        #: All numbers, by node.
        self._known: dict[int, dict[_Key, int]] = {node: {} for node in sheet.node_ids}
        #: CPU and memory in order: flavor, device, number.
        self._spaces: dict[int, list[tuple[DeviceClass, list[tuple[str, int | None, int]]]]]
        self._spaces = {node: [] for node in sheet.node_ids}
        self.space_flavors: dict[str, list[int]] = {}
        self.has_partitions = any(nodes[node].partitions for node in sheet.node_ids)
        self._row_flavors = {name: np.flatnonzero(sheet.numbers == n) for n, name in enumerate(sheet.names)}
        self._blank = np.zeros(rows * self._width, dtype=np.int64)
        self._parts: dict[DeviceClass, tuple[int, int, int]] = {}
        for device_class in (DeviceClass.CPU, DeviceClass.MEMORY):
            self._add_spaces(device_class, [nodes[node] for node in sheet.node_ids])
        self._kept: tuple[Fleet, Ints, dict[int, frozenset[int]]] | None = None
        self._flat: dict[int, tuple[Sequence[MemberPlan], Change]] = {}

    def _add_spaces(self, device_class: DeviceClass, views: list[NodeView]) -> None:
        slots = [[slot for slot in view.slots if slot.device_class is device_class] for view in views]
        width, start = max(map(len, slots), default=1) or 1, len(self._blank)
        more = np.zeros((len(views), width), dtype=np.int64)
        for at, (view, each) in enumerate(zip(views, slots, strict=True)):
            more[at, max(1, len(each)) :] = _NOTHING
            each.sort(key=lambda slot: (slot.flavor, slot.device_id or 0))
            known = [(slot.flavor, slot.device_id, start + at * width + n) for n, slot in enumerate(each)]
            if known:
                self._spaces[view.id].append((device_class, known))
            for column, slot in enumerate(each):
                number = start + at * width + column
                self._known[view.id][slot.flavor, slot.device_id] = number
                self.space_flavors.setdefault(slot.flavor, []).append(number)
        self._parts[device_class] = start, len(views), width
        self._blank = np.concatenate([self._blank, more.ravel()])

    # --- numbers --------------------------------------------------------------------------------------
    def _numbers(self, row: int, cells: dict[int, int], devices: Collection[int]) -> list[int]:
        try:
            return [cells[device] for device in devices]
        except KeyError:
            return [self._number(row, cells, device) for device in devices]

    def _number(self, row: int, cells: dict[int, int], device: int) -> int:
        found = cells.get(device)
        if found is None:
            with self._lock:
                found = cells.get(device)
                if found is None:
                    if len(cells) >= self._width:
                        raise Uncounted
                    # who finds it among all numbers finds it among those of the row
                    found = cells[device] = len(cells) * len(self._devices) + row
                    self._known[self._node_of[row]][self._flavors[row], device] = found
        return found

    def _of(self, node: int, flavor: str) -> tuple[int, dict[int, int]]:
        row = self._rows.get((node, flavor))
        cells = None if row is None else self._devices[row]
        if row is None or cells is None:
            raise Uncounted
        return row, cells

    def places(self, members: Sequence[MemberPlan]) -> Change:
        """What an attempt has on the nodes that are counted."""
        known = self._flat.get(id(members))
        if known is None:
            if len(self._flat) >= MOST_KEPT:
                self._flat = {}
            known = self._flat[id(members)] = members, self._places(members)
        return known[1]

    def _places(self, members: Sequence[MemberPlan]) -> Change:
        numbers: list[int] = []
        amounts: list[int] = []
        for member in members:
            known = self._known.get(member.node_id)
            if known is None:
                continue
            try:
                numbers += [known[item.flavor, item.device_id] for item in member.allocations]
                amounts += [item.quantity for item in member.allocations]
            except KeyError:
                offered = [item for item in member.allocations if self._is_offered(known, item)]
                numbers += [self._number_of(item) for item in offered]
                amounts += [item.quantity for item in offered]
        return array("q", numbers), array("q", amounts)

    def _is_offered(self, known: Mapping[_Key, int], item: AllocationPlan) -> bool:
        """CPU and memory that the node does not show is passed over."""
        return item.device_class in ACCELERATORS or (item.flavor, item.device_id) in known

    def _number_of(self, item: AllocationPlan) -> int:
        if item.device_class not in ACCELERATORS:
            return self._known[item.node_id][item.flavor, item.device_id]
        return self._number(*self._of(item.node_id, item.flavor), item.device_id or 0)

    # --- what is left ---------------------------------------------------------------------------------
    def read(self, board: Board) -> tuple[Ints, dict[int, frozenset[int]]]:
        """What is left by number, and what is not offered by node: as a board has it now."""
        kept = self._kept
        changed = None if kept is None else board.nodes.changed_since(kept[0])
        if kept is None or changed is None:
            left, unavailable = self._blank.copy(), {}
            changed = set(self.rows_of)
        else:
            left, unavailable = kept[1].copy(), dict(kept[2])
        views = [board.nodes[node] for node in changed if node in self.rows_of]
        self._read_views(left, views)
        for view in views:
            unavailable.pop(view.id, None)
            if view.unavailable:
                unavailable[view.id] = view.unavailable
        self._kept = board.nodes, left, unavailable
        touched = [node for node in dict.fromkeys(board.touched) if node in self.rows_of]
        left = left.copy()
        self._read_states(left, [board.state(node) for node in touched])
        return left, unavailable

    def _read_views(self, left: Ints, views: Iterable[NodeView]) -> None:
        numbers: list[int] = []
        amounts: list[int] = []
        for view in views:
            for flavor, free in view.accelerators.items():
                row, cells = self._of(view.id, flavor)
                self._held(left)[row] = 0
                numbers += self._numbers(row, cells, free.whole)
                amounts += [WHOLE_DEVICE] * len(free.whole)
                if free.partial:
                    numbers += self._numbers(row, cells, [part.device_id for part in free.partial])
                    amounts += [part.remaining for part in free.partial]
            for slot in view.slots:
                numbers.append(self._space(view.id, slot.flavor, slot.device_id))
                amounts.append(slot.free)
        left[numbers] = amounts

    def _read_states(self, left: Ints, states: Iterable[NodeState]) -> None:
        numbers: list[int] = []
        amounts: list[int] = []
        for state in states:
            for flavor, held in state.devices.items():
                row, cells = self._of(state.view.id, flavor)
                self._held(left)[row] = 0
                numbers += self._numbers(row, cells, (*held.whole, *held.part))
                amounts += [WHOLE_DEVICE] * len(held.whole)
                amounts += held.part.values()
            for each in state.spaces.values():
                for space in each:
                    numbers.append(self._space(state.view.id, space.flavor, space.device_id))
                    amounts.append(space.free)
        left[numbers] = amounts

    def _space(self, node: int, flavor: str, device: int | None) -> int:
        number = self._known[node].get((flavor, device))
        if number is None:
            raise Uncounted
        return number

    def withheld(self, unavailable: dict[int, frozenset[int]]) -> list[int]:
        """The numbers of what is not offered, whoever gives it back."""
        found = []
        for node, devices in unavailable.items():
            for row in self.rows_of[node]:
                cells = self._devices[row] or {}
                found += [cells[device] for device in devices if device in cells]
        return found

    # --- asking ---------------------------------------------------------------------------------------
    def columns(self, left: Ints) -> tuple[Columns, Ints]:
        """As a sheet has them; and what is free of each row's devices."""
        there = np.maximum(self._held(left).T, 0)
        rows = np.add.reduce(there)
        whole = np.add.reduce((there == WHOLE_DEVICE).view(np.int8), dtype=self._count)
        np.copyto(there, 0, where=there >= WHOLE_DEVICE)
        part = np.maximum.reduce(there)
        cpu, memory = self._most(left, DeviceClass.CPU), self._most(left, DeviceClass.MEMORY)
        return Columns(cpu, memory, np.add.reduceat(rows, self._starts), whole.astype(np.int64), part), rows

    def _held(self, left: Ints) -> Ints:
        """By row, what is left of each of its devices."""
        rows = len(self._devices)
        found: Ints = left[: rows * self._width].reshape(self._width, rows).T
        return found

    def _most(self, left: Ints, device_class: DeviceClass) -> Ints:
        start, count, width = self._parts[device_class]
        found: Ints = left[start : start + count * width]
        return found.copy() if width == 1 else np.maximum.reduce(found.reshape(count, width), axis=1)

    def free(self, left: Ints, rows: Ints, flavor: str) -> int:
        """What can be taken of a flavor on all nodes together. `rows`: as `columns` says."""
        spaces, of = self.space_flavors.get(flavor), self._row_flavors.get(flavor)
        if of is None:
            return 0
        return int((rows[of] if spaces is None else np.maximum(left[spaces], 0)).sum())

    def state(self, view: NodeView, left: Ints) -> NodeState:
        """A node as the numbers have it."""
        devices: dict[str, Devices] = {}
        rows = len(self._devices)
        for row in self.rows_of[view.id]:
            cells = self._devices[row]
            if cells:
                there = list(zip(cells, left[row : rows * self._width : rows].tolist(), strict=False))
                whole = [device for device, amount in there if amount == WHOLE_DEVICE]
                part = {device: amount for device, amount in there if amount and amount != WHOLE_DEVICE}
                whole.sort()
                shown = view.accelerators.get(self._flavors[row])
                kinds = {each.device_id: each.share_kind for each in shown.partial} if shown else {}
                devices[self._flavors[row]] = Devices(whole, part, kinds, view.memories, view.partitions)
        spaces = {
            device_class: [Space(device, flavor, left.item(number)) for flavor, device, number in each]
            for device_class, each in self._spaces[view.id]
        }
        return NodeState.of(view, devices, spaces)


def cells_of(sheet: Sheet) -> Cells | None:
    """Those of a sheet: kept beside the fleet's frame. None where it is too large, or cannot be counted."""
    if len(sheet.node_ids) > MOST_NODES or not sheet.node_ids:
        return None
    memory = sheet.board.nodes.frame.memory
    known = memory.get("cells")
    if known is None or known[0] is not sheet.rows_of:
        known = memory["cells"] = (sheet.rows_of, Cells(sheet))
    return cast("Cells | None", known[1])


def forget_cells(sheet: Sheet) -> None:
    """They cannot be counted: nobody tries again until what the nodes are changes."""
    sheet.board.nodes.frame.memory["cells"] = (sheet.rows_of, None)


def _devices_of(view: NodeView, flavor: str) -> int:
    free = view.accelerators.get(flavor)
    there = 0 if free is None else len(free.whole) + len(free.partial)
    return max(1, there, -(-view.totals.get(flavor, 0) // WHOLE_DEVICE))
