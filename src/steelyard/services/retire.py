"""Giving up a device that is missing for good: asked here, with who and why; done by the control loop."""

from __future__ import annotations

from typing import Any

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, NotFoundError
from steelyard.model.health import Health
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.resources import RegistrationOutcome
from steelyard.services.conditions import read_condition
from steelyard.services.flags import NOUN, lift_row
from steelyard.services.places import place_named
from steelyard.services.written import check_reason
from steelyard.store import inventory as repository
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.flags import standing_on
from steelyard.store.store import Store
from steelyard.store.unit import Unit

Json = dict[str, Any]
KIND = "registration"
OPERATOR = "operator"


def retire(
    store: Store, principal: Principal, name: str, reason: str | None, *, origin: Origin | None = None
) -> Json:
    """Ask that a missing device be retired: its capacity ends then, and is not called missing any more.

    Raises ForbiddenError, NotFoundError, InvalidError, ConflictError `device-not-missing` while it is found,
    `device-in-use` while something of it is held or kept back.
    """
    authorise(principal, Verb.MANAGE, NOUN)
    said = check_reason(reason)
    unit, number, now = Unit(actor_of(principal)), store.ids.next(), store.now()
    with store.read() as view:
        place = place_named(view, name)
        if place.kind != NOUN or place.uid is None:
            raise NotFoundError("not-found", kind=NOUN, id=name[:80])
        _check(view, place.id, place.shown)
        flags = standing_on(view, [place.id])
    for row in flags:
        lift_row(unit, row, principal.id, said, now, origin)
    unit.insert(
        t.registration, id=number, at=now, cluster=place.cluster, node=place.node, uid=place.uid,
        device_id=place.id, outcome=RegistrationOutcome.RETIRED.value, reason=said, source=OPERATOR,
        set_by=principal.id,
    )  # fmt: skip
    draft = LeafDraft(
        action="device.retire", object_kind=KIND, object_id=render(KIND, number), version_after=1,
        cluster=place.cluster, origin=origin,
        extra={"device": place.shown, "uid": place.uid, "node": place.node, "reason": said},
    )  # fmt: skip
    unit.leaf(draft)
    store.writer.write(unit)
    return {**place.view(), "outcome": RegistrationOutcome.RETIRED.value, "reason": said, "at": now}


def _check(view: View, device_id: int, shown: str) -> None:
    row = next(iter(repository.open_conditions(view, [device_id])), None)
    if read_condition(row).health is not Health.MISSING:
        raise ConflictError("device-not-missing", id=shown)
    held = repository.open_allocations(view, Scope.system(), [device_id])
    if held or repository.open_quarantines(view, [device_id]):
        raise ConflictError("device-in-use", id=shown)
