"""Why a workload waits, asked of `decide` itself on what the next cycle would see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import msgspec

from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import Shape
from steelyard.scheduling.decide import explain
from steelyard.scheduling.explain import can_ever_fit
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem
from steelyard.services.reasons import own_reasons, reason_view, scoped_reason
from steelyard.services.shapes import read_shape
from steelyard.store import waiting
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.inventory import outages
from steelyard.store.scoped import Record

Json = dict[str, Any]
_WAITING = frozenset({Phase.QUEUED, Phase.RESERVED})


class FullSnapshots(Protocol):
    """Makes the snapshot that the next cycle would work on."""

    def full(self, connection: View, now: int) -> tuple[Snapshot, Policy]:
        """Everything, as it stands in the store."""
        ...


def explanation(connection: View, scope: Scope, snapshots: FullSnapshots, row: Record, now: int) -> Json:
    """The answer for one workload. `row` comes from the repository, within the scope."""
    phase = row["phase"]
    if phase in _WAITING:
        return _waiting(connection, scope, snapshots, row, now)
    reasons = own_reasons(row, now)
    decision = "waits" if phase == Phase.HELD else "finished" if phase == Phase.FINISHED else "running"
    return {**_answer(decision, reasons, None, [], None, False, None), "verdict": _verdict(row)}


def _verdict(row: Record) -> Json | None:
    """Why the last attempt of a finished workload did not succeed."""
    if row["outcome"] in (None, "succeeded") or not row["verdict_json"]:
        return None
    found: Json = msgspec.json.decode(row["verdict_json"])
    return found


def _waiting(connection: View, scope: Scope, snapshots: FullSnapshots, row: Record, now: int) -> Json:
    snapshot, policy = snapshots.full(connection, now)
    shape = read_shape(repository.shape_bodies(connection, [row["shape_id"]])[row["shape_id"]])
    never = can_ever_fit(snapshot, policy, shape)
    found = explain(snapshot, policy, now, shape, _item(snapshot, shape, row))
    if found.placement is not None:
        decision, reasons = "can-start", found.reasons
    elif never and found.hold is None:
        decision, reasons = "never-fits", never
    else:
        decision, reasons = "waits", found.reasons
    ahead = waiting.list_ahead(connection, scope, row)
    count = waiting.count_ahead(connection, row["queue"], row["priority"], row["submitted_at"], row["id"])
    looked = snapshot.last_looked.get(shape.key)
    if looked is None:
        stored = repository.open_reasons(connection, [row["shape_id"]]).get(row["shape_id"])
        looked = stored["t0"] if stored else None
    shown = tuple(scoped_reason(_with_outage(connection, reason), scope) for reason in reasons)
    position = count + 1 if row["phase"] == Phase.QUEUED else None
    return {
        **_answer(decision, shown, position, ahead, looked, found.approximate, policy.version),
    }


def _with_outage(connection: View, reason: Reason) -> Reason:
    """A reason of capacity that is out of service says why it is."""
    if reason.flavor is None or not any(holder.kind == "unavailable" for holder in reason.holders):
        return reason
    found = outages(connection, reason.flavor)
    return replace(reason, params={**reason.params, "outage": found[0]}) if found else reason


def _item(snapshot: Snapshot, shape: Shape, row: Record) -> PendingItem:
    """The waiting attempt as the snapshot has it, else as it stands in its row."""
    for group in snapshot.pending:
        if group.shape.key == shape.key:
            for head in group.heads:
                if head.attempt_id == row["attempt_id"]:
                    return head
    hold = snapshot.holds.get(row["attempt_id"])
    if hold is not None:
        return hold.item
    return PendingItem(
        row["id"], row["attempt_id"], row["submitted_at"], row["eligible"] or 0, row["not_before"] or 0
    )


def _answer(
    decision: str,
    reasons: tuple[Reason, ...],
    position: int | None,
    ahead: list[Record],
    looked: int | None,
    approximate: bool,
    policy_version: int | None,
) -> Json:
    return {
        "decision": decision,
        "reasons": [reason_view(reason) for reason in reasons],
        "position": position,
        "ahead": [
            {
                "id": None if entry["id"] is None else render("workload", entry["id"]),
                "name": entry["name"],
                "project": entry["project"],
                "priority": entry["priority"],
            }
            for entry in ahead
        ],
        "last_evaluated_at": looked,
        "wakes_on": sorted({event for reason in reasons for event in reason.wakes_on}),
        "approximate": approximate,
        "policy_version": policy_version,
        "verdict": None,
    }
