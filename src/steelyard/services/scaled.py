"""Why an elastic workload runs with fewer members than it asked for: what keeps the others from starting."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from steelyard.model.lifecycle import Phase
from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.scheduling.decide import explain
from steelyard.scheduling.snapshot import Snapshot
from steelyard.services.shapes import read_shape
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
_RUNS = frozenset({Phase.STARTING, Phase.RUNNING})


def is_elastic(connection: View, row: Record) -> bool:
    """Whether it runs and might do so with fewer members than it asked for."""
    body = repository.shape_bodies(connection, [row["shape_id"]])[row["shape_id"]]
    return row["phase"] in _RUNS and bool(read_shape(body).least)


def scaled_down(
    connection: View, snapshot: Snapshot, policy: Policy, row: Record, now: int
) -> tuple[Json | None, tuple[Reason, ...]]:
    """({members, asked}, the reasons of the members that are missing); (None, ()) where all are there.

    Without a reason they would find a place now: the next attempt starts with them.
    """
    body = repository.shape_bodies(connection, [row["shape_id"]])[row["shape_id"]]
    shape = read_shape(body)
    members = repository.members_of(connection, [row["attempt_id"]])
    there = Counter(member["role"] for member in members if member["leaving_at"] is None)
    rest = tuple((name, count - there[name], asked) for name, count, asked in shape.roles)
    missing = tuple(role for role in rest if role[1] > 0)
    if not missing:
        return None, ()
    wanted = replace(shape, key=f"{shape.key}+rest", roles=missing, least=())
    asked = sum(count for _, count, _ in shape.roles)
    return {"members": sum(there.values()), "asked": asked}, explain(snapshot, policy, now, wanted).reasons
