"""May this much be guaranteed? What a queue guarantees lies within what it owns, class by class."""

from __future__ import annotations

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.workloads import Shape
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.barriers import WAKE_LIMIT
from steelyard.services.shapes import read_shape
from steelyard.store import groups
from steelyard.store import workloads as repository
from steelyard.store.database import View


def over_nominal(view: View, tree: QuotaTree | None, shape: Shape, replicas: int) -> tuple[Reason, ...]:
    """A reason for each class of which the queue would guarantee more than it owns. A class without a limit
    in the queue tree is owned by nobody: nothing stands in the way."""
    if tree is None or replicas == 0 or shape.queue not in tree.nodes:
        return ()
    others = groups.guarantees(view, shape.queue)
    bodies = repository.shape_bodies(view, {other["shape_id"] for other in others})
    used: dict[str, int] = {}
    for other in others:
        for device_class, amount in read_shape(bodies[other["shape_id"]]).totals().items():
            used[device_class] = used.get(device_class, 0) + amount * other["guaranteed"]
    reasons = []
    for device_class, amount in sorted(shape.totals().items()):
        subject, wanted = device_class.value, amount * replicas
        limit = tree.limits.get((shape.queue, subject))
        nominal, taken = (limit.nominal if limit else 0), used.get(device_class, 0)
        if tree.governs(subject) and taken + wanted > nominal:
            reasons.append(
                Reason(
                    ReasonCode.EXCEEDS_GUARANTEE, "quota", "queue", shape.queue, subject, None, nominal,
                    taken, wanted, taken + wanted - nominal, (), (WAKE_LIMIT,), params={"tree": QUEUE_TREE},
                )
            )  # fmt: skip
    return tuple(reasons)
