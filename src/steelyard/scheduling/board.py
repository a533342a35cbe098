"""What is free on every node while a cycle is under way: a working copy that is taken from and given to.

Remaining quantities may be negative: a hold claims devices its victims still have. Only what is
positive can be taken by anybody else. Taking and giving the same allocation are exact inverses, so a
gang that can't be completed and a simulated eviction are undone by giving and taking back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from steelyard.model.resources import ACCELERATORS, DeviceClass, ShareKind
from steelyard.model.workloads import AllocationPlan, MemberPlan, MemberRequest
from steelyard.scheduling.views import FlavorView, NodeView

WHOLE = 1000


@dataclass(frozen=True, eq=False, slots=True)
class Need:
    """A member's request, taken apart. `primary` is what flavors are chosen for."""

    primary: DeviceClass
    amount: int
    others: tuple[tuple[DeviceClass, int], ...]
    labels: tuple[tuple[str, str], ...]
    request: MemberRequest

    @property
    def is_accelerated(self) -> bool:
        """True when it asks for an accelerator."""
        return self.primary in ACCELERATORS

    @property
    def amounts(self) -> tuple[tuple[DeviceClass, int], ...]:
        """All classes, the primary first."""
        return ((self.primary, self.amount), *self.others)


_CLASSES = (*ACCELERATORS, DeviceClass.CPU, DeviceClass.MEMORY)
_RANK = {device_class: rank for rank, device_class in enumerate(_CLASSES)}


@lru_cache(maxsize=8192)
def need_of(request: MemberRequest) -> Need:
    """The same object for equal requests, as long as it is remembered."""
    amounts = sorted((item for item in request.amounts if item[1] > 0), key=lambda item: _RANK[item[0]])
    if not amounts:
        return Need(DeviceClass.CPU, 0, (), request.node_labels, request)
    return Need(amounts[0][0], amounts[0][1], tuple(amounts[1:]), request.node_labels, request)


@dataclass(slots=True)
class Devices:
    """Accelerators of one flavor on one node: those entirely free, and what remains of the others.

    A device that is in neither has nothing left. A fraction sits on one device and shares it only
    with fractions of the same kind; a whole device is never put on one that is shared.
    """

    whole: list[int]
    part: dict[int, int] = field(default_factory=dict)
    kinds: dict[int, ShareKind] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """What can still be taken."""
        return len(self.whole) * WHOLE + sum(left for left in self.part.values() if left > 0)

    def remaining(self, device: int) -> int:
        """Negative where a hold claims more than there is."""
        index = bisect_left(self.whole, device)
        if index < len(self.whole) and self.whole[index] == device:
            return WHOLE
        return self.part.get(device, 0)

    def change(self, device: int, delta: int) -> None:
        """Gives (or with a negative delta takes) a quantity of one device."""
        before = self.remaining(device)
        after = before + delta
        if before == WHOLE and after != WHOLE:
            del self.whole[bisect_left(self.whole, device)]
        elif before != 0:
            self.part.pop(device, None)
        if after == WHOLE:
            insort(self.whole, device)
        elif after != 0:
            self.part[device] = after

    def pick(self, amount: int, wanted: int | None = None) -> list[tuple[int, int, ShareKind]] | None:
        """Devices for an amount: whole ones by id, a fraction on one that has `wanted` left, else where it
        fits most tightly."""
        count, fraction = divmod(amount, WHOLE)
        if count > len(self.whole):
            return None
        picked = [(device, WHOLE, ShareKind.EXCLUSIVE) for device in self.whole[:count]]
        if fraction:
            fitting = [(left, device) for device, left in self.part.items() if left >= fraction]
            if fitting and not (wanted == WHOLE and len(self.whole) > count):
                device = min(fitting, key=lambda entry: (entry[0] != wanted, entry))[1]
            elif len(self.whole) > count:
                device = self.whole[count]
            else:
                return None
            kind = self.kinds.get(device, ShareKind.TIME_SLICED)
            if kind is ShareKind.EXCLUSIVE:  # nobody holds any of it: others may join
                kind = ShareKind.TIME_SLICED
            picked.append((device, fraction, kind))
        return picked

    def missing(self, amount: int) -> int:
        """How much more this node would need of it to hold the amount; 0 when it holds it."""
        count, fraction = divmod(amount, WHOLE)
        short = max(0, count - len(self.whole)) * WHOLE
        if fraction and len(self.whole) <= count:
            best = max((left for left in self.part.values() if left > 0), default=0)
            short += max(0, fraction - best)
        return short


