"""Verification records: a real workload of a kind ended well on a model of device, in an environment.

Nothing simulated verifies hardware, and no document does. A record ends when its time is over or somebody
ends it; what rested on it is pending again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.standing import Standing
from steelyard.model.units import DAY, parse_duration
from steelyard.services.closings import head_of, move_pools
from steelyard.services.pool_rules import declared_pools, environment_body
from steelyard.services.submission import read_spec
from steelyard.services.written import check_reason
from steelyard.store import closings as repository
from steelyard.store import tables as t
from steelyard.store import workloads
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import account_names

Json = dict[str, Any]
NOUN = "verification"
LASTS = 180 * DAY
LONGEST = 732 * DAY
EXPIRED = "expired"
_encode = msgspec.json.Encoder(order="deterministic").encode


def valid_for(text: str | None) -> int:
    """µs that a record is to hold. Raises InvalidError."""
    lasts = LASTS if text is None else parse_duration(text)
    if not 0 < lasts <= LONGEST:
        raise InvalidError("field-out-of-bounds", path="valid_for", low=1, high=LONGEST)
    return lasts


def issue(
    view: View,
    unit: Unit,
    verification_id: int,
    workload: str,
    model: tuple[str, str],
    who: str,
    now: int,
    lasts: int,
    *,
    admission_id: int | None = None,
    origin: Origin | None = None,
) -> Json:
    """Add a record of what a workload showed of (family, model) to the unit; what it says.

    Raises NotFoundError, ConflictError `verification-not-succeeded`, `verification-simulated`,
    `verification-other-model`.
    """
    family, name = model
    row, device = _shown(view, workload, family, name)
    spec = declared_pools(view).get(device["pool"] or "")
    environment = "{}" if spec is None else environment_body(spec)
    values: Json = {
        "kind": row["kind"], "device_class": device["device_class"], "family": family, "model": name,
        "pool": device["pool"], "flavor": device["flavor"], "environment_json": environment,
        "software_json": _encode(_software(row)).decode(), "admission_id": admission_id,
        "workload_id": row["id"], "attempt_id": row["attempt_id"], "leaf_seq": row["head_seq"],
        "issued_at": now, "issued_by": who, "expires_at": now + lasts,
    }  # fmt: skip
    carrier = unit.insert(
        t.verification, id=verification_id, **values, ended_at=None, ended_by=None, end_reason=None, version=1
    )
    said = {
        "kind": values["kind"], "class": values["device_class"], "family": family, "model": name,
        "pool": values["pool"], "environment": msgspec.json.decode(environment),
        "workload": render("workload", row["id"]), "leaf": values["leaf_seq"],
        "expires_at": values["expires_at"],
    }  # fmt: skip
    draft = LeafDraft(
        action="verification.issue", object_kind=NOUN, object_id=render(NOUN, verification_id),
        version_after=1, origin=origin, extra=said,
    )  # fmt: skip
    unit.leaf(draft, carrier)
    move_pools(unit)
    return {"verification": render(NOUN, verification_id), **said}


def _shown(view: View, workload: str, family: str, model: str) -> tuple[Record, Record]:
    """A workload that ended well on a real device of the model, and the first such device."""
    row = workloads.get_workload(view, Scope.system(), parse("workload", workload))
    if row is None:
        raise NotFoundError("not-found", kind="workload", id=workload[:80])
    if row["phase"] != Phase.FINISHED or row["outcome"] != Outcome.SUCCEEDED:
        outcome = row["outcome"] or row["phase"]
        raise ConflictError("verification-not-succeeded", id=workload, outcome=outcome)
    held = repository.held_devices(view, row["attempt_id"])
    mine = [device for device in held if (device["family"], device["model"]) == (family, model)]
    if not mine:
        found = ", ".join(sorted({f"{d['family']}/{d['model']}" for d in held}))[:200]
        raise ConflictError("verification-other-model", id=workload, family=family, model=model, found=found)
    if row["simulated"] or any(device["simulated"] for device in mine):
        raise ConflictError("verification-simulated", id=workload)
    return row, mine[0]


def _software(row: Record) -> Json:
    """What the workload ran as: image or environment of each role, and how it ended."""
    spec = read_spec(row["spec_json"])
    roles = {
        role.name: {
            "runtime": role.runtime.value,
            "image": role.image,
            "venv": role.venv,
            "needs": dict(role.request.needs),
        }
        for role in spec.roles
    }
    return {"roles": roles, "template": spec.template, "result": row["outcome"]}


def next_expiry(view: View) -> int | None:
    """When the next record ends by itself."""
    return min((row["expires_at"] for row in repository.verifications(view, standing=True)), default=None)


def expire(view: View, unit: Unit, who: str, now: int) -> None:
    """Add the end of every record whose time is over."""
    for row in repository.verifications(view, standing=True):
        if row["expires_at"] <= now:
            _end(unit, row, who, EXPIRED, now, None)


def end(
    store: Store, principal: Principal, name: str, reason: str, *, origin: Origin | None = None
) -> Json:
    """End a record. Raises NotFoundError, ConflictError `verification-ended`, InvalidError."""
    authorise(principal, Verb.MANAGE, NOUN)
    said = check_reason(reason)
    with store.read() as view:
        row = repository.get_verification(view, parse(NOUN, name))
    if row is None:
        raise NotFoundError("not-found", kind=NOUN, id=name[:80])
    if row["ended_at"] is not None:
        raise ConflictError("verification-ended", id=name)
    unit = Unit(actor_of(principal))
    _end(unit, row, principal.id, said, store.now(), origin)
    store.writer.write(unit)
    return show(store, principal, name)


def _end(unit: Unit, row: Record, who: str, reason: str, now: int, origin: Origin | None) -> None:
    carrier = unit.update(
        t.verification, {"id": row["id"], "version": row["version"]},
        ended_at=now, ended_by=who, end_reason=reason, version=row["version"] + 1,
    )  # fmt: skip
    draft = LeafDraft(
        action="verification.end", object_kind=NOUN, object_id=render(NOUN, row["id"]),
        version_before=row["version"], version_after=row["version"] + 1, origin=origin,
        extra={"reason": reason, "kind": row["kind"], "family": row["family"], "model": row["model"]},
    )  # fmt: skip
    unit.leaf(draft, carrier, head_of(row))
    move_pools(unit)


# --- views ---------------------------------------------------------------------------------------------
def list_all(store: Store, principal: Principal, *, standing: bool = False) -> list[Json]:
    """Records, the newest first."""
    authorise(principal, Verb.VIEW, NOUN)
    now = store.now()
    with store.read() as view:
        rows = repository.verifications(view, standing=standing)
        people = {person for row in rows for person in (row["issued_by"], row["ended_by"]) if person}
        names = account_names(view, people)
    return [verification_view(row, names, now) for row in rows]


def show(store: Store, principal: Principal, name: str) -> Json:
    """One record. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        row = repository.get_verification(view, parse(NOUN, name))
        if row is None:
            raise NotFoundError("not-found", kind=NOUN, id=name[:80])
        people = {person for person in (row["issued_by"], row["ended_by"]) if person}
        return verification_view(row, account_names(view, people), store.now())


