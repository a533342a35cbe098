"""Why one waiting workload comes before another: the order's named factors, within the reader's right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.model.errors import ConflictError
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.model.policy import Policy
from steelyard.model.workloads import Shape
from steelyard.scheduling.ahead import Earlier, ahead
from steelyard.scheduling.factors import Factor, factors
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem
from steelyard.services.shapes import read_shape
from steelyard.store import waiting
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
MOST = 10


def item_of(snapshot: Snapshot, shape: Shape, row: Record) -> PendingItem:
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


def compared(
    connection: View, snapshot: Snapshot, policy: Policy, now: int, row: Record, other: Record
) -> Json:
    """Which of two workloads comes first, and all factors down to the one that decides.

    Raises ConflictError `not-waiting` where one of them does not wait.
    """
    for each in (row, other):
        if each["phase"] != Phase.QUEUED:
            raise ConflictError("not-waiting", id=render("workload", each["id"]), phase=each["phase"])
    bodies = repository.shape_bodies(connection, [row["shape_id"], other["shape_id"]])
    mine, theirs = read_shape(bodies[row["shape_id"]]), read_shape(bodies[other["shape_id"]])
    found = factors(
        snapshot, policy, now,
        (mine, item_of(snapshot, mine, row)), (theirs, item_of(snapshot, theirs, other)),
    )  # fmt: skip
    last = found[-1].first if found else 0
    return {
        "workloads": [_who(row), _who(other)],
        "first": render("workload", (row if last < 0 else other)["id"]) if last else None,
        "factors": [factor_view(factor) for factor in found],
        "policy_version": policy.version,
    }


def _who(row: Record) -> Json:
    return {
        "id": render("workload", row["id"]),
        "name": row["name"],
        "project": row["project"],
        "queue": row["queue"],
    }


def factor_view(factor: Factor, hidden: bool = False) -> Json:
    """A factor as a plain dictionary. `hidden`: only its name, for the first is not the reader's to see."""
    return {
        "code": f"factor.{factor.name.value}",
        "name": factor.name.value,
        "a": None if hidden else factor.a,
        "b": factor.b,
        "first": factor.first,
        "nodes": list(factor.nodes) if factor.nodes is not None and not hidden else None,
    }


def place_in_queue(
    connection: View, scope: Scope, snapshot: Snapshot, policy: Policy, now: int, row: Record, shape: Shape
) -> tuple[int, list[Json]]:
    """(place, the first of those ahead). Of other projects' work only its priority and what puts it first."""
    found = ahead(snapshot, policy, now, shape, item_of(snapshot, shape, row), MOST)
    names = repository.names_of(connection, scope, {each.item.workload_id for each in found.first})
    count = found.count
    if count is None:
        count = waiting.count_ahead(
            connection, row["queue"], row["priority"], row["submitted_at"], row["id"]
        )
    return count + 1, [entry_view(each, names) for each in found.first]


def entry_view(earlier: Earlier, names: Mapping[int, Record]) -> Json:
    """Who is ahead. `names`: the rows of those whom the reader may see, by workload."""
    known = names.get(earlier.item.workload_id)
    return {
        "id": None if known is None else render("workload", earlier.item.workload_id),
        "name": None if known is None else known["name"],
        "project": None if known is None else earlier.shape.project,
        "priority": earlier.shape.priority,
        "by": None if earlier.factor is None else factor_view(earlier.factor, hidden=known is None),
    }
