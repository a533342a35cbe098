"""What a workload waited for so far: the stored reasons of its shape, equal ones folded, with a count."""

from __future__ import annotations

from typing import Any

from steelyard.model.organisation import Scope
from steelyard.model.reasons import Reason
from steelyard.services.reasons import read_reasons, scoped_reason
from steelyard.store import waiting
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
#: Stored intervals that are read, the newest.
MOST_READ = 200
#: Folded ones that are shown, the newest.
MOST_SHOWN = 16


def past_reasons(connection: View, scope: Scope, row: Record, now: int) -> list[Json]:
    """The binding reason over time since the attempt was submitted, the newest first.

    Neighbours that differ in their quantities or holders alone are one entry: `since` and `until` (None:
    still), how many times it was looked at (`looks`), how often quantities or holders changed (`changes`).
    """
    since = row["attempt_submitted"]
    stored = waiting.newest_reasons(connection, row["shape_id"], since, MOST_READ)
    folded: list[Json] = []
    known: tuple[Any, ...] | None = None
    for found in stored:  # the newest first
        reasons = read_reasons(found["reasons_json"])
        if not reasons:
            continue
        first = scoped_reason(reasons[0], scope)
        if folded and _what(first) == known:
            folded[-1]["since"] = max(since, found["t0"])
            folded[-1]["looks"] += found["looks"]
            folded[-1]["changes"] += 1
            continue
        known = _what(first)
        folded.append(_entry(first, found, since))
    return folded[:MOST_SHOWN]


def _what(reason: Reason) -> tuple[Any, ...]:
    role = reason.params.get("role")
    return (reason.code, reason.scope, reason.owner, reason.resource, reason.flavor, role)


def _entry(reason: Reason, found: Record, since: int) -> Json:
    return {
        "reason": reason.code,
        "scope": reason.scope,
        "owner": reason.owner,
        "resource": reason.resource,
        "flavor": reason.flavor,
        "role": reason.params.get("role"),
        "since": max(since, found["t0"]),
        "until": found["t1"],
        "looks": found["looks"],
        "changes": 0,
    }