def standing_of(row: Record, now: int) -> Standing:
    """A record that ended, or whose time is over, leaves what it spoke of pending."""
    ended = row["ended_at"] is not None or row["expires_at"] <= now
    return Standing.PENDING if ended else Standing.VERIFIED


def verification_view(row: Record, names: Mapping[str, str], now: int) -> Json:
    """A record as shown."""
    return {
        "id": render(NOUN, row["id"]),
        "standing": standing_of(row, now).value,
        "kind": row["kind"],
        "class": row["device_class"] if "device_class" in row else row["class"],
        **{key: row[key] for key in ("family", "model", "pool", "flavor")},
        "environment": msgspec.json.decode(row["environment_json"]),
        "software": msgspec.json.decode(row["software_json"]),
        "workload": render("workload", row["workload_id"]),
        "attempt": render("attempt", row["attempt_id"]),
        "leaf": row["leaf_seq"],
        "admission": None if row["admission_id"] is None else render("admission", row["admission_id"]),
        "issued_at": row["issued_at"],
        "issued_by": names.get(row["issued_by"], row["issued_by"]),
        "expires_at": row["expires_at"],
        "ended_at": row["ended_at"],
        "ended_by": names.get(row["ended_by"], row["ended_by"]),
        "end_reason": row["end_reason"],
        "version": row["version"],
    }
