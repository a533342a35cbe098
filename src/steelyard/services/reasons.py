"""Reasons read from rows, a workload's own ones, and what a reader may see of their holders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.model.reasons import Holder, Reason, ReasonCode
from steelyard.scheduling.barriers import WAKE_RELEASED, WAKE_SCALED, WAKE_TIME
from steelyard.store.scoped import Record

WAKE_OWNER = "released-by-owner"
_decode = msgspec.json.Decoder(tuple[Reason, ...]).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def read_reasons(text: str) -> tuple[Reason, ...]:
    """Reasons as they are stored."""
    return _decode(text)


def write_reasons(reasons: tuple[Reason, ...]) -> str:
    """Reasons as they are stored."""
    return _encode(reasons).decode()


def reason_view(reason: Reason) -> dict[str, Any]:
    """A reason as a plain dictionary."""
    shown: dict[str, Any] = msgspec.to_builtins(reason)
    return shown


def scoped_reason(reason: Reason, scope: Scope) -> Reason:
    """The reason with holders of other projects made nameless; their amounts stay."""
    if scope.projects is None:
        return reason
    holders = tuple(_scoped_holder(holder, scope) for holder in reason.holders)
    params = reason.params
    if reason.code == ReasonCode.POOL_NOT_ADMITTING and params.get("label") in ("project", "team"):
        params = {**params, "wanted": None}  # whom else a pool lets in is not theirs to know
    if "victims" in params and any(holder.kind == "workload" and not holder.id for holder in holders):
        params = {**params, "victims": ""}
    return replace(reason, holders=holders, params=params)


def _scoped_holder(holder: Holder, scope: Scope) -> Holder:
    if holder.kind == "project":
        return (
            holder if scope.allows(holder.id.removeprefix("project/")) else replace(holder, id="", name=None)
        )
    if holder.kind != "workload" or scope.allows(holder.project):
        return holder
    return Holder(holder.kind, "", holder.amount)


def own_reasons(row: Record, now: int, hold: Record | None = None) -> tuple[Reason, ...]:
    """What keeps this one workload waiting, beside what keeps its shape. `row`: with its attempt."""
    phase = row["phase"]
    if phase == Phase.HELD:
        return (Reason(ReasonCode.HELD, "queue", "workload", wakes_on=(WAKE_OWNER,)),)
    if phase == Phase.RESERVED and row["standby"] and row["activated_at"] is None:
        return (Reason(ReasonCode.STANDBY, "placement", wakes_on=(WAKE_SCALED,)),)
    if phase == Phase.RESERVED:
        return (_preempting(hold),)
    if phase == Phase.QUEUED and (row["not_before"] or 0) > now:
        return (
            Reason(ReasonCode.BACKOFF, "queue", wakes_on=(WAKE_TIME,), params={"until": row["not_before"]}),
        )
    return ()


def _preempting(hold: Record | None) -> Reason:
    plan: Mapping[str, Any] = msgspec.json.decode(hold["plan_json"]) if hold else {}
    victims = plan.get("victims") or ()
    return Reason(
        ReasonCode.WAITING_FOR_PREEMPTED,
        "preemption",
        wakes_on=(WAKE_RELEASED,),
        params={"victims": "", "victim_count": len(victims)},
    )


def waiting_reasons(
    row: Record, shape_row: Record | None, scope: Scope, now: int, hold: Record | None = None
) -> tuple[Reason, ...]:
    """All reasons of a workload that waits, its own first; of one that does not wait: none."""
    own = own_reasons(row, now, hold)
    if row["phase"] != Phase.QUEUED:
        return own
    if shape_row is None:
        return own or (
            Reason(ReasonCode.PENDING_EVALUATION, "queue", wakes_on=(WAKE_TIME,), approximate=True),
        )
    shared = read_reasons(shape_row["reasons_json"])
    return (*own, *(scoped_reason(reason, scope) for reason in shared))
