"""Why an elastic workload runs with fewer members than it asked for: what keeps the others from starting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from steelyard.model.lifecycle import Phase
from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import MemberRequest, Shape
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
    """({members, asked, joins, joins_from}, the reasons of the members that are missing); (None, ()) where
    all are there.

    Without a reason they would find a place now. With `joins` they get it in this attempt, once nobody who
    waits could use it, and not before `joins_from` (µs; None: at once); else the next attempt starts with
    them.
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
    joins = _may_join(connection, row, shape, missing)
    running = {
        "members": sum(there.values()), "asked": asked, "joins": joins,
        "joins_from": _joins_from(members, policy, now) if joins else None,
    }  # fmt: skip
    return running, explain(snapshot, policy, now, wanted).reasons


def _joins_from(members: Iterable[Record], policy: Policy, now: int) -> int | None:
    """When the window is over in which nobody joins, for others were asked to leave; None: it is."""
    asked = [member["leaving_at"] for member in members if member["leaving_at"] is not None]
    until = max(asked, default=0) + policy.growth_window
    return until if asked and until > now else None


def _may_join(
    connection: View, row: Record, shape: Shape, missing: tuple[tuple[str, int, MemberRequest], ...]
) -> bool:
    """Whether some of the missing members may still join this attempt: its program takes them, and none
    of them failed to start."""
    if not any(name in shape.grows for name, _, _ in missing):
        return False
    newest = max(repository.attempts_of(connection, row["id"]), key=lambda attempt: int(attempt["number"]))
    return newest["joins_off"] is None
