"""Who was stopped for whom: seen from the victim and from the one who got the place, and summed by queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.model.ids import render
from steelyard.model.organisation import Scope
from steelyard.model.units import HOUR
from steelyard.store import evictions as stored
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]


def eviction_views(connection: View, scope: Scope, workload_id: int) -> list[Json]:
    """By whom a workload was stopped, and what it cost, in order of time. Names within the scope alone.

    `next` is the attempt with which it went on; null while there is none. `members` left a gang that goes on
    with `goes_on_with` others; null where all of it was stopped. `lost_time` is at most what has to
    be done again: since `saved_at`, where the engine says up to when the work is saved.
    """
    rows = repository.evictions_of(connection, workload_id)
    others = {row["preemptor_id"] for row in rows if row["preemptor_id"] is not None}
    seen: Mapping[int, Record] = repository.names_of(connection, scope, others)
    following = _following(connection, workload_id) if rows else {}
    return [
        {
            "attempt": _attempt(row),
            "preemptor": render("workload", row["preemptor_id"]) if row["preemptor_id"] in seen else None,
            "preemptor_name": _name(seen, row["preemptor_id"]),
            "goes_to": row["queue"],
            "next": following.get(row["attempt_id"]),
            **_facts(row),
        }
        for row in rows
    ]


def made_views(connection: View, scope: Scope, workload_id: int) -> list[Json]:
    """Whom a workload had stopped for its place, in order of time. Names within the scope alone."""
    rows = stored.made_for(connection, workload_id)
    seen: Mapping[int, Record] = repository.names_of(connection, scope, {row["workload_id"] for row in rows})
    return [
        {
            "victim": render("workload", row["workload_id"]) if row["workload_id"] in seen else None,
            "victim_name": _name(seen, row["workload_id"]),
            "victim_attempt": _attempt(row) if row["workload_id"] in seen else None,
            **_facts(row),
        }
        for row in rows
    ]


def made_by_queue(connection: View, now: int) -> dict[str, Json]:
    """Queue → what was stopped for its work in the last hour, against what that work asked for, by class."""
    return stored.sums(connection, now - HOUR)


def _attempt(row: Record) -> str:
    """Of a gang that goes on, the row is named by the first member that left."""
    return render("attempt", row["shrunk_id"] or row["attempt_id"])


def _facts(row: Record) -> Json:
    return {
        "rule": row["rule"],
        "policy_version": row["policy_version"],
        "queue": row["queue"],
        "priority": row["priority"],
        "preemptor_queue": row["preemptor_queue"],
        "preemptor_priority": row["preemptor_priority"],
        "quantity": msgspec.json.decode(row["quantity_json"]),
        "lost_time": row["lost_time"],
        "members": msgspec.json.decode(row["members_json"]) if row["members_json"] else None,
        "goes_on_with": row["stay"],
        "saved_at": row["saved_at"],
        "shares": msgspec.json.decode(row["shares_json"]) if row["shares_json"] else None,
        "limit": msgspec.json.decode(row["limit_json"]) if row["limit_json"] else None,
        "cycle": None if row["cycle_id"] is None else render("cycle", row["cycle_id"]),
        "at": row["at"],
    }


def _name(seen: Mapping[int, Record], workload_id: int | None) -> str | None:
    """None also where it stopped for nobody: a limit was lowered, which `limit` names."""
    found = None if workload_id is None else seen.get(workload_id)
    return None if found is None else found["name"]


def _following(connection: View, workload_id: int) -> dict[int, str]:
    attempts = repository.attempts_of(connection, workload_id)
    by_number = {row["number"]: row["id"] for row in attempts}
    return {
        row["id"]: render("attempt", by_number[row["number"] + 1])
        for row in attempts
        if row["number"] + 1 in by_number
    }
