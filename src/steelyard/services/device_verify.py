"""Verification of a device's model by a workload that ran on that very device and ended well."""

from __future__ import annotations

from typing import Any

from steelyard.evidence.leaf import Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services import verifications
from steelyard.services.places import place_named
from steelyard.store import inventory as repository
from steelyard.store import workloads
from steelyard.store.store import Store
from steelyard.store.unit import Unit

Json = dict[str, Any]


def verify(
    store: Store,
    principal: Principal,
    device: str,
    workload: str,
    valid_for: str | None = None,
    *,
    origin: Origin | None = None,
) -> Json:
    """A verification record of the device's model; what it says.

    Raises ForbiddenError, NotFoundError, ConflictError `verification-other-device` where the workload did not
    run on it, and what `verifications.issue` raises (a simulated device verifies nothing).
    """
    authorise(principal, Verb.MANAGE, verifications.NOUN)
    lasts = verifications.valid_for(valid_for)
    unit = Unit(actor_of(principal))
    with store.read() as view:
        place = place_named(view, device)
        row = repository.get_device(view, place.id)
        if place.kind != "device" or row is None:
            raise NotFoundError("not-found", kind="device", id=device[:80])
        found = workloads.get_workload(view, Scope.system(), parse("workload", workload))
        if found is None:
            raise NotFoundError("not-found", kind="workload", id=workload[:80])
        held = {each["device_id"] for each in workloads.allocations_of(view, [found["attempt_id"]])}
        if place.id not in held:
            raise ConflictError("verification-other-device", id=workload, uid=row["uid"])
        said = verifications.issue(
            view, unit, store.ids.next(), workload, (row["family"], row["model"]), principal.id, store.now(),
            lasts, origin=origin,
        )  # fmt: skip
    store.writer.write(unit)
    return {**said, "device": render("device", place.id), "uid": row["uid"]}
