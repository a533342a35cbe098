"""Reasons read from rows, a workload's own ones, and what a reader may see of their holders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from steelyard.model.ids import PREFIXES, parse, render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.model.reasons import Holder, Reason, ReasonCode
from steelyard.scheduling.barriers import WAKE_RELEASED, WAKE_SCALED, WAKE_TIME
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

WAKE_OWNER = "released-by-owner"
_WORKLOAD_ID = re.compile(rf"(?<![a-z]){PREFIXES['workload']}_")
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
    """The reason as far as the reader may see: what work of other projects has is one nameless sum, and
    parameters that would name any of it are left out."""
    if scope.projects is None:
        return reason
    holders = scoped_holders(reason.holders, scope)
    params = {key: value for key, value in reason.params.items() if not _names_others(key, value, scope)}
    if reason.code == ReasonCode.POOL_NOT_ADMITTING and params.get("label") in ("project", "team"):
        params["wanted"] = None  # whom else a pool lets in is not theirs to know
    if "victims" in params:
        params.update(_seen_victims(str(params["victims"] or ""), holders))
    return replace(reason, holders=holders, params=params)


def _seen_victims(victims: str, holders: tuple[Holder, ...]) -> dict[str, str | int | None]:
    """Only those that stand among the holders by name; how many there are where that is all of them."""
    ids = {holder.id for holder in holders if holder.kind == "workload"}
    listed = [victim for victim in victims.split(",") if victim]
    seen = [victim for victim in listed if victim in ids]
    count = len(seen) if seen and seen == listed else None
    return {"victims": ",".join(seen), "victim_count": count}


def scoped_holders(holders: tuple[Holder, ...], scope: Scope) -> tuple[Holder, ...]:
    """The holders with those of other projects as one without a name, where the first of them stood; the sum
    stays. Not even how many there are is told."""
    if scope.projects is None:
        return holders
    shown: list[Holder] = []
    hidden: int | None = None  # the place of the nameless one
    for holder in holders:
        if _is_open(holder, scope):
            shown.append(holder)
        elif hidden is None:
            hidden = len(shown)
            shown.append(Holder("workload", "", holder.amount))
        else:
            shown[hidden] = replace(shown[hidden], amount=shown[hidden].amount + holder.amount)
    return tuple(shown)


def _is_open(holder: Holder, scope: Scope) -> bool:
    """Whether the reader may see who it is. The tail of many (`others`) is of nobody in particular."""
    if holder.kind == "project":
        return scope.allows(holder.id.removeprefix("project/"))
    if holder.kind == "others":
        return False
    return holder.kind != "workload" or scope.allows(holder.project)


def _names_others(key: str, value: str | int | None, scope: Scope) -> bool:
    """Whether a parameter names work, people or projects. Victims are looked at with their holders."""
    if key == "victims" or not isinstance(value, str):
        return False
    if key == "project":
        return not scope.allows(value)
    return key == "user" or _WORKLOAD_ID.search(value) is not None


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
    own = tuple(scoped_reason(reason, scope) for reason in own_reasons(row, now, hold))
    if row["phase"] != Phase.QUEUED:
        return own
    if shape_row is None:
        return own or (
            Reason(ReasonCode.PENDING_EVALUATION, "queue", wakes_on=(WAKE_TIME,), approximate=True),
        )
    shared = read_reasons(shape_row["reasons_json"])
    return (*own, *(scoped_reason(reason, scope) for reason in shared), *starving_reasons(row, now))


def with_names(connection: View, scope: Scope, reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons with the names of workloads that hold something and don't run: a place that is planned, or
    kept, for them. Names within the scope alone."""
    listed = tuple(reasons)
    ids = {parse("workload", holder.id) for each in listed for holder in each.holders if _lacks_name(holder)}
    if not ids:
        return listed
    names = {render("workload", number): str(row["name"])
             for number, row in repository.names_of(connection, scope, ids).items()}  # fmt: skip
    return tuple(
        replace(each, holders=tuple(
            replace(holder, name=names.get(holder.id)) if _lacks_name(holder) else holder
            for holder in each.holders
        ))
        for each in listed
    )  # fmt: skip


def _lacks_name(holder: Holder) -> bool:
    return holder.kind == "workload" and holder.name is None and bool(holder.id)


def starving_reasons(row: Record, now: int) -> tuple[Reason, ...]:
    """That a workload has waited longer than its queue's bound, where it was found to."""
    bound = row["starving_bound"]
    if bound is None or row["phase"] != Phase.QUEUED:
        return ()
    waited = now - max(row["submitted_at"], row["eligible"] or 0)
    params = {"waited": max(waited, bound), "bound": bound}
    return (
        Reason(
            ReasonCode.STARVING, "queue", "queue", row["queue"], wakes_on=(WAKE_RELEASED,), params=params
        ),
    )
