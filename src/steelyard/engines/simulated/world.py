"""Ground truth of a simulated cluster: which processes live and who occupies which device.

The engine's notes know what a member was told and what became of it; the world knows what is there. The
live probe asks the world, so that a release that got stuck really disagrees with the notes.
Invariant: what is occupied on a device never exceeds its capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.engines.simulated.inventory import Layout, cpu_uid, memory_uid
from steelyard.engines.simulated.spec import ForeignThing
from steelyard.model.health import DeviceHolder, Sign
from steelyard.model.resources import DeviceClass, FoundDevice

Claims = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Presence:
    """What one member has in the world: its ownership mark, its process, its devices."""

    member_id: str
    attempt_id: str
    install_id: str
    node: str
    claims: Claims
    alive: bool = True


class Refusal(Exception):
    """Why a member can't be put where it was told to go: a code and what it is about."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class World:
    """Nodes, devices, processes. No clock and no faults: others tell it what happens."""

    def __init__(self, layout: Layout, foreign: Iterable[ForeignThing]) -> None:
        self.layout = layout
        self.capacity: dict[str, int] = {}
        self.occupied: dict[str, int] = {}
        self._parents: set[str] = set()
        self._lost: dict[str, set[str]] = {}  # node → sufferings that keep it away
        self._gone: dict[str, set[str]] = {}
        self._missing: dict[str, set[str]] = {}  # device → sufferings that keep it away
        self._ill: dict[str, dict[str, Sign]] = {}  # device → suffering → what is said of it
        self._strangers: dict[str, list[DeviceHolder]] = {}  # device → whose it is that is not ours
        self._here: dict[str, Presence] = {}
        self._of_attempt: dict[str, dict[str, Presence]] = {}
        self._of_node: dict[str, dict[str, Presence]] = {}
        self._foreign: dict[str, int] = {}
        self.rebuild(layout, foreign)

    def rebuild(self, layout: Layout, foreign: Iterable[ForeignThing]) -> None:
        """Another layout: what is occupied stays occupied, nodes that are no longer there are gone."""
        self.layout = layout
        self.capacity = {}
        self._parents = set()
        for node in layout.nodes.values():
            for device in node.devices:
                self.capacity[device.uid] = device.capacity
                if device.parent_uid is not None:
                    self._parents.add(device.parent_uid)
        self._foreign, self._strangers = {}, {}
        for thing in foreign:
            for uid in thing.devices:
                if uid in self.capacity:
                    self._foreign[uid] = self.capacity[uid]
                    self._strangers.setdefault(uid, []).append(_holder(thing))
            for uid, amount in ((cpu_uid(thing.node), thing.cpu), (memory_uid(thing.node), thing.memory)):
                if amount and uid in self.capacity:
                    self._foreign[uid] = min(self._foreign.get(uid, 0) + amount, self.capacity[uid])
                    self._strangers.setdefault(uid, []).append(_holder(thing))

    # -- nodes and devices ------------------------------------------------------------------------

    def lose_node(self, node: str, by: str) -> None:
        """Nobody can reach the node any more; what runs on it goes on."""
        self._lost.setdefault(node, set()).add(by)

    def return_node(self, node: str, by: str) -> None:
        """One cause less."""
        for causes in (self._lost, self._gone):
            causes.get(node, set()).discard(by)

    def node_gone(self, node: str, by: str) -> None:
        """The node's state says that it is gone."""
        self._gone.setdefault(node, set()).add(by)

    def is_lost(self, node: str) -> bool:
        """Whether the node can't be reached (a node that was taken out of the document can't either)."""
        return bool(self._lost.get(node)) or node not in self.layout.nodes

    def is_gone(self, node: str) -> bool:
        """Whether the node is known to be gone for good, or until it returns empty."""
        return bool(self._gone.get(node)) or node not in self.layout.nodes

    def lose_device(self, uid: str, by: str) -> None:
        """The device is not there any more."""
        self._missing.setdefault(uid, set()).add(by)

    def return_device(self, uid: str, by: str) -> None:
        """One cause less."""
        self._missing.get(uid, set()).discard(by)

    def sicken(self, uid: str, by: str, sign: Sign) -> None:
        """The simulated tool says something of the device."""
        self._ill.setdefault(uid, {})[by] = sign

    def heal(self, uid: str, by: str) -> None:
        """One thing less is said of it."""
        self._ill.get(uid, {}).pop(by, None)

    def signs_of(self, uid: str) -> tuple[Sign, ...]:
        """What is said of the device now."""
        return tuple(self._ill.get(uid, {}).values())

    def strangers_on(self, uid: str) -> tuple[DeviceHolder, ...]:
        """Who is on the device and not ours."""
        return tuple(self._strangers.get(uid, ()))

    def missing_of(self, node: str) -> frozenset[str]:
        """Devices of the node that are missing."""
        prefix = f"{node}/"
        return frozenset(uid for uid, causes in self._missing.items() if causes and uid.startswith(prefix))

    def is_missing(self, uid: str) -> bool:
        """Whether the device, or the device that it is a part of, is missing."""
        causes = self._missing
        return bool(causes) and bool(causes.get(uid) or causes.get(uid.rpartition(".")[0]))

    # -- members ----------------------------------------------------------------------------------

    def claim(
        self,
        node: str,
        cpu: int,
        memory: int,
        devices: Iterable[tuple[str | None, DeviceClass, str, int]],
        pending: dict[str, int],
    ) -> Claims:
        """What a member would occupy, devices without a name chosen; nothing is taken yet.

        `pending` are the claims of its gang so far and takes these in. Raises Refusal.
        """
        if node not in self.layout.nodes:
            raise Refusal("node-unknown", node)
        if self.is_lost(node):
            raise Refusal("node-lost", node)
        asked: dict[str, int] = {}
        if cpu:
            asked[cpu_uid(node)] = cpu
        if memory:
            asked[memory_uid(node)] = memory
        for uid, device_class, model, quantity in devices:
            if device_class is DeviceClass.CPU or device_class is DeviceClass.MEMORY:
                continue  # `cpu` and `memory` say it already
            if uid is None:
                uid = self._choose(node, device_class, model, quantity, asked, pending)
            else:
                self._check_named(node, uid)
            asked[uid] = asked.get(uid, 0) + quantity
        for uid, quantity in asked.items():
            if quantity <= 0 or quantity > self.free(uid) - pending.get(uid, 0):
                raise Refusal("device-busy", uid)
        for uid, quantity in asked.items():
            pending[uid] = pending.get(uid, 0) + quantity
        return tuple(asked.items())

    def _check_named(self, node: str, uid: str) -> None:
        if uid not in self.capacity or uid in self._parents or not uid.startswith(f"{node}/"):
            raise Refusal("device-unknown", uid)
        if self.is_missing(uid):
            raise Refusal("device-missing", uid)

    def free(self, uid: str) -> int:
        """What nobody occupies of a device."""
        return self.capacity.get(uid, 0) - self.occupied.get(uid, 0) - self._foreign.get(uid, 0)

    def enter(self, presence: Presence) -> None:
        """A member's process comes to be, and takes its claims."""
        occupied = self.occupied
        for uid, quantity in presence.claims:
            occupied[uid] = occupied.get(uid, 0) + quantity
        self._here[presence.member_id] = presence
        self._of_attempt.setdefault(presence.attempt_id, {})[presence.member_id] = presence
        self._of_node.setdefault(presence.node, {})[presence.member_id] = presence

    def die(self, member_id: str) -> None:
        """The process ends; its devices may stay occupied for a while."""
        presence = self._here.get(member_id)
        if presence is not None:
            presence.alive = False

    def leave(self, member_id: str) -> None:
        """The devices are given back; nothing of the member is left. Idempotent."""
        presence = self._here.pop(member_id, None)
        if presence is None:
            return
        occupied = self.occupied
        for uid, quantity in presence.claims:
            left = occupied[uid] - quantity
            if left:
                occupied[uid] = left
            else:
                del occupied[uid]
        of_attempt = self._of_attempt[presence.attempt_id]
        del of_attempt[member_id]
        if not of_attempt:
            del self._of_attempt[presence.attempt_id]
        del self._of_node[presence.node][member_id]

    def everything(self) -> tuple[Presence, ...]:
        """Everything of ours that is there."""
        return tuple(self._here.values())

    def on_node(self, node: str) -> tuple[Presence, ...]:
        """Who is on a node."""
        return tuple(self._of_node.get(node, {}).values())

    def holders(self, uid: str) -> tuple[Presence, ...]:
        """Who occupies a device or a part of it."""
        node = uid.partition("/")[0]
        return tuple(
            presence
            for presence in self.on_node(node)
            if any(claimed == uid or claimed.rpartition(".")[0] == uid for claimed, _ in presence.claims)
        )

    def of_attempt(self, attempt_id: str) -> tuple[Presence, ...]:
        """What carries the attempt's mark."""
        return tuple(self._of_attempt.get(attempt_id, {}).values())

    def _choose(
        self,
        node: str,
        device_class: DeviceClass,
        model: str,
        quantity: int,
        asked: dict[str, int],
        pending: dict[str, int],
    ) -> str:
        """First device of the model with room enough, in the order of the document."""
        for device in self.layout.nodes[node].devices:
            if not _fits(device, device_class, model) or device.uid in self._parents:
                continue
            used = asked.get(device.uid, 0) + pending.get(device.uid, 0)
            if self.free(device.uid) - used >= quantity and not self.is_missing(device.uid):
                return device.uid
        raise Refusal("device-busy", f"{node}: {model}")


def _holder(thing: ForeignThing) -> DeviceHolder:
    pid = int(thing.id) if thing.id.isascii() and thing.id.isdigit() and len(thing.id) < 10 else None
    return DeviceHolder(pid, thing.text[:60], memory=thing.memory or None, cpu=thing.cpu or None)


def _fits(device: FoundDevice, device_class: DeviceClass, model: str) -> bool:
    return device.device_class is device_class and model in ("", device.model)
