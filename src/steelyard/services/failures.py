"""Recurring failures: failed attempts and refused requests, grouped by signature and ranked."""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.identity.authorise import scope
from steelyard.model.errors import InvalidError
from steelyard.model.failures import Group, Stage
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.failure_catalogue import load_catalogue
from steelyard.services.reasons import read_reasons
from steelyard.services.verdicts import judge_refusal
from steelyard.store import failed as repository
from steelyard.store.database import View
from steelyard.store.failed import FailureFilter
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
ORDERS = ("count", "lost-time", "newest")
MAX_GROUPS = 500


def recurring(
    store: Store, principal: Principal, wanted: FailureFilter, *, order: str = "count", limit: int = 50
) -> Json:
    """The groups, the worst first, and sums over all that is not left out.

    `lost_time` is in µs, from the placing of a failed attempt to its release; the members of a gang count
    once; what is simulated has groups and a sum of its own. Raises InvalidError for an order, stage, group,
    window or limit that there is not.
    """
    _check(wanted, order, limit)
    attempts, refusals = scope(principal, Verb.VIEW, "workload"), scope(principal, Verb.VIEW, "refusal")
    now = store.now()
    with store.read() as view:
        groups = [{**row, "kind": "attempt"} for row in repository.failed_groups(view, attempts, wanted)]
        stages = repository.failed_stages(view, attempts, wanted)
        refused = _refused(view, refusals, wanted)
        groups += [{**row, "kind": "refusal", "workloads": 0, "lost": 0, "simulated": False}
                   for row in refused]  # fmt: skip
        shown = sorted(groups, key=_RANKS[order])[:limit]
        signatures = {row["signature"] for row in shown if row["kind"] == "attempt"}
        projects = repository.failed_projects(view, attempts, wanted, signatures)
        items = [_item(row, projects) | _newest(view, row) for row in shown]
    return {
        "catalogue": load_catalogue().name,
        "from": wanted.start or None,
        "to": min(wanted.end, now),
        "by_stage": dict(sorted(stages.items())),
        "failures": sum(stages.values()),
        "refusals": sum(row["count"] for row in refused),
        "lost_time": sum(row["lost"] for row in groups if not row["simulated"]),
        "simulated_lost_time": sum(row["lost"] for row in groups if row["simulated"]),
        "groups": len(groups),
        "items": items,
    }


_RANKS: dict[str, Any] = {
    "count": lambda row: (-row["count"], -row["lost"], row["signature"]),
    "lost-time": lambda row: (-row["lost"], -row["count"], row["signature"]),
    "newest": lambda row: (-row["last_at"], row["signature"]),
}


def _check(wanted: FailureFilter, order: str, limit: int) -> None:
    if order not in ORDERS:
        raise InvalidError("field-invalid", path="order", expected=" | ".join(ORDERS))
    if wanted.stage is not None and wanted.stage not in set(Stage):
        raise InvalidError("field-invalid", path="stage", expected=" | ".join(Stage))
    if wanted.group is not None and wanted.group not in set(Group):
        raise InvalidError("field-invalid", path="group", expected=" | ".join(Group))
    if wanted.end <= wanted.start:
        raise InvalidError("window-invalid", start=wanted.start, end=wanted.end)
    if not 1 <= limit <= MAX_GROUPS:
        raise InvalidError("limit-invalid", limit=limit, most=MAX_GROUPS)


def _item(row: Record, projects: dict[tuple[str, bool], dict[str, int]]) -> Json:
    of = projects.get((row["signature"], row["simulated"]), {}) if row["kind"] == "attempt" else {}
    return {
        "signature": row["signature"],
        "kind": row["kind"],
        "simulated": row["simulated"],
        "count": row["count"],
        "workloads": row["workloads"],
        "lost_time": row["lost"],
        "first_at": row["first_at"],
        "last_at": row["last_at"],
        "projects": [
            {"project": name, "count": count} for name, count in sorted(of.items(), key=lambda one: -one[1])
        ],
    }


def _refused(view: View, seen: Scope, wanted: FailureFilter) -> list[Record]:
    """Groups of refusals. Their cause stands in no column: it is that of the newest one's verdict."""
    rows = repository.refused_groups(view, seen, wanted)
    if wanted.group is None:
        return rows
    newest = repository.refused_rows(view, {row["newest"] for row in rows})
    verdicts = {number: judge_refusal(read_reasons(row["reasons_json"])) for number, row in newest.items()}
    groups = {number: None if found is None else found.group for number, found in verdicts.items()}
    return [row for row in rows if groups[row["newest"]] == wanted.group]


def _newest(view: View, row: Record) -> Json:
    """The newest failure of a group, whose verdict speaks for all of them."""
    if row["kind"] == "refusal":
        refusal = repository.refused_rows(view, {row["newest"]})[row["newest"]]
        verdict = judge_refusal(read_reasons(refusal["reasons_json"]))
        return {
            "verdict": None if verdict is None else msgspec.to_builtins(verdict),
            "newest": {"refusal": render("refusal", refusal["id"]), "name": refusal["name"],
                       "project": refusal["project"]},
        }  # fmt: skip
    attempt = repository.failed_attempts(view, {row["newest"]})[row["newest"]]
    return {
        "verdict": msgspec.json.decode(attempt["verdict_json"]),
        "newest": {
            "workload": render("workload", attempt["workload_id"]), "name": attempt["name"],
            "project": attempt["project"], "attempt": attempt["number"],
        },
    }  # fmt: skip
