"""Scaling a service: how many of its replicas run, while it runs."""

from __future__ import annotations

from typing import Any

from steelyard.evidence.leaf import ActorRef, Origin
from steelyard.model.errors import ConflictError, InvalidError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal
from steelyard.services import groups
from steelyard.services.submission import Admitted, InGroup, add_workload
from steelyard.services.workloads import Desk, OnUnit, change, find, judge_again
from steelyard.store import groups as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit

Json = dict[str, Any]


def scale(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    replicas: int,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """Asks for so many replicas; the page of the service's first workload. Each new one is placed by the
    scheduler like any workload, and says why where it waits; what is too much is stopped and released.

    Raises ConflictError `not-scalable`, `workload-finished`, InvalidError `field-out-of-bounds`, RefusedError
    where a replica could never start, ForbiddenError, NotFoundError.
    """
    with desk.store.read() as view:
        row = find(view, principal, workload_id)
        group = None if row["group_id"] is None else repository.get_group(view, row["group_id"])
    if group is None or group["kind"] != groups.SERVICE:
        raise ConflictError("not-scalable", id=render("workload", workload_id))
    if group["stopped_at"] is not None:
        raise ConflictError("workload-finished", id=render("workload", group["id"]))
    if not 1 <= replicas <= group["most"]:
        raise InvalidError("field-out-of-bounds", path="replicas", low=1, high=group["most"])

    def build(view: View, actor: ActorRef, first: Record, now: int) -> Unit | None:
        admitted = _again(desk, view, first, now)

        def add(unit: Unit, place: InGroup) -> str:
            judge_again(desk, principal, first, now, "workload.scale", origin)
            number = desk.store.ids.next()
            add_workload(unit, desk.store.ids, first["submitter"], admitted, now, number, place, origin)
            return render("workload", number)

        return groups.scale_unit(view, actor, first, replicas, now, origin, add)

    return change(desk, principal, group["id"], "workload.scale", if_match, origin, build, on_unit)


def _again(desk: Desk, view: View, first: Record, now: int) -> Admitted:
    """The request of the first replica, for one more of it."""
    return groups.admitted_again(view, first, desk.grounds.current(now).policy.version)
