"""What became of a device that was found: refused with its reason, or retired. What was taken in says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.control.context import Context
from steelyard.model.resources import FoundDevice
from steelyard.services.live_records import LiveDevice, LiveNode
from steelyard.store import inventory as repository
from steelyard.store import tables as t
from steelyard.store.unit import Unit

Json = dict[str, Any]
MAX_UID, MAX_NAME = 200, 200
MAX_CAPACITY = 1 << 40
WHO = "control"


class Registrations:
    """Keeps outcomes, each once: an inventory tells the same again every few seconds."""

    def __init__(self, context: Context) -> None:
        self._context = context
        with context.store.read() as view:
            self._told = {
                (row["cluster"], row["node"], row["uid"], row["outcome"], row["reason"])
                for row in repository.registrations(view, None, None)
                if row["outcome"] != "retired"
            }

    def refused(
        self,
        unit: Unit,
        node: LiveNode,
        found: FoundDevice,
        known: Mapping[tuple[str, str], LiveDevice],
        now: int,
    ) -> Json | None:
        """None where it may be registered; else what is new to be said of it, which may be nothing."""
        outcome, reason = _judge(node, found, known)
        if reason is None:
            return None
        uid = _bounded(found.uid)
        key = (node.cluster, node.name, uid, outcome, reason)
        if key in self._told:
            return {}
        self._told.add(key)
        holder = known.get((node.cluster, found.uid))
        device_id = None if holder is None else holder.id
        self._note(unit, node, uid, device_id, outcome, reason, _source(found), WHO, now)
        return {"uid": uid, "outcome": outcome, "reason": reason}

    def retired(
        self, unit: Unit, node: LiveNode, device: LiveDevice, reason: str, now: int, who: str = WHO
    ) -> Json:
        """A device is gone for good."""
        self._note(unit, node, device.uid, device.id, "retired", reason, "inventory", who, now)
        return {"uid": device.uid, "outcome": "retired", "reason": reason}

    def _note(
        self, unit: Unit, node: LiveNode, uid: str, device_id: int | None, outcome: str, reason: str,
        source: str, who: str, now: int,
    ) -> None:  # fmt: skip
        unit.insert(
            t.registration, id=self._context.store.ids.next(), at=now, cluster=node.cluster, node=node.name,
            uid=uid, device_id=device_id, outcome=outcome, reason=reason, source=source, set_by=who,
        )  # fmt: skip


def _judge(
    node: LiveNode, found: FoundDevice, known: Mapping[tuple[str, str], LiveDevice]
) -> tuple[str, str | None]:
    """(outcome, why it is not registered)."""
    if not found.uid or len(found.uid) > MAX_UID or not found.uid.isprintable():
        return "refused", "uid-invalid"
    for text in (found.family, found.model):
        if len(text) > MAX_NAME or not text.isprintable():
            return "refused", "name-invalid"
    if not 0 <= found.capacity <= MAX_CAPACITY:
        return "refused", "capacity-invalid"
    if (node.cluster, found.uid) in known:
        return "duplicate", "uid-taken"
    if found.parent_uid is not None:
        parent = known.get((node.cluster, found.parent_uid))
        if parent is None or parent.node_id != node.id or parent.parent_uid is not None:
            return "refused", "parent-unknown"
    return "registered", None


def _source(found: FoundDevice) -> str:
    return next((fact.source for _, fact in sorted(found.facts.items())), "inventory")[:MAX_NAME]


def _bounded(uid: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in uid[:MAX_UID])
