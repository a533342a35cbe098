"""May this much be guaranteed? What a queue guarantees lies within what it owns, class by class.

Exact also when several ask at once: whoever adds to what is guaranteed, or changes what queues own, moves
one counter from the value that it read together with the sums. Of two at the same moment the second finds
it moved, and judges again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from steelyard.model.errors import ConflictError
from steelyard.model.policy import QUEUE_TREE
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import Shape
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.barriers import WAKE_LIMIT
from steelyard.services.documents import Document
from steelyard.services.kinds import CohortSpec, QueueSpec
from steelyard.services.shapes import read_shape
from steelyard.store import groups
from steelyard.store import tables as t
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.declared import counters
from steelyard.store.unit import Unit

GUARANTEE_VERSION = "guarantee_version"


class Judged(NamedTuple):
    """Why so much can't be guaranteed; and the version of what is, on which that was judged."""

    reasons: tuple[Reason, ...]
    version: int


def judge_guarantee(view: View, tree: QuotaTree | None, shape: Shape, replicas: int) -> Judged:
    """Whether so many replicas of a shape can be guaranteed, by what is guaranteed now."""
    return Judged(over_nominal(view, tree, shape, replicas), counters(view).get(GUARANTEE_VERSION, 0))


def over_nominal(view: View, tree: QuotaTree | None, shape: Shape, replicas: int) -> tuple[Reason, ...]:
    """A reason for each class of which the queue would guarantee more than it owns. A class without a limit
    in the queue tree is owned by nobody: nothing stands in the way."""
    if tree is None or replicas == 0 or shape.queue not in tree.nodes:
        return ()
    used = _promised(view, shape.queue).get(shape.queue, {})
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


def move(unit: Unit, seen: int) -> None:
    """Make the unit stale where anything was guaranteed, or a queue's own quota changed, after `seen`."""
    if seen == 0:
        unit.insert(t.counter, name=GUARANTEE_VERSION, value=1)
    else:
        unit.update(t.counter, {"name": GUARANTEE_VERSION, "value": seen}, value=seen + 1)


def check_within(view: View, before: Iterable[Document], after: Iterable[Document]) -> int:
    """The queues may change to what they are `after`; the version of what is guaranteed, to be moved from.

    Raises ConflictError `guarantee-above-nominal` where a queue would own less than it guarantees, unless it
    did so before and owns no less now.
    """
    own, owned, version = list(after), list(before), counters(view).get(GUARANTEE_VERSION, 0)
    for queue, amounts in sorted(_promised(view).items()):
        for device_class, promised in sorted(amounts.items()):
            nominal, was = _nominal(own, queue, device_class), _nominal(owned, queue, device_class)
            worse = nominal is not None and (was is None or nominal < was)
            if nominal is not None and worse and promised > nominal:
                raise ConflictError(
                    "guarantee-above-nominal", queue=queue, resource=device_class.value, nominal=nominal,
                    guaranteed=promised, over=promised - nominal,
                )  # fmt: skip
    return version


def _promised(view: View, queue: str | None = None) -> dict[str, dict[DeviceClass, int]]:
    """queue → class → what its services are guaranteed together."""
    found: dict[str, dict[DeviceClass, int]] = {}
    services = groups.guarantees(view, queue)
    bodies = repository.shape_bodies(view, {one["shape_id"] for one in services})
    for one in services:
        sums = found.setdefault(one["queue"], {})
        for device_class, amount in read_shape(bodies[one["shape_id"]]).totals().items():
            sums[device_class] = sums.get(device_class, 0) + amount * one["guaranteed"]
    return found


def _nominal(documents: Iterable[Document], queue: str, device_class: DeviceClass) -> int | None:
    """What a queue owns of a class; None where no queue or cohort has a limit on it."""
    own, governed = 0, False
    for document in documents:
        if not isinstance(document.spec, QueueSpec | CohortSpec):
            continue
        for limit in document.spec.limits:
            if limit.subject == device_class:
                governed = True
                if isinstance(document.spec, QueueSpec) and document.name == queue:
                    own = limit.nominal
    return own if governed else None