@dataclass(slots=True)
class Space:
    """CPU or memory of a node, while a cycle is under way."""

    device_id: int | None
    flavor: str
    free: int


class NodeState:
    """One node's working copy; made when the node is first looked at."""

    __slots__ = ("devices", "spaces", "view")

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.devices = {
            name: Devices(
                sorted(free.whole),
                {part.device_id: part.remaining for part in free.partial},
                {part.device_id: part.share_kind for part in free.partial},
            )
            for name, free in view.accelerators.items()
        }
        self.spaces: dict[DeviceClass, list[Space]] = {}
        for slot in view.slots:
            space = Space(slot.device_id, slot.flavor, slot.free)
            self.spaces.setdefault(slot.device_class, []).append(space)
        for spaces in self.spaces.values():
            spaces.sort(key=lambda space: (space.flavor, space.device_id or 0))

    def find(self, allocation: AllocationPlan) -> Space | None:
        """The node's CPU or memory that an allocation is on."""
        for space in self.spaces.get(allocation.device_class, ()):
            if space.device_id == allocation.device_id and space.flavor == allocation.flavor:
                return space
        return None


class Board:
    """All nodes. `usable` are the flavors of clusters that answer and were observed lately."""

    def __init__(
        self, nodes: Mapping[int, NodeView], flavors: Mapping[str, FlavorView], usable: Collection[str]
    ) -> None:
        self.nodes = nodes
        self.flavors = flavors
        self.usable = frozenset(usable)
        self.touched: list[int] = []  # nodes, in the order in which something on them changed
        self.looks = 0
        self._states: dict[int, NodeState] = {}
        self._free: dict[str, int] = {}
        self._order: dict[str, list[int]] = {name: [] for name in usable}
        for node_id in sorted(nodes):
            view = nodes[node_id]
            if view.schedulable:
                for name in {*view.accelerators, *(slot.flavor for slot in view.slots)}:
                    if name in self._order:
                        self._order[name].append(node_id)

    def state(self, node_id: int) -> NodeState:
        """The node's working copy."""
        state = self._states.get(node_id)
        if state is None:
            state = self._states[node_id] = NodeState(self.nodes[node_id])
        return state

    def known(self, node_id: int) -> NodeState | None:
        """The node's working copy if there is one: it is as its view says otherwise."""
        return self._states.get(node_id)

    def order(self, flavor: str) -> list[int]:
        """Nodes that may be given work and have the flavor, by id."""
        return self._order.get(flavor, [])

    def free(self, flavor: str) -> int:
        """What can still be taken of a flavor on all its nodes together."""
        known = self._free.get(flavor)
        if known is None:
            known = self._free[flavor] = sum(self.free_on(node_id, flavor) for node_id in self.order(flavor))
        return known

    def free_on(self, node_id: int, flavor: str) -> int:
        """What can still be taken of a flavor on one node."""
        state = self._states.get(node_id)
        if state is not None:
            return flavor_free(state, flavor)
        view = self.nodes[node_id]
        devices = view.accelerators.get(flavor)
        if devices is not None:
            return len(devices.whole) * WHOLE + sum(part.remaining for part in devices.partial)
        return sum(max(0, slot.free) for slot in view.slots if slot.flavor == flavor)

    def change(self, node_id: int, allocation: AllocationPlan, sign: int) -> None:
        """Gives an allocation back (+1) or takes it (−1). What is not offered any more is passed over."""
        view = self.nodes.get(node_id)
        if view is None or allocation.device_id in view.unavailable:
            return
        self.touched.append(node_id)
        state = self.state(node_id)
        flavor = allocation.flavor
        if allocation.device_class in ACCELERATORS:
            devices = state.devices.get(flavor)
            if devices is None:
                devices = state.devices[flavor] = Devices([])
            before = devices.remaining(allocation.device_id or 0)
            after = before + sign * allocation.quantity
            devices.change(allocation.device_id or 0, sign * allocation.quantity)
        else:
            space = state.find(allocation)
            if space is None:
                return
            before = space.free
            after = space.free = before + sign * allocation.quantity
        if flavor in self._free and flavor in self._order and view.schedulable:
            self._free[flavor] += max(0, after) - max(0, before)

    def change_members(self, members: Iterable[MemberPlan], sign: int) -> None:
        """Gives back or takes all allocations of an attempt."""
        for member in members:
            for allocation in member.allocations:
                self.change(member.node_id, allocation, sign)

    def take_if_free(self, members: Iterable[MemberPlan]) -> bool:
        """Takes exactly the planned places if all of them are free as they stand, or changes nothing."""
        planned = list(members)
        self.change_members(planned, -1)
        free = all(
            allocation_room(self.state(member.node_id), item) >= 0
            for member in planned
            for item in member.allocations
        )
        if not free:
            self.change_members(planned, 1)
        return free

    def take_member(
        self, node_id: int, need: Need, flavor: str, left: int | None = None
    ) -> tuple[AllocationPlan, ...] | None:
        """Takes all that one member needs from one node, or nothing. `left`: what the device should have left
        that a fraction goes on; None: the tightest."""
        state = self.state(node_id)
        self.looks += 1
        if need.labels and not matches(state.view, need):
            return None
        chosen = pick(state, need.primary, need.amount, flavor, left)
        if chosen is None:
            return None
        for device_class, amount in need.others:
            more = self._pick_any(state, device_class, amount)
            if more is None:
                return None
            chosen += more
        for allocation in chosen:
            self.change(node_id, allocation, -1)
        return tuple(chosen)

    def _pick_any(
        self, state: NodeState, device_class: DeviceClass, amount: int
    ) -> list[AllocationPlan] | None:
        if device_class not in ACCELERATORS:
            return pick(state, device_class, amount, None)
        for name in sorted(state.devices):
            view = self.flavors.get(name)
            if view is not None and view.device_class is device_class:
                chosen = pick(state, device_class, amount, name)
                if chosen is not None:
                    return chosen
        return None


