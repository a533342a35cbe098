"""Nodes and devices that go away and come back: how an outage strikes the world and its members."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from steelyard.engines.simulated.faults import FaultKind, Suffering
from steelyard.engines.simulated.life import Life
from steelyard.engines.simulated.member import Ending, Member
from steelyard.engines.simulated.suffer import GONE, ON, Outage, Sufferings
from steelyard.engines.simulated.timeline import Timeline
from steelyard.engines.simulated.world import World
from steelyard.model.health import Sign, SignSource


class Outages:
    """All outages that are on or will be. `changed` is told of nodes that look different now."""

    def __init__(
        self,
        world: World,
        timeline: Timeline,
        sufferings: Sufferings,
        members: dict[str, Member],
        changed: Callable[[str], None],
    ) -> None:
        self._world = world
        self._timeline = timeline
        self._sufferings = sufferings
        self._members = members
        self._changed = changed
        self._all: dict[str, Outage] = {}
        self._hidden: dict[str, list[Member]] = {}  # by node; they may end and leave meanwhile
        self._count = 0

    def schedule(self, suffering: Suffering, at: int, targets: tuple[str, ...] | None = None) -> None:
        """It will strike at `at`; without targets it meets those that match then."""
        self._count += 1
        outage = Outage.of(self._count, suffering, at, targets)
        self._all[outage.id] = outage
        self._timeline.schedule(at, outage)

    def follow(self, member: Member, suffering: Suffering, at: int) -> None:
        """A member that was dealt an outage runs since `at`: it will strike where the member is."""
        if suffering.key not in self._sufferings.declared:
            return
        targets: tuple[str, ...] = (member.record.node,)
        if suffering.fault is FaultKind.DEVICE_VANISHES:
            pattern = suffering.match.device or "*"
            held = (uid for uid, _ in member.record.claims if not uid.endswith(("/cpu", "/memory")))
            targets = tuple(uid for uid in held if fnmatchcase(uid, pattern))[:1]
        if targets:
            self.schedule(suffering, at + (suffering.after or 0), targets)

    def step(self, outage: Outage, life: Life, at: int) -> int | None:
        """Takes the outage's next step; returns when the one after it is due."""
        _, what = outage.steps.pop()
        if what == ON:
            self._strike(outage, life, at)
        elif what == GONE:
            for node in outage.targets or ():
                self._gone(node, outage, life, at)
        else:
            self._end(outage, life, at)
        return outage.steps[-1][0] if outage.steps else None

    def hidden_nodes(self) -> list[str]:
        """Nodes on which members can't be seen."""
        return list(self._hidden)

    def relieve(self, suffering: Suffering, life: Life, at: int) -> None:
        """The suffering is no longer declared: what it took away comes back."""
        for outage in [outage for outage in self._all.values() if outage.suffering == suffering]:
            outage.steps.clear()
            self._end(outage, life, at)

    def _strike(self, outage: Outage, life: Life, at: int) -> None:
        suffering = outage.suffering
        if outage.targets is None:
            outage.targets = tuple(self._candidates(suffering)[: suffering.count])
        outage.on = True
        for target in outage.targets:
            if suffering.fault is FaultKind.NODE_LOST:
                self._world.lose_node(target, outage.id)
                here = self._on_node(target)
                self._hidden.setdefault(target, []).extend(m for m in here if life.hide(m, at))
            elif suffering.fault is FaultKind.DEVICE_HEALTH:
                words = suffering.text or f"the simulated tool reports {suffering.sign.value}"
                sign = Sign(suffering.sign, suffering.health, SignSource.TOOL, words[:200])
                self._world.sicken(target, outage.id, sign)
                if suffering.kills:
                    self._kill_holders(target, life, at)
            else:
                self._world.lose_device(target, outage.id)
                if suffering.kills:
                    self._kill_holders(target, life, at)
            self._changed(target.partition("/")[0])

    def _candidates(self, suffering: Suffering) -> list[str]:
        match = suffering.match
        nodes = [
            node
            for node in self._world.layout.nodes.values()
            if match.node is None or fnmatchcase(node.name, match.node)
        ]
        if suffering.fault is FaultKind.NODE_LOST:
            return [node.name for node in nodes]
        return [
            device.uid
            for node in nodes
            for device in node.devices[2:]
            if match.device is None or fnmatchcase(device.uid, match.device)
        ]

    def _kill_holders(self, uid: str, life: Life, at: int) -> None:
        for presence in self._world.holders(uid):
            member = self._members.get(presence.member_id)
            if member is not None:
                text = f"{uid} is not there any more"
                life.kill(member, at, Ending(failure="device-lost", stage="running", text=text))

    def _gone(self, node: str, outage: Outage, life: Life, at: int) -> None:
        self._world.node_gone(node, outage.id)
        self.empty(node, life, at)

    def empty(self, node: str, life: Life, at: int) -> None:
        """The node is gone, and all that was on it."""
        self._changed(node)
        for member in (*self._hidden.pop(node, ()), *self._on_node(node)):
            life.lose(member, at)
        for presence in self._world.on_node(node):
            self._world.leave(presence.member_id)

    def _end(self, outage: Outage, life: Life, at: int) -> None:
        outage.generation += 1
        self._all.pop(outage.id, None)
        if not outage.on:
            return
        outage.on = False
        for target in outage.targets or ():
            self._world.return_node(target, outage.id)
            self._world.return_device(target, outage.id)
            self._world.heal(target, outage.id)
            self._changed(target.partition("/")[0])
            if outage.suffering.fault is FaultKind.NODE_LOST and not self._world.is_lost(target):
                for member in self._hidden.pop(target, ()):
                    life.reveal(member, at)

    def _on_node(self, node: str) -> list[Member]:
        here = (self._members.get(presence.member_id) for presence in self._world.on_node(node))
        return [member for member in here if member is not None]
