"""One node while a cycle is under way: what of it can still be taken, and what a member would take."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberRequest
from steelyard.scheduling.devices import Devices
from steelyard.scheduling.views import NodeView


@dataclass(frozen=True, eq=False, slots=True)
class Need:
    """A member's request, taken apart. `primary` is what flavors are chosen for."""

    primary: DeviceClass
    amount: int
    others: tuple[tuple[DeviceClass, int], ...]
    labels: tuple[tuple[str, str], ...]
    request: MemberRequest
    memory: int = 0  # MiB of each device
    is_accelerated: bool = field(init=False)  # it asks for an accelerator
    amounts: tuple[tuple[DeviceClass, int], ...] = field(init=False)  # of all classes, the primary first

    def __post_init__(self) -> None:
        """What is asked for again and again."""
        object.__setattr__(self, "is_accelerated", self.primary in ACCELERATORS)
        object.__setattr__(self, "amounts", ((self.primary, self.amount), *self.others))


_CLASSES = (*ACCELERATORS, DeviceClass.CPU, DeviceClass.MEMORY)
_RANK = {device_class: rank for rank, device_class in enumerate(_CLASSES)}


@lru_cache(maxsize=8192)
def need_of(request: MemberRequest) -> Need:
    """The same object for equal requests, as long as it is remembered."""
    amounts = sorted((item for item in request.amounts if item[1] > 0), key=lambda item: _RANK[item[0]])
    if not amounts:
        return Need(DeviceClass.CPU, 0, (), request.node_labels, request)
    primary, amount = amounts[0]
    memory = request.device_memory if primary in ACCELERATORS else 0
    return Need(primary, amount, tuple(amounts[1:]), request.node_labels, request, memory)


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
                view.memories,
                view.partitions,
            )
            for name, free in view.accelerators.items()
        }
        self.spaces: dict[DeviceClass, list[Space]] = {}
        for slot in view.slots:
            space = Space(slot.device_id, slot.flavor, slot.free)
            self.spaces.setdefault(slot.device_class, []).append(space)
        for spaces in self.spaces.values():
            spaces.sort(key=lambda space: (space.flavor, space.device_id or 0))

    @classmethod
    def of(
        cls, view: NodeView, devices: dict[str, Devices], spaces: dict[DeviceClass, list[Space]]
    ) -> NodeState:
        """One with these."""
        made = object.__new__(cls)
        made.view, made.devices, made.spaces = view, devices, spaces
        return made

    def copy(self) -> NodeState:
        """One of its own."""
        made = object.__new__(NodeState)
        made.view = self.view
        made.devices = {name: devices.copy() for name, devices in self.devices.items()}
        made.spaces = {
            cls: [Space(space.device_id, space.flavor, space.free) for space in spaces]
            for cls, spaces in self.spaces.items()
        }
        return made

    def roomy(self, device_class: DeviceClass, amount: int, flavor: str | None = None) -> Space | None:
        """The first of the node's CPU or memory with so much free; of one flavor if it is given."""
        for space in self.spaces.get(device_class, ()):
            if space.free >= amount and (flavor is None or space.flavor == flavor):
                return space
        return None

    def find(self, allocation: AllocationPlan) -> Space | None:
        """The node's CPU or memory that an allocation is on."""
        for space in self.spaces.get(allocation.device_class, ()):
            if space.device_id == allocation.device_id and space.flavor == allocation.flavor:
                return space
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


def pieces_of(state: NodeState, flavor: str) -> tuple[int, int, int]:
    """(what is free of a flavor on one node, whole devices, the largest piece)."""
    devices = state.devices.get(flavor)
    if devices is not None:
        return devices.free, len(devices.whole), devices.most
    frees = [space.free for spaces in state.spaces.values() for space in spaces if space.flavor == flavor]
    return sum(max(0, free) for free in frees), 0, max(frees, default=0)


def allocation_room(state: NodeState, allocation: AllocationPlan) -> int:
    """What is left where an allocation is to be; negative where more is claimed than there is."""
    if allocation.device_class in ACCELERATORS:
        devices = state.devices.get(allocation.flavor)
        return devices.remaining(allocation.device_id or 0) if devices else 0
    space = state.find(allocation)
    return space.free if space else 0


def _asked(amount: int, number: int, granted: int) -> int | None:
    """What was asked of the device, whole ones first; None where that is what is granted."""
    asked = min(WHOLE_DEVICE, amount - number * WHOLE_DEVICE)
    return None if asked == granted else asked


#: The same value for what is given again and again.
_allocation = lru_cache(maxsize=32_768)(AllocationPlan)


@lru_cache(maxsize=32_768)
def _whole(device: int, node_id: int, flavor: str, device_class: DeviceClass) -> AllocationPlan:
    return AllocationPlan(device, node_id, flavor, device_class, WHOLE_DEVICE)


def piece_of(node_id: int, device_class: DeviceClass, space: Space, amount: int) -> AllocationPlan:
    """So much of a node's CPU or memory."""
    return _allocation(space.device_id, node_id, space.flavor, device_class, amount)


def pick(
    state: NodeState,
    device_class: DeviceClass,
    amount: int,
    flavor: str | None,
    left: int | None = None,
    memory: int = 0,
) -> list[AllocationPlan] | None:
    """Allocations for an amount of one class on one node, not taken yet; of one flavor if it is given. `left`
    and `memory`: see `Devices.pick`."""
    node_id = state.view.id
    if device_class in ACCELERATORS:
        devices = state.devices.get(flavor or "")
        if devices is not None and not (amount % WHOLE_DEVICE or memory or devices.partitions):
            count = amount // WHOLE_DEVICE
            if count > len(devices.whole):
                return None
            return [_whole(device, node_id, flavor or "", device_class) for device in devices.whole[:count]]
        picked = devices.pick(amount, left, memory) if devices else None
        if picked is None:
            return None
        return [
            _allocation(
                device, node_id, flavor or "", device_class, quantity, kind, _asked(amount, number, quantity)
            )
            for number, (device, quantity, kind) in enumerate(picked)
        ]
    space = state.roomy(device_class, amount, flavor)
    if space is None:
        return None
    return [piece_of(node_id, device_class, space, amount)] if amount else []
