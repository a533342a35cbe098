"""What bars a shape whatever is free: a queue that is not there or stopped, no place in the organisation."""

from __future__ import annotations

from steelyard.model.policy import ORG_TREE, QUEUE_TREE
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.snapshot import Snapshot

#: Events after which a waiting workload is looked at again.
WAKE_RELEASED = "workload-released"
WAKE_LIMIT = "limit-changed"
WAKE_CAPACITY = "capacity-changed"
WAKE_CLUSTER = "cluster-observed"
WAKE_TREE = "queue-changed"
WAKE_TIME = "time-reached"
WAKE_SCALED = "service-scaled"


def barriers(snapshot: Snapshot, plan: ShapePlan) -> list[Reason]:
    """Reasons that stand whatever is free. A tree the snapshot does not have bars nothing."""
    shape, trees = plan.shape, snapshot.trees
    found = []
    queues = trees.get(QUEUE_TREE)
    if queues is not None and shape.queue not in queues.nodes:
        found.append(Reason(ReasonCode.NO_QUEUE, "quota", "queue", shape.queue, wakes_on=(WAKE_TREE,)))
    if ORG_TREE in trees and all(name != ORG_TREE for name, _ in plan.nodes):
        owner = shape.org_path[0] if shape.org_path else None
        found.append(Reason(ReasonCode.NO_NAMESPACE, "quota", "namespace", owner, wakes_on=(WAKE_TREE,)))
    for name, node in plan.nodes:
        for above in trees[name].path(node):
            if trees[name].nodes[above].stopped:
                kind = trees[name].nodes[above].kind
                found.append(Reason(ReasonCode.QUEUE_STOPPED, "quota", kind, above, wakes_on=(WAKE_TREE,)))
    return found
