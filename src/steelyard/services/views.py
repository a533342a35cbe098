"""What people and programs are shown of a workload: its row in lists, and its page with every attempt.

Ids are rendered, times are µs, what is not known is None. Sentences are not made here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from steelyard.model.ids import render
from steelyard.model.lifecycle import STAGE_TIMES, Phase, holding_tiles
from steelyard.model.organisation import Scope
from steelyard.model.orghistory import OrgHistory
from steelyard.model.workloads import Shape
from steelyard.services import groups
from steelyard.services.evaluations import evaluation_view, evaluations_of_model
from steelyard.services.evictions import eviction_views, made_views
from steelyard.services.reasons import own_reasons, reason_view, waiting_reasons, with_names
from steelyard.services.releases import outline, people_of
from steelyard.services.shapes import read_shape
from steelyard.store import releases, waiting
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
#: Of so many attempts, the newest ones, and devices of each it is shown who came next.
MAX_FOLLOWED, MAX_HOLDERS = 3, 8
_WAITING = (Phase.HELD, Phase.QUEUED, Phase.RESERVED)
_shape_of = lru_cache(maxsize=4096)(read_shape)


def requested_of(shape: Shape) -> dict[str, int]:
    """What the whole gang asks for, by class."""
    return {device_class.value: amount for device_class, amount in sorted(shape.totals().items())}


def workload_rows(
    connection: View, scope: Scope, records: Collection[Record], history: OrgHistory, now: int
) -> list[Json]:
    """Rows of a list. `records` come from the repository, within the same scope."""
    shapes = repository.shape_bodies(connection, {row["shape_id"] for row in records})
    waiting = {row["shape_id"] for row in records if row["phase"] == Phase.QUEUED}
    reasons = repository.open_reasons(connection, waiting)
    decoded = {key: _shape_of(body) for key, body in shapes.items()}
    outlined = groups.outlines(connection, records, decoded)
    asked = {key: requested_of(shape) for key, shape in decoded.items()}
    firsts = _Firsts(reasons, scope, now)
    shown = []
    for row in records:
        one = _row(row, history, now)
        one["first_reason"] = firsts.of(row)
        one["requested"] = asked.get(row["shape_id"])
        one["group"] = outlined.get(row["id"])
        shown.append(one)
    return shown


class _Firsts:
    """The first reason of each row; rows of a shape that have none of their own share one and the same."""

    def __init__(self, reasons: Mapping[int, Record], scope: Scope, now: int) -> None:
        self._reasons, self._scope, self._now = reasons, scope, now
        self._shared: dict[int, Json | None] = {}

    def of(self, row: Record) -> Json | None:
        shape = row["shape_id"]
        if row["phase"] != Phase.QUEUED or own_reasons(row, self._now):
            return self._made(row)
        if shape not in self._shared:
            self._shared[shape] = self._made(row)
        return self._shared[shape]

    def _made(self, row: Record) -> Json | None:
        waits = waiting_reasons(row, self._reasons.get(row["shape_id"]), self._scope, self._now)
        return reason_view(waits[0]) if waits else None


def _row(row: Record, history: OrgHistory, now: int) -> Json:
    place = history.place(row["namespace"], now)
    return {
        "id": render("workload", row["id"]),
        "name": row["name"],
        "namespace": row["namespace"],
        "project": row["project"],
        "team": place.team if place is not None and place.project == row["project"] else None,
        "kind": row["kind"],
        "queue": row["queue"],
        "priority": row["priority"],
        "priority_class": row["priority_class"],
        "phase": row["phase"],
        "sub_stage": row["sub_stage"],
        "outcome": row["outcome"],
        "attempt": row["attempt"],
        "submitted_at": row["submitted_at"],
        "placed_at": row["placed"],
        "started_at": row["started"],
        "finished_at": row["finished_at"],
        "cancel_requested_at": row["cancel_requested_at"],
        "cluster": row["cluster"],
        "simulated": bool(row["simulated"]),
        "first_reason": None,
        "verdict": _verdict(row),
        "version": row["version"],
        "requested": None,
    }


def _verdict(row: Record) -> Json | None:
    """Why the last attempt of a finished workload did not succeed."""
    if row["outcome"] in (None, "succeeded") or not row["verdict_json"]:
        return None
    found: Json = msgspec.json.decode(row["verdict_json"])
    return found


def workload_view(connection: View, scope: Scope, row: Record, history: OrgHistory, now: int) -> Json:
    """The page of one workload: its row, reasons or verdict, and every attempt with its timeline."""
    view = workload_rows(connection, scope, [row], history, now)[0]
    attempts = repository.attempts_of(connection, row["id"])
    shape_row = repository.open_reasons(connection, [row["shape_id"]]).get(row["shape_id"])
    hold = repository.hold_of(connection, row["attempt_id"]) if row["phase"] == Phase.RESERVED else None
    reasons = with_names(connection, scope, waiting_reasons(row, shape_row, scope, now, hold))
    shown = attempt_views(connection, scope, attempts, now)
    verdicts = [attempt["verdict"] for attempt in shown if attempt["verdict"] is not None]
    ahead = None
    if row["phase"] == Phase.QUEUED:
        ahead = waiting.count_ahead(connection, row["queue"], row["priority"], row["submitted_at"], row["id"])
    names = repository.account_names(connection, {row["submitter"]})
    spec: Json = msgspec.json.decode(row["spec_json"])
    _tell_requested(spec, shown)
    return {
        **view,
        "reasons": [reason_view(reason) for reason in reasons],
        "verdict": verdicts[-1] if verdicts and row["outcome"] not in (None, "succeeded") else None,
        "attempts": shown,
        "evictions": eviction_views(connection, scope, row["id"]),
        "evicted": made_views(connection, scope, row["id"]),
        "spec": spec,
        "submitter": names.get(row["submitter"], row["submitter"]),
        "cancel_reason": row["cancel_reason"],
        "ahead": ahead,
        "group_members": groups.member_views(connection, row),
        "use": _use(connection, row),
        "evaluation": evaluation_view(connection, scope, row, spec.get("evaluation")),
        "evaluations": evaluations_of_model(connection, scope, row["id"]),
    }


def _tell_requested(spec: Json, attempts: Iterable[Json]) -> None:
    """What each member asked for by class; what it was granted of a device may be more."""
    asked = {role["name"]: dict(role["request"]["amounts"]) for role in spec["roles"]}
    for attempt in attempts:
        for member in attempt["members"]:
            member["requested"] = asked.get(member["role"])


def _use(connection: View, row: Record) -> Json | None:
    """What was measured of its current attempt, where somebody had to know; null in it is not known."""
    use = repository.use_of(connection, row["attempt_id"])
    return None if use is None else {name: value for name, value in use.items() if name != "attempt_id"}


def attempt_views(connection: View, scope: Scope, attempts: list[Record], now: int) -> list[Json]:
    """Attempts with stage times, tiles, waits, members, devices and the receipt of the release."""
    ids = [attempt["id"] for attempt in attempts]
    members = _by(repository.members_of(connection, ids), "attempt_id")
    devices = _by(repository.allocations_of(connection, ids), "member_id")
    waits = _by(repository.wait_slices_of(connection, ids), "attempt_id")
    left = [one["id"] for own in members.values() for one in own if one["released_at"] is not None]
    receipts = repository.receipts_of(connection, [*ids, *left])
    unproven = releases.unproven_of(connection, ids)
    newest = set(ids[-MAX_FOLLOWED:])
    shown = []
    for attempt in attempts:
        times = {stage: attempt[stage] for stage in STAGE_TIMES}
        shown.append(
            {
                "id": render("attempt", attempt["id"]),
                "number": attempt["number"],
                "phase": attempt["phase"],
                "sub_stage": attempt["sub_stage"],
                "outcome": attempt["outcome"],
                "cluster": attempt["cluster"],
                "simulated": bool(attempt["simulated"]),
                "times": times,
                "tiles": [
                    {"state": state, "t0": t0, "t1": t1} for state, t0, t1 in holding_tiles(times, now)
                ],
                "waits": [
                    {"reason": wait["reason"], "t0": wait["t0"], "t1": wait["t1"]}
                    for wait in waits.get(attempt["id"], ())
                ],
                "members": [
                    _member(member, devices.get(member["id"], []), receipts.get(member["id"]))
                    for member in members.get(attempt["id"], ())
                ],
                "receipt": _receipt(receipts.get(attempt["id"]), attempt),
                "next_holders": next_holders(
                    connection,
                    scope,
                    attempt,
                    [a for m in members.get(attempt["id"], ()) for a in devices.get(m["id"], ())],
                )
                if attempt["id"] in newest
                else [],
                "unproven": _unproven(connection, unproven.get(attempt["id"])),
                "verdict": msgspec.json.decode(attempt["verdict_json"]) if attempt["verdict_json"] else None,
                "policy_version": attempt["policy_version"],
                "cycle": render("cycle", attempt["cycle_id"]) if attempt["cycle_id"] is not None else None,
            }
        )
    return shown


def _by(rows: list[Record], key: str) -> dict[int, list[Record]]:
    grouped: dict[int, list[Record]] = {}
    for row in rows:
        grouped.setdefault(row[key], []).append(row)
    return grouped


def _member(member: Record, allocations: list[Record], receipt: Record | None) -> Json:
    """`leaving_at`, `released_at`, `receipt`: of one that left while its attempt goes on; else null."""
    times = {"stopping": member["leaving_at"], "ended": member["ended_at"]}
    return {
        "id": render("member", member["id"]),
        "role": member["role"],
        "index": member["idx"],
        "phase": member["phase"] if member["released_at"] is None else "left",
        "cluster": member["cluster"],
        "node": member["node"],
        "started_at": member["started_at"],
        "ended_at": member["ended_at"],
        "exit_code": member["exit_code"],
        "exit_signal": member["exit_signal"],
        "failure": member["failure"],
        "endpoint": member["endpoint"],
        "limits": member["limits"],
        "joined_at": member["joined_at"],
        "leaving_at": member["leaving_at"],
        "released_at": member["released_at"],
        "receipt": _receipt(receipt, times),
        "devices": [
            {
                "device": None if item["device_id"] is None else render("device", item["device_id"]),
                "uid": item["uid"],
                "class": item["class"],
                "model": item["model"],
                "flavor": item["flavor"],
                "quantity": item["quantity"],
                "share_kind": item["share_kind"],
                "t0": item["t0"],
                "t1": item["t1"],
                "simulated": bool(item["simulated"]),
            }
            for item in allocations
        ],
    }


def _receipt(row: Record | None, attempt: Mapping[str, Any]) -> Json | None:
    """When the end was asked for and came, when it was probed and confirmed, what was ended and removed."""
    if row is None:
        return None
    return {
        "state": row["state"],
        "requested_at": attempt["stopping"],
        "ended_at": attempt["ended"],
        "probed_at": row["probed_at"],
        "confirmed_at": row["confirmed_at"],
        "counts": msgspec.json.decode(row["counts_json"] or "{}"),
        "reasons": msgspec.json.decode(row["reasons_json"] or "[]"),
        "signals": {signal: row[signal] for signal in ("control", "ledger", "probe")},
        "checks": msgspec.json.decode(row["checks_json"]),
        "residue": msgspec.json.decode(row["residue_json"]),
    }


def _unproven(connection: View, row: Record | None) -> Json | None:
    """What became of a release that was not proven at once."""
    if row is None:
        return None
    return outline(row, repository.account_names(connection, people_of(row)))


def next_holders(connection: View, scope: Scope, attempt: Record, allocations: list[Record]) -> list[Json]:
    """For each device that was given back: who was placed on it next, and when that one started."""
    confirmed = attempt["release_confirmed"]
    devices = {item["device_id"]: item["uid"] for item in allocations if item["device_id"] is not None}
    shown = []
    for device_id, uid in sorted(devices.items())[:MAX_HOLDERS] if confirmed is not None else ():
        found = releases.next_holder(connection, scope, device_id, confirmed)
        if found is not None:
            known = found["attempt_id"] is not None
            shown.append(
                {
                    "device": render("device", device_id),
                    "uid": uid,
                    "attempt": render("attempt", found["attempt_id"]) if known else None,
                    "workload": render("workload", found["workload_id"]) if known else None,
                    "name": found["name"],
                    "placed_at": found["t0"],
                    "started_at": found["started"],
                }
            )
    return shown
