"""The order in which a queue's work is looked at, for people: each with what puts it before the next."""

from __future__ import annotations

from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import NotFoundError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.policy import Policy
from steelyard.scheduling.ahead import Earlier, line
from steelyard.scheduling.factors import Factor
from steelyard.scheduling.turns import band_of
from steelyard.services.ahead import factor_view
from steelyard.services.kinds import Kind
from steelyard.services.workloads import Desk
from steelyard.store import workloads as repository
from steelyard.store.declared import current
from steelyard.store.declared_scope import visible_keys
from steelyard.store.scoped import Record

Json = dict[str, Any]
MOST = 200


def waiting_order(desk: Desk, principal: Principal, queue: str, limit: int = 50) -> Json:
    """The first that wait in a queue to which the principal's projects are led. Of other projects' work only
    its place and priority are told. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, "queue")
    seen = scope(principal, Verb.VIEW, "workload")
    now = desk.store.now()
    with desk.store.read() as view:
        specs = {row.key: row.spec for row in current(view, Scope.system())}
        if (Kind.QUEUE.value, queue) not in visible_keys(specs, seen):
            raise NotFoundError("not-found", kind="queue", id=queue[:80])
        snapshot, policy = desk.snapshots.full(view, now)
        first = line(snapshot, policy, now, queue, min(limit, MOST))
        names = repository.names_of(view, seen, {each.item.workload_id for each in first})
    count = sum(group.count for group in snapshot.pending if group.shape.queue == queue)
    known = [names.get(each.item.workload_id) for each in first]
    after = [*known[1:], None][: len(known)]
    return {
        "queue": queue,
        "at": now,
        "policy_version": policy.version,
        "order": policy.order.value,
        "count": count,
        "waiting": [
            _entry(each, policy, name, following)
            for each, name, following in zip(first, known, after, strict=True)
        ],
    }


def _entry(each: Earlier, policy: Policy, known: Record | None, following: Record | None) -> Json:
    band, ageing = band_of(policy, each.shape)
    mine = known is not None
    factor = each.factor
    return {
        "id": render("workload", each.item.workload_id) if mine else None,
        "name": known["name"] if known is not None else None,
        "project": known["project"] if known is not None else None,
        "user": each.shape.user if mine else None,
        "priority": each.shape.priority,
        "priority_class": each.shape.priority_class if mine else None,
        "band": band,
        "ageing": ageing,
        "submitted_at": each.item.submitted if mine else None,
        "requested": {cls.value: n for cls, n in sorted(each.shape.totals().items()) if n} if mine else None,
        "before_next": None if factor is None else _told(factor, mine and following is not None),
    }


def _told(factor: Factor, both: bool) -> Json:
    """`both`: the reader may see both; else only which factor it is."""
    view = factor_view(factor, hidden=not both)
    return view if both else {**view, "b": None}