def matches(view: NodeView, need: Need) -> bool:
    """True when the node has every label that is asked for."""
    return all(view.labels.get(key) == value for key, value in need.labels)


def flavor_free(state: NodeState, flavor: str) -> int:
    """What can still be taken of a flavor on one node."""
    devices = state.devices.get(flavor)
    if devices is not None:
        return devices.free
    return sum(
        max(0, space.free) for spaces in state.spaces.values() for space in spaces if space.flavor == flavor
    )


def allocation_room(state: NodeState, allocation: AllocationPlan) -> int:
    """What is left where an allocation is to be; negative where more is claimed than there is."""
    if allocation.device_class in ACCELERATORS:
        devices = state.devices.get(allocation.flavor)
        return devices.remaining(allocation.device_id or 0) if devices else 0
    space = state.find(allocation)
    return space.free if space else 0


def pick(
    state: NodeState, device_class: DeviceClass, amount: int, flavor: str | None, left: int | None = None
) -> list[AllocationPlan] | None:
    """Allocations for an amount of one class on one node, not taken yet; of one flavor if it is given."""
    node_id = state.view.id
    if device_class in ACCELERATORS:
        devices = state.devices.get(flavor or "")
        picked = devices.pick(amount, left) if devices else None
        if picked is None:
            return None
        return [
            AllocationPlan(device, node_id, flavor or "", device_class, quantity, kind)
            for device, quantity, kind in picked
        ]
    for space in state.spaces.get(device_class, ()):
        if space.free >= amount and (flavor is None or space.flavor == flavor):
            if not amount:
                return []
            return [AllocationPlan(space.device_id, node_id, space.flavor, device_class, amount)]
    return None
