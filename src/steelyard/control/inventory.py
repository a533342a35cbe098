"""What engines find against what is registered: nodes, devices, labels, and what became of what was found.

A device that vanishes stays, as missing; capacity does not silently fall. Where nothing changed since the
last inventory nothing is looked at, so that a whole refresh of thousands of nodes costs what changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.control.context import Context
from steelyard.control.devices import (
    NOT_FOUND,
    Changes,
    Devices,
    condition_of,
    outline,
    parents_first,
)
from steelyard.control.failing import note_failing
from steelyard.control.membership import Membership
from steelyard.control.registrations import Registrations
from steelyard.evidence.leaf import Head, LeafDraft
from steelyard.model.availability import DIVIDED, OFFERED, closed_state
from steelyard.model.health import Health
from steelyard.model.ids import render
from steelyard.model.resources import Availability, FoundDevice, FoundNode, Provenance, UnavailableReason
from steelyard.services.ground import FOLLOWED_VERSION
from steelyard.services.live_records import LiveDevice, LiveNode
from steelyard.store import inventory as repository
from steelyard.store import tables as t
from steelyard.store.unit import NO_HEAD, Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
Json = dict[str, Any]
#: What is known of a device's facts: key → value, provenance, source, version of the open one.
Facts = dict[str, Json]
_GONE = FoundNode("", {}, (), Availability.UNPLANNED, UnavailableReason.NODE_LOST.value)
_UNSEEN = (Availability.UNKNOWN, UnavailableReason.CLUSTER_UNREACHABLE)
MOST_SAID = 200
BATCH = 250  # nodes in one commit


class Inventory:
    """Books what the agents find, cluster by cluster."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._membership = Membership(context)
        self.devices = Devices(context)
        self._registrations = Registrations(context)
        self._nodes: dict[str, dict[str, LiveNode]] = {}
        for node in context.state.nodes.values():
            self._nodes.setdefault(node.cluster, {})[node.name] = node
        self._last: dict[tuple[str, str], FoundNode] = {}
        self._again: set[tuple[str, str]] = set()  # looked at again, though nothing may have changed there
        self._failing: list[LiveDevice] = []  # held, and found bad in this pass
        self._given_up: dict[int, Json] = {}  # missing devices that operators gave up, by id

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
        """The whole inventory of a cluster as its engine sees it now. One commit for each batch of nodes."""
        known, last, again = self._nodes.setdefault(cluster, {}), self._last, self._again
        fresh = [
            node for node in nodes
            if last.get((cluster, node.name)) is not node or (cluster, node.name) in again
        ]  # fmt: skip
        for start in range(0, len(fresh), BATCH):
            self._take(cluster, fresh[start : start + BATCH])
        if len(known) > len(nodes):
            names = {node.name for node in nodes}
            gone = [node for name, node in known.items() if name not in names]
            unit, now = self._context.unit(), self._context.now()
            for node in gone:
                self._lost(unit, node, now)
            self._commit(unit, now)

    def _take(self, cluster: str, nodes: list[FoundNode]) -> None:
        unit, now = self._context.unit(), self._context.now()
        known = self._nodes[cluster]
        facts = self._facts(known[found.name] for found in nodes if found.name in known)
        for found in nodes:
            node = known.get(found.name)
            if node is None:
                self._register(unit, cluster, found, now)
            else:
                self._look(unit, node, found, facts, now)
            self._last[cluster, found.name] = found
        self._commit(unit, now)

    def _commit(self, unit: Unit, now: int) -> None:
        failing, self._failing = self._failing, []
        note_failing(self._context, unit, failing, now)
        if unit.drafts or unit.writes:
            self._bump(unit)
            self._context.changed = True
        self._context.commit(unit, now)

    def blind(self, unit: Unit, cluster: str, now: int) -> None:
        """Nothing is known of a cluster any more: what was offered of it is unknown until it is seen."""
        for key in [key for key in self._last if key[0] == cluster]:
            del self._last[key]
        for device in self._context.state.devices.values():
            if device.cluster == cluster and device.availability is Availability.AVAILABLE:
                device.place = _UNSEEN
                self.devices.settle(unit, device, now)

    def flagged(self, unit: Unit, object_ids: Iterable[int], now: int) -> None:
        """Flags of these nodes and devices changed: what they are on is decided anew, with its leaf."""
        state = self._context.state
        touched: dict[int, None] = {}
        for object_id in object_ids:
            device = state.devices.get(object_id)
            node_id = object_id if device is None else device.node_id
            if node_id in state.nodes:
                touched[node_id] = None
        for node_id in touched:
            node, changes = state.nodes[node_id], Changes()
            for device in node.devices:
                self.devices.settle(unit, device, now, changes)
            if changes.said:
                self._write(unit, node, changes, now)
        if touched:
            self._failing = []  # nothing turned bad by a flag
            self._bump(unit)
            self._context.changed = True

    def retired(self, ids: Iterable[int] | None) -> None:
        """Operators gave up these missing devices (by their registration); what is held is waited for."""
        with self._context.store.read() as view:
            self._given_up.update(
                (row["device_id"], row) for row in repository.given_up(view, ids)
            )
        unit, now = self._context.unit(), self._context.now()
        for device_id, row in list(self._given_up.items()):
            device = self._context.state.devices.get(device_id)
            if device is not None and (device.held or device.quarantined or device.has_children):
                continue
            del self._given_up[device_id]
            if device is not None and device.condition.health is Health.MISSING:
                node, changes = self._context.state.nodes[device.node_id], Changes()
                self.devices.retire(unit, device, now)
                changes.said.append({"uid": device.uid, "outcome": "retired", "reason": row["reason"]})
                self._write(unit, node, changes, now)
        self._commit(unit, now)

    def _bump(self, unit: Unit) -> None:
        unit.upsert(t.counter, ("name",), add=("value",), name="inventory_version", value=1)

    def _facts(self, nodes: Iterable[LiveNode]) -> dict[int, Facts]:
        """Facts as they are booked, of the devices of nodes that are looked at."""
        ids = [device.id for node in nodes for device in node.devices]
        if not ids:
            return {}
        found: dict[int, Facts] = {}
        with self._context.store.read() as view:
            for row in repository.open_facts(view, ids):
                known = {name: row[name] for name in ("provenance", "source", "version")}
                known["value"] = msgspec.json.decode(row["value_json"])
                found.setdefault(row["device_id"], {})[row["key"]] = known
        return found

    # --- nodes -------------------------------------------------------------------------------------
    def _register(self, unit: Unit, cluster: str, found: FoundNode, now: int) -> None:
        context = self._context
        # A real machine may have stand-in cards: what is said of the node itself decides.
        simulated = any(fact.provenance is Provenance.SIMULATED for fact in found.facts.values())
        state, own_words = closed_state(found.availability, found.reason)
        reason = None if state[1] is None else state[1].value
        node = LiveNode(
            context.store.ids.next(), cluster, found.name, dict(found.labels), state[0], reason, simulated, 1,
            NO_HEAD, text=found.reason_text or own_words,
        )  # fmt: skip
        context.state.nodes[node.id] = self._nodes[cluster][node.name] = node
        carrier = unit.insert(
            t.node, id=node.id, cluster=cluster, name=node.name, availability=node.availability.value,
            reason=node.reason, reason_text=node.text, labels_json=_encode(node.labels).decode(),
            simulated=simulated, version=1,
        )  # fmt: skip
        self._open_state(unit, node, now)
        said = self._add(unit, node, found, found.devices, now)
        self._leaf(unit, node, carrier, "node.register", said)
        self._membership.assign(unit, node, now)
        context.state.touch_node(node.id)

    def _look(
        self, unit: Unit, node: LiveNode, found: FoundNode, facts: dict[int, Facts], now: int
    ) -> None:
        """A node that is known, as it is now."""
        self._again.discard((node.cluster, node.name))
        changes = Changes()
        moved = self._node_state(unit, node, found, now)
        fresh, dividing = self._children(unit, node, found, changes, now)
        by_uid = {device.uid: device for device in found.devices}
        for device in tuple(node.devices):
            seen = by_uid.get(device.uid)
            if seen is None:
                self.devices.place(device, None, node)
                self.devices.seen(unit, device, NOT_FOUND, now)
            else:
                self.devices.place(device, seen, node)
                if device.id in dividing and device.place == OFFERED:
                    device.place = DIVIDED
                self.devices.seen(unit, device, condition_of(seen, device.condition), now)
                changes.said += self.devices.measures(unit, device, seen)
                changes.said += self.devices.facts(unit, device, facts.get(device.id, {}), seen.facts, now)
            self.devices.settle(unit, device, now, changes)
            if device.condition.holders and device.held:
                self._again.add((node.cluster, node.name))  # until what is held there is given back
        changes.said += self._add(unit, node, found, fresh, now)
        if moved or changes.said:
            self._write(unit, node, changes, now)
            self._membership.assign(unit, node, now)

    def _lost(self, unit: Unit, node: LiveNode, now: int) -> None:
        """A node that its cluster does not tell of any more: what was on it is kept."""
        self._last.pop((node.cluster, node.name), None)
        changes = Changes()
        moved = self._node_state(unit, node, _GONE, now, labels=node.labels)
        for device in node.devices:
            self.devices.place(device, None, node)
            self.devices.settle(unit, device, now, changes)
        if moved or changes.said:
            self._write(unit, node, changes, now)

    def _node_state(
        self, unit: Unit, node: LiveNode, found: FoundNode, now: int, labels: dict[str, str] | None = None
    ) -> bool:
        """State and labels of a node: an interval that is closed when they change."""
        state, own_words = closed_state(found.availability, found.reason)
        reason = None if state[1] is None else state[1].value
        text = found.reason_text or own_words
        wanted = (state[0], reason, text, dict(found.labels) if labels is None else labels)
        if (node.availability, node.reason, node.text, node.labels) == wanted:
            return False
        node.availability, node.reason, node.text, node.labels = wanted
        where = {"node_id": node.id, "version": node.state_version}
        unit.update(t.node_state, where, null=("valid_to",), valid_to=now)
        self._open_state(unit, node, now)
        return True

    def _open_state(self, unit: Unit, node: LiveNode, now: int) -> None:
        node.state_version = now  # instants grow strictly
        unit.insert(
            t.node_state, node_id=node.id, availability=node.availability.value, reason=node.reason,
            reason_text=node.text, labels_json=_encode(node.labels).decode(), set_by=node.cluster,
            valid_from=now, valid_to=None, version=now,
        )  # fmt: skip

    def _write(self, unit: Unit, node: LiveNode, changes: Changes, now: int) -> None:
        carrier = unit.update(
            t.node,
            {"id": node.id, "version": node.version},
            availability=node.availability.value,
            reason=node.reason,
            reason_text=node.text,
            labels_json=_encode(node.labels).decode(),
            version=node.version + 1,
        )
        node.version += 1
        self._leaf(unit, node, carrier, "node.change", changes.said)
        self._context.state.touch_node(node.id)
        self._failing += changes.failing

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
                "changes": changes[:MOST_SAID],
                "changed": len(changes),
                "simulated": node.simulated,
            },
        )

        def keep(head: Head) -> None:
            node.head = head

        unit.leaf(draft, carrier, node.head, keep)

    # --- devices that come and go ------------------------------------------------------------------
    def _add(
        self, unit: Unit, node: LiveNode, found: FoundNode, devices: Iterable[FoundDevice], now: int
    ) -> list[Json]:
        """Registers what can be; what can't is kept as refused. What is to be said of both."""
        parts = {device.parent_uid for device in found.devices if device.parent_uid is not None}
        said = []
        for device in parents_first(devices):
            if device.health is Health.MISSING:
                continue  # its engine may still tell of what was given up here
            refused = self._registrations.refused(unit, node, device, self.devices.by_uid, now)
            if refused is not None:
                if refused:
                    said.append(refused)
                continue
            registered = self.devices.register(unit, node, device, now, device.uid in parts)
            said.append(outline(registered))
        return said

    def _children(
        self, unit: Unit, node: LiveNode, found: FoundNode, changes: Changes, now: int
    ) -> tuple[list[FoundDevice], set[int]]:
        """(what is new on a node, devices that are to be divided and are held still).

        Parts of a device whose division changed are retired once nobody holds them; a device is divided once
        nobody holds it, and whole again once its parts are gone.
        """
        fresh = [device for device in found.devices if self._is_new(node, device)]
        parents = {device.parent_uid for device in found.devices if device.parent_uid is not None}
        renewed = {device.parent_uid for device in fresh}
        there = {device.uid for device in found.devices}
        for device in tuple(node.devices):
            parent = device.parent_uid
            if parent not in there or device.uid in there or (parent in parents and parent not in renewed):
                continue
            if device.held or device.quarantined:
                self._again.add((node.cluster, node.name))
                continue
            self.devices.retire(unit, device, now)
            changes.said.append(self._registrations.retired(unit, node, device, "repartitioned", now))
        dividing: set[int] = set()
        for device in node.devices:
            divided = device.uid in parents
            if device.has_children == divided or device.uid not in there:
                continue
            if divided and (device.held or device.quarantined):
                dividing.add(device.id)
            elif divided or all(other.parent_uid != device.uid for other in node.devices):
                self.devices.divide(unit, device, divided)
        if dividing:
            self._again.add((node.cluster, node.name))
            waiting = {self._context.state.devices[number].uid for number in dividing}
            fresh = [child for child in fresh if child.parent_uid not in waiting]
        return fresh, dividing

    def _is_new(self, node: LiveNode, found: FoundDevice) -> bool:
        """Whether it is not registered, or on another node."""
        known = self.devices.by_uid.get((node.cluster, found.uid))
        return known is None or known.node_id != node.id
