"""What is free on every node while a cycle is under way: a working copy that is taken from and given to.

Remaining quantities may be negative: a hold claims devices its victims still have. Only what is
positive can be taken by anybody else. Taking and giving the same allocation are exact inverses, so a
gang that can't be completed and a simulated eviction are undone by giving and taking back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan, MemberRequest
from steelyard.scheduling.devices import Devices
from steelyard.scheduling.fleet import Room, as_fleet
from steelyard.scheduling.views import FlavorView, NodeView


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
        self.nodes = as_fleet(nodes)
        self.flavors = flavors
        self.usable = frozenset(usable)
        self.touched: list[int] = []  # nodes, in the order in which something on them changed
        self.looks = 0
        self.changes = 0  # allocations that were given or taken
        self._states: dict[int, NodeState] = {}
        self._rooms: dict[str, Room] = {}  # copies of the nodes' own, which follow when they are asked for
        self._followed: dict[str, int] = {}  # how much of what was touched each of them has taken in
        self._free: dict[str, int] = {}
        self._behind: Board | None = None  # the one that nodes are copied from

    def beside(self) -> Board:
        """A working copy of this working copy. What is taken here later, it is told by `follow`."""
        made = Board(self.nodes, self.flavors, self.usable)
        made._behind = self
        made.touched = [*dict.fromkeys(self.touched)]
        made._free = dict(self._free)
        return made

    def follow(self, members: Sequence[MemberPlan]) -> None:
        """Takes what was taken just now of the board that it was made beside."""
        free, nodes = dict(self._free), {member.node_id for member in members} - self._states.keys()
        # what is copied only now has it taken already, and what is free in all does not know yet
        self.change_members([member for member in members if member.node_id in nodes], 1)
        self._free = free
        self.change_members(members, -1)

    def state(self, node_id: int) -> NodeState:
        """The node's working copy."""
        state = self._states.get(node_id)
        if state is None:
            known = self._behind.known(node_id) if self._behind is not None else None
            state = NodeState(self.nodes[node_id]) if known is None else known.copy()
            self._states[node_id] = state
        return state

    def known(self, node_id: int) -> NodeState | None:
        """The node's working copy if there is one: it is as its view says otherwise."""
        state = self._states.get(node_id)
        return self._behind.known(node_id) if state is None and self._behind is not None else state

    def order(self, flavor: str) -> Sequence[int]:
        """Nodes that may be given work and have the flavor, by id."""
        return self.nodes.order(flavor) if flavor in self.usable else ()

    def room(self, flavor: str) -> Room:
        """What can still be taken of a usable flavor, by position in its order; not to be changed."""
        known = self._rooms.get(flavor)
        if known is None:
            known = self._rooms[flavor] = self.nodes.room(flavor).copy()
            self._followed[flavor] = 0
        since, until = self._followed[flavor], len(self.touched)
        if since < until:
            for node in dict.fromkeys(self.touched[since:until]):
                at = self.nodes.position(flavor, node)
                if at is not None:
                    known.left[at], known.whole[at], known.most[at] = _pieces(self.state(node), flavor)
            self._followed[flavor] = until
        return known

    def may_hold(self, node_id: int, flavor: str, whole: int, part: int) -> bool:
        """Whether so many whole devices of a flavor are free on a node, or where none is asked for a piece of
        that size. As `Room.first` looks at it."""
        state = self.state(node_id)
        devices = state.devices.get(flavor)
        if devices is not None:
            return len(devices.whole) >= whole if whole else devices.most >= part
        if whole:
            return False
        return any(
            space.flavor == flavor and space.free >= part
            for spaces in state.spaces.values()
            for space in spaces
        )

    def free(self, flavor: str) -> int:
        """What can still be taken of a flavor on all its nodes together."""
        if flavor not in self.usable:
            return 0
        return self.nodes.room(flavor).free + self._free.get(flavor, 0)

    def free_on(self, node_id: int, flavor: str) -> int:
        """What can still be taken of a flavor on one node."""
        state = self.known(node_id)
        if state is not None:
            return flavor_free(state, flavor)
        view = self.nodes[node_id]
        devices = view.accelerators.get(flavor)
        if devices is not None:
            return len(devices.whole) * WHOLE_DEVICE + sum(part.remaining for part in devices.partial)
        return sum(max(0, slot.free) for slot in view.slots if slot.flavor == flavor)

    def change(self, node_id: int, allocation: AllocationPlan, sign: int) -> None:
        """Gives an allocation back (+1) or takes it (−1). What is not offered any more is passed over."""
        state = self._states.get(node_id)
        if state is None:
            if node_id not in self.nodes:
                return
            state = self.state(node_id)
        view = state.view
        if allocation.device_id in view.unavailable:
            return
        self.touched.append(node_id)
        self.changes += 1
        if allocation.device_class in ACCELERATORS:
            devices = self._devices(state, allocation.flavor)
            more = devices.change(allocation.device_id or 0, sign * allocation.quantity)
            self._gained(view, allocation.flavor, more)
        else:
            self._change_space(state, allocation, sign)

    def _devices(self, state: NodeState, flavor: str) -> Devices:
        devices = state.devices.get(flavor)
        if devices is None:
            view = state.view
            devices = Devices([], memories=view.memories, partitions=view.partitions)
            state.devices[flavor] = devices
        return devices

    def _change_space(self, state: NodeState, allocation: AllocationPlan, sign: int) -> None:
        space = state.find(allocation)
        if space is not None:
            before = space.free
            after = space.free = before + sign * allocation.quantity
            more = (after if after > 0 else 0) - (before if before > 0 else 0)
            self._gained(state.view, allocation.flavor, more)

    def _gained(self, view: NodeView, flavor: str, more: int) -> None:
        if more and view.schedulable and flavor in self.nodes.frame.orders:
            self._free[flavor] = self._free.get(flavor, 0) + more

    def change_members(self, members: Iterable[MemberPlan], sign: int) -> None:
        """Gives back or takes all allocations of an attempt."""
        for member in members:
            self._change_member(member, sign)

    def _change_member(self, member: MemberPlan, sign: int) -> None:
        """As `change` of each allocation: what is on one node is looked up once."""
        node_id = member.node_id
        state = self._states.get(node_id)
        if state is None:
            if node_id not in self.nodes:
                return
            state = self.state(node_id)
        if state.view.unavailable:
            for allocation in member.allocations:
                self.change(node_id, allocation, sign)
            return
        accelerators, others = member.pieces
        for flavor, whole, parts in accelerators:
            devices = self._devices(state, flavor)
            more = devices.change_whole(whole, sign) if whole else 0
            for device, quantity in parts:
                more += devices.change(device, sign * quantity)
            self._gained(state.view, flavor, more)
        for allocation in others:
            self._change_space(state, allocation, sign)
        if member.allocations:
            self.touched.append(node_id)
            self.changes += len(member.allocations)

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
        chosen = pick(state, need.primary, need.amount, flavor, left, need.memory)
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


def _pieces(state: NodeState, flavor: str) -> tuple[int, int, int]:
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
        picked = devices.pick(amount, left, memory) if devices else None
        if picked is None:
            return None
        return [
            AllocationPlan(
                device, node_id, flavor or "", device_class, quantity, kind, _asked(amount, number, quantity)
            )
            for number, (device, quantity, kind) in enumerate(picked)
        ]
    for space in state.spaces.get(device_class, ()):
        if space.free >= amount and (flavor is None or space.flavor == flavor):
            if not amount:
                return []
            return [AllocationPlan(space.device_id, node_id, space.flavor, device_class, amount)]
    return None
