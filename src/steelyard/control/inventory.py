"""What engines find against what is registered: nodes, devices, facts, pools, availability.

A device that vanishes stays as unavailable with a reason; capacity does not silently fall. Pool
membership follows from the declared pools and is an interval like every other relation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.control.context import Context
from steelyard.control.membership import Membership
from steelyard.evidence.leaf import Head, LeafDraft
from steelyard.evidence.usage import MeterDevice
from steelyard.model.ids import render
from steelyard.model.resources import Availability, FoundDevice, FoundNode, Provenance, UnavailableReason
from steelyard.services.ground import FOLLOWED_VERSION
from steelyard.services.live_records import LiveDevice, LiveNode
from steelyard.store import tables as t
from steelyard.store.unit import NO_HEAD, Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
Json = dict[str, Any]
State = tuple[LiveDevice, Availability, str | None]
_GONE = (Availability.UNPLANNED, UnavailableReason.NODE_LOST.value)
_MISSING = (Availability.UNPLANNED, UnavailableReason.MISSING.value)
_FENCED = (Availability.UNPLANNED, UnavailableReason.FENCED.value)


class Inventory:
    """Books what the agents find, cluster by cluster."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._membership = Membership(context)
        self._names: dict[tuple[str, str], LiveNode] = {
            (node.cluster, node.name): node for node in context.state.nodes.values()
        }
        self._uids: dict[tuple[str, str], LiveDevice] = {
            (device.cluster, device.uid): device for device in context.state.devices.values()
        }

    def pools_changed(self, version: int) -> None:
        """Something was declared, up to `version`: every device is looked at again."""
        self._membership.load()
        context, now = self._context, self._context.now()
        unit = context.unit()
        for node in context.state.nodes.values():
            self._membership.assign(unit, node, now)
        self._bump(unit)
        unit.upsert(t.counter, ("name",), name=FOLLOWED_VERSION, value=version)
        context.commit(unit, now)
        context.changed = True

    def found(self, cluster: str, nodes: tuple[FoundNode, ...]) -> None:
        """The whole inventory of a cluster as its engine sees it now."""
        context, now = self._context, self._context.now()
        unit = context.unit()
        seen = {node.name for node in nodes}
        for node in nodes:
            self._node(unit, cluster, node, now)
        for (where, name), known in self._names.items():
            if where == cluster and name not in seen and (known.availability, known.reason) != _GONE:
                lost: list[State] = [(device, *_GONE) for device in known.devices if device.reason is None]
                self._changed(unit, known, *_GONE, lost, now)
        if unit.drafts:
            self._bump(unit)
            context.changed = True
        context.commit(unit, now)

    def take_out(self, unit: Unit, device_ids: Iterable[int], now: int) -> None:
        """Devices out of service, whatever their engine says of them."""
        self._serve(unit, device_ids, True, now)

    def bring_back(self, unit: Unit, device_ids: Iterable[int], now: int) -> None:
        """Devices that were taken out are as available as their node again, until the engine is asked."""
        self._serve(unit, device_ids, False, now)

    def _serve(self, unit: Unit, device_ids: Iterable[int], out: bool, now: int) -> None:
        state = self._context.state
        by_node: dict[int, list[State]] = {}
        for device_id in sorted(device_ids):
            device = state.devices.get(device_id)
            if device is None or ((device.availability, device.reason) == _FENCED) == out:
                continue
            node = state.nodes[device.node_id]
            wanted = _FENCED if out else (node.availability, node.reason)
            by_node.setdefault(node.id, []).append((device, *wanted))
        for node_id, states in by_node.items():
            node = state.nodes[node_id]
            self._changed(unit, node, node.availability, node.reason, states, now)
        if by_node:
            self._bump(unit)
            self._context.changed = True

    def _bump(self, unit: Unit) -> None:
        unit.upsert(t.counter, ("name",), add=("value",), name="inventory_version", value=1)

    # --- nodes -------------------------------------------------------------------------------------
    def _node(self, unit: Unit, cluster: str, found: FoundNode, now: int) -> None:
        known = self._names.get((cluster, found.name))
        if known is None:
            self._register(unit, cluster, found, now)
            return
        fresh = [device for device in found.devices if (cluster, device.uid) not in self._uids]
        states = self._states(known, found)
        seen = (found.availability, found.reason, dict(found.labels))
        if (known.availability, known.reason, known.labels) == seen and not states and not fresh:
            return
        known.labels = dict(found.labels)
        for device in _parents_first(fresh):
            self._device(unit, known, device, found, now)
        self._changed(unit, known, found.availability, found.reason, states, now, fresh)
        self._membership.assign(unit, known, now)

    def _states(self, known: LiveNode, found: FoundNode) -> list[State]:
        """Registered devices of the node whose state is another now; what vanished is missing."""
        states: list[State] = []
        by_uid = {device.uid: device for device in found.devices}
        for mine in known.devices:
            if (mine.availability, mine.reason) == _FENCED:
                continue  # out of service until what holds it is proven gone, whatever the engine sees
            device = by_uid.get(mine.uid)
            state = _effective(found, device) if device is not None else _MISSING
            if (mine.availability, mine.reason) != state:
                states.append((mine, *state))
        return states

    def _register(self, unit: Unit, cluster: str, found: FoundNode, now: int) -> None:
        context = self._context
        facts = [*found.facts.values(), *(fact for d in found.devices for fact in d.facts.values())]
        simulated = any(fact.provenance is Provenance.SIMULATED for fact in facts)
        node = LiveNode(
            context.store.ids.next(),
            cluster,
            found.name,
            dict(found.labels),
            found.availability,
            found.reason,
            simulated,
            1,
            NO_HEAD,
        )
        context.state.nodes[node.id] = self._names[cluster, found.name] = node
        carrier = unit.insert(
            t.node,
            id=node.id,
            cluster=cluster,
            name=node.name,
            availability=node.availability.value,
            reason=node.reason,
            reason_text=found.reason_text,
            labels_json=_encode(node.labels).decode(),
            simulated=simulated,
            version=1,
        )
        for device in _parents_first(found.devices):
            self._device(unit, node, device, found, now)
        self._leaf(unit, node, carrier, "node.register", [_outline(device) for device in found.devices])
        self._membership.assign(unit, node, now)
        context.state.touch_node(node.id)

    def _changed(
        self,
        unit: Unit,
        node: LiveNode,
        availability: Availability,
        reason: str | None,
        states: list[State],
        now: int,
        fresh: list[FoundDevice] | None = None,
    ) -> None:
        node.availability, node.reason = availability, reason
        carrier = unit.update(
            t.node,
            {"id": node.id, "version": node.version},
            availability=availability.value,
            reason=reason,
            labels_json=_encode(node.labels).decode(),
            version=node.version + 1,
        )
        node.version += 1
        changes = []
        for device, to, why in states:
            changes.append(
                {"uid": device.uid, "from": device.availability.value, "to": to.value, "reason": why}
            )
            self._availability(unit, device, to, why, now)
        added = [_outline(device) for device in fresh or ()]
        self._leaf(unit, node, carrier, "node.change", changes + added)
        self._context.state.touch_node(node.id)

    def _leaf(self, unit: Unit, node: LiveNode, carrier: Json, action: str, changes: list[Json]) -> None:
        draft = LeafDraft(
            action=action,
            object_kind="node",
            object_id=render("node", node.id),
            version_before=None if node.version == 1 else node.version - 1,
            version_after=node.version,
            cluster=node.cluster,
            reason_code=node.reason,
            extra={
                "name": node.name,
                "availability": node.availability.value,
                "labels": node.labels,
                "changes": changes[:200],
                "simulated": node.simulated,
            },
        )

        def keep(head: Head) -> None:
            node.head = head

        unit.leaf(draft, carrier, node.head, keep)

    # --- devices -----------------------------------------------------------------------------------
    def _device(self, unit: Unit, node: LiveNode, found: FoundDevice, where: FoundNode, now: int) -> None:
        context = self._context
        parent = self._uids.get((node.cluster, found.parent_uid or ""))
        if parent is not None and not parent.has_children:
            parent.has_children = True
            unit.update(t.device, {"id": parent.id}, has_children=True)
            if parent.held == 0 and parent.id in context.meter:
                context.meter.retire(parent.id, now)  # its children are metered instead
        parted = any(other.parent_uid == found.uid for other in where.devices)
        availability, reason = _effective(where, found)
        simulated = any(fact.provenance == "simulated" for fact in found.facts.values()) or node.simulated
        device = LiveDevice(
            context.store.ids.next(),
            node.id,
            node.cluster,
            found.uid,
            found.device_class,
            found.family,
            found.model,
            found.capacity,
            found.memory,
            availability,
            reason,
            simulated,
            parted,
            1,
            None,
            None,
            found.parent_uid,
        )
        node.devices.append(device)
        context.state.devices[device.id] = self._uids[node.cluster, found.uid] = device
        unit.insert(
            t.device,
            id=device.id,
            cluster=node.cluster,
            node_id=node.id,
            uid=found.uid,
            device_class=found.device_class.value,
            family=found.family,
            model=found.model,
            capacity=found.capacity,
            memory=found.memory,
            parent_id=None if parent is None else parent.id,
            has_children=parted,
            availability=availability.value,
            reason=reason,
            reason_text=found.reason_text,
            simulated=simulated,
            registered_at=now,
            retired_at=None,
            version=1,
        )
        for key, fact in sorted(found.facts.items()):
            unit.insert(
                t.device_fact,
                device_id=device.id,
                key=key,
                value_json=_encode(fact.value).decode(),
                provenance=fact.provenance.value,
                source=fact.source,
                at=fact.at,
                valid_from=now,
                valid_to=None,
                version=1,
            )
        if parted:
            return  # its children are metered instead
        metered = MeterDevice(device.id, device.cluster, device.device_class, device.simulated)
        context.meter.register(metered, device.capacity, now, availability=availability.value, reason=reason)

    def _availability(
        self, unit: Unit, device: LiveDevice, to: Availability, reason: str | None, now: int
    ) -> None:
        device.availability, device.reason = to, reason
        unit.update(t.device, {"id": device.id}, availability=to.value, reason=reason)
        self._context.state.touch(device.id)
        if device.id in self._context.meter:
            self._context.meter.set_availability(device.id, to.value, reason, now)


def _effective(node: FoundNode, device: FoundDevice) -> tuple[Availability, str | None]:
    """A device is no more available than its node."""
    if node.availability is not Availability.AVAILABLE and device.availability is Availability.AVAILABLE:
        return node.availability, node.reason
    return device.availability, device.reason


def _parents_first(devices: Iterable[FoundDevice]) -> list[FoundDevice]:
    return sorted(devices, key=lambda device: device.parent_uid is not None)


def _outline(device: FoundDevice) -> Json:
    return {
        "uid": device.uid,
        "class": device.device_class.value,
        "family": device.family,
        "model": device.model,
        "capacity": device.capacity,
        "availability": device.availability.value,
        "reason": device.reason,
    }
