"""What is free on every node while a cycle is under way: a working copy that is taken from and given to.

Remaining quantities may be negative: a hold claims devices its victims still have. Only what is
positive can be taken by anybody else. Taking and giving the same allocation are exact inverses, so a
gang that can't be completed and a simulated eviction are undone by giving and taking back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan, Piece
from steelyard.scheduling.devices import Devices
from steelyard.scheduling.fleet import Room, as_fleet
from steelyard.scheduling.node_state import (
    Need,
    NodeState,
    Space,
    allocation_room,
    flavor_free,
    matches,
    need_of,
    pick,
    piece_of,
    pieces_of,
)
from steelyard.scheduling.views import FlavorView, NodeView

__all__ = [
    "Board", "Need", "NodeState", "Space", "allocation_room", "flavor_free", "matches", "need_of", "pick",
]  # fmt: skip


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
        nodes = [member.node_id for member in members]
        fresh = {node for node in nodes if node not in self._states}
        if not fresh:
            self.change_members(members, -1)
        elif len({*nodes}) == len(nodes) and not any(self.nodes[node].unavailable for node in fresh):
            for member in members:
                if member.node_id in fresh:
                    self._pass_on(member)
                else:
                    self._change_member(member, -1)
        else:
            free = dict(self._free)
            # what is copied only now has it taken already, and what is free in all does not know yet
            self.change_members([member for member in members if member.node_id in fresh], 1)
            self._free = free
            self.change_members(members, -1)

    def _pass_on(self, member: MemberPlan) -> None:
        """What was taken of a node of which there is no copy here: whoever looks at it sees that."""
        state = self._behind.known(member.node_id) if self._behind is not None else None
        if state is None:
            return
        accelerators, others = member.pieces
        for flavor, whole, parts in accelerators:
            more, devices = 0, self._devices(state, flavor)
            for device, quantity in (*((device, WHOLE_DEVICE) for device in whole), *parts):
                rest = devices.remaining(device)
                more += max(rest, 0) - max(rest + quantity, 0)
            self._gained(state.view, flavor, more)
        for device_class, flavor, device_id, quantity in others:
            for space in state.spaces.get(device_class, ()):
                if space.device_id == device_id and space.flavor == flavor:
                    self._gained(state.view, flavor, max(space.free, 0) - max(space.free + quantity, 0))
                    break
        self.touched.append(member.node_id)
        self.changes += len(member.allocations)

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
                    known.left[at], known.whole[at], known.most[at] = pieces_of(self.state(node), flavor)
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
        view = state.view
        if view.unavailable:
            for allocation in member.allocations:
                self.change(node_id, allocation, sign)
            return
        accelerators, others = member.pieces
        offered = self.nodes.frame.orders if view.schedulable else ()
        free = self._free
        for flavor, whole, parts in accelerators:
            devices = state.devices.get(flavor) or self._devices(state, flavor)
            more = devices.change_whole(whole, sign) if whole else 0
            for device, quantity in parts:
                more += devices.change(device, sign * quantity)
            if more and flavor in offered:
                free[flavor] = free.get(flavor, 0) + more
        if others:
            self._change_spaces(state, others, sign, offered)
        if member.allocations:
            self.touched.append(node_id)
            self.changes += len(member.allocations)

    def _change_spaces(
        self, state: NodeState, pieces: Iterable[Piece], sign: int, offered: Collection[str]
    ) -> None:
        free = self._free
        for device_class, flavor, device_id, quantity in pieces:
            for space in state.spaces.get(device_class, ()):
                if space.device_id == device_id and space.flavor == flavor:
                    before = space.free
                    after = space.free = before + sign * quantity
                    more = (after if after > 0 else 0) - (before if before > 0 else 0)
                    if more and flavor in offered:
                        free[flavor] = free.get(flavor, 0) + more
                    break

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
        spaces: list[tuple[Space, int]] = []
        for device_class, amount in need.others:
            if device_class in ACCELERATORS:
                more = self._pick_any(state, device_class, amount)
                if more is None:
                    return None
                chosen += more
            else:
                space = state.roomy(device_class, amount)
                if space is None:
                    return None
                spaces.append((space, amount))
                chosen.append(piece_of(node_id, device_class, space, amount))
        if chosen:
            self._take(state, chosen, spaces)
        return tuple(chosen)

    def _take(
        self, state: NodeState, chosen: list[AllocationPlan], spaces: list[tuple[Space, int]]
    ) -> None:
        """What was picked on one node, the last of it on these spaces: it is free, so it is offered."""
        free, offered = self._free, self.nodes.frame.orders if state.view.schedulable else ()
        for item in chosen[: len(chosen) - len(spaces)]:
            flavor = item.flavor
            if item.device_class in ACCELERATORS:
                more = state.devices[flavor].change(item.device_id or 0, -item.quantity)
                if flavor in offered:
                    free[flavor] = free.get(flavor, 0) + more
            else:
                self._change_space(state, item, -1)
        for space, amount in spaces:
            space.free -= amount
            if space.flavor in offered:
                free[space.flavor] = free.get(space.flavor, 0) - amount
        self.touched.append(state.view.id)
        self.changes += len(chosen)

    def _pick_any(
        self, state: NodeState, device_class: DeviceClass, amount: int
    ) -> list[AllocationPlan] | None:
        for name in sorted(state.devices):
            view = self.flavors.get(name)
            if view is not None and view.device_class is device_class:
                chosen = pick(state, device_class, amount, name)
                if chosen is not None:
                    return chosen
        return None
