"""What would start a workload now, as it is shown: within what the reader may see, with codes for texts."""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.model.errors import RefusedError
from steelyard.model.organisation import Scope
from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.workloads import Shape, WorkloadKind
from steelyard.scheduling.explain import subject_of
from steelyard.scheduling.remedies import Elsewhere, Raise, Remedy
from steelyard.scheduling.rules import rules_of
from steelyard.scheduling.snapshot import Snapshot
from steelyard.services.policy import Routes, route
from steelyard.services.reasons import scoped_holders

Json = dict[str, Any]


def elsewhere(routing: Routes, shape: Shape) -> tuple[Elsewhere, ...]:
    """The other queues that the project's routes lead to, in the order of the routes."""
    kind = WorkloadKind(shape.kind) if shape.kind is not None else None
    if kind is None:
        return ()
    names = [found.queue for found in routing.matching(shape.project, kind, shape.environment)]
    others = []
    for name in dict.fromkeys(names):
        if name == shape.queue:
            continue
        try:
            queue, named, value, _ = route(routing, shape.project, kind, shape.environment, name)
        except RefusedError:
            continue  # a route to a queue that is no longer there
        others.append(Elsewhere(queue, named, value))
    return tuple(others)


def remedy_view(remedy: Remedy, snapshot: Snapshot, policy: Policy, scope: Scope) -> Json:
    """A remedy as a plain dictionary. `ask` of a raise: who looks after the queue or cohort."""
    holders = scoped_holders(remedy.holders, scope)
    return {
        "code": f"remedy.{remedy.kind.value}",
        "kind": remedy.kind.value,
        "role": remedy.role,
        "resource": remedy.resource,
        "before": remedy.before,
        "after": remedy.after,
        "flavor": remedy.flavor,
        "queue": remedy.to.queue if remedy.to is not None else None,
        "priority_class": remedy.to.priority_class if remedy.to is not None else None,
        "raises": [_raise_view(each, snapshot, policy) for each in remedy.raises],
        "holders": msgspec.to_builtins(holders),
        "at": remedy.at,
        "approximate": remedy.approximate,
    }


def _raise_view(wanted: Raise, snapshot: Snapshot, policy: Policy) -> Json:
    flavor, resource = subject_of(snapshot, wanted.subject)
    tree = snapshot.trees[wanted.tree]
    return {
        "tree": wanted.tree,
        "owner": wanted.node,
        "scope": wanted.kind,
        "resource": resource,
        "flavor": flavor,
        "field": wanted.field,
        "before": wanted.before,
        "after": None if wanted.before is None else wanted.before + wanted.by,
        "by": wanted.by,
        "ask": rules_of(policy, tree, wanted.node).owner if wanted.tree == QUEUE_TREE else None,
    }
