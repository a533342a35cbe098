"""What a first look shows: what waits and why, what runs, what ended badly of late, what needs somebody.

Everything is counted within what the reader may see; the inventory only for those who may see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import ForbiddenError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.units import DAY
from steelyard.services import inventory
from steelyard.services.reasons import read_reasons, reason_view, scoped_reason, with_names
from steelyard.store import overview as repository
from steelyard.store import workloads as workload_rows
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
LATELY = 7 * DAY
MAX_SHAPES = 500
_ALERTS = 20


def overview(store: Store, principal: Principal, *, reasons: int = 5, failures: int = 6) -> Json:
    """`{live: {phase: n}, waiting: [{reason, count}], failed: [row], inventory: …|None, alerts: …}`."""
    seen, now = scope(principal, Verb.VIEW, "workload"), store.now()
    with store.read() as view:
        found: Json = {
            "as_of": now,
            "live": repository.live_by_phase(view, seen),
            "waiting": _waiting(view, seen)[:reasons],
            "failed": [_failed(row) for row in repository.ended_badly(view, seen, now - LATELY, failures)],
            "inventory": None,
            "quarantined": [],
        }
        if _may_see_inventory(principal):
            found["inventory"] = inventory.summary(view, seen, now)
            found["quarantined"] = [_kept(row) for row in repository.quarantined_devices(view, _ALERTS)]
    return found


def waiting(store: Store, principal: Principal, most: int) -> list[Json]:
    """What blocks first, with how many of the principal's workloads it keeps waiting; the most first."""
    seen = scope(principal, Verb.VIEW, "workload")
    with store.read() as view:
        return _waiting(view, seen)[:most]


def _may_see_inventory(principal: Principal) -> bool:
    try:
        authorise(principal, Verb.VIEW, inventory.NOUN)
    except ForbiddenError:
        return False
    return True


def _waiting(view: View, seen: Scope) -> list[Json]:
    """What blocks first, by code and owner, with how many workloads it keeps waiting; the most first."""
    counts = repository.queued_by_shape(view, seen)
    common = dict(sorted(counts.items(), key=lambda item: -item[1])[:MAX_SHAPES])
    stored = workload_rows.open_reasons(view, common)
    groups: dict[tuple[str, str | None, str | None], tuple[int, Reason]] = {}
    for shape, count in common.items():
        first = _first_reason(stored.get(shape), seen)
        key = (str(first.code), first.owner, first.flavor or first.resource)
        before = groups.get(key, (0, first))
        groups[key] = (before[0] + count, before[1])
    ordered = sorted(groups.items(), key=lambda item: (-item[1][0], item[0][0]))
    named = with_names(view, seen, (reason for _, (_, reason) in ordered))
    return [
        {"count": count, "reason": reason_view(reason)}
        for (_, (count, _)), reason in zip(ordered, named, strict=True)
    ]


def _first_reason(row: Record | None, seen: Scope) -> Reason:
    reasons = read_reasons(row["reasons_json"]) if row is not None else ()
    return scoped_reason(reasons[0], seen) if reasons else Reason(ReasonCode.PENDING_EVALUATION, "queue")


def _failed(row: Record) -> Json:
    return {
        "id": render("workload", row["id"]),
        **{name: row[name] for name in ("name", "namespace", "project", "kind", "outcome", "finished_at")},
        "cluster": row["cluster"],
        "simulated": bool(row["simulated"]),
        "verdict": msgspec.json.decode(row["verdict_json"]) if row["verdict_json"] else None,
    }


def _kept(row: Record) -> Json:
    return {
        "device": render("device", row["id"]),
        **{name: row[name] for name in ("cluster", "uid", "class", "quantity")},
        "simulated": bool(row["simulated"]),
        "since": row["t0"],
    }


def by_class(summary: Mapping[str, Any]) -> list[Json]:
    """The summary's rows, real and simulated apart, summed over clusters."""
    sums: dict[tuple[str, bool], dict[str, int]] = defaultdict(lambda: dict.fromkeys(("capacity", *PARTS), 0))
    for row in summary["classes"]:
        total = sums[row["class"], row["simulated"]]
        for name in total:
            total[name] += row[name]
    return [{"class": name, "simulated": sim, **total} for (name, sim), total in sums.items()]


PARTS = inventory.PARTS
