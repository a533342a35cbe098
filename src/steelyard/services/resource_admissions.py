"""The way of a new type of resource into the house: labels, environment, monitoring, owner, verification.

Each step is held against what there is when it is taken. Until the last one is done, and whenever its record
ends, the type is pending.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.model.resources import DeviceClass
from steelyard.model.standing import Standing
from steelyard.scheduling.admission import joined
from steelyard.services import verifications
from steelyard.services.closings import head_of
from steelyard.services.kinds import Kind
from steelyard.services.labels import load_vocabulary
from steelyard.services.pool_document import read_values
from steelyard.services.reading import DocumentReader
from steelyard.services.written import check_reason
from steelyard.store import closings as repository
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.live import declared_current
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import account_names

Json = dict[str, Any]
NOUN = "admission"
MAX_NAME = 63
_encode = msgspec.json.Encoder(order="deterministic").encode


class Step(StrEnum):
    """In the order in which they are asked for."""

    LABELS = "labels"
    ENVIRONMENT = "environment"
    MONITORING = "monitoring"
    OWNER = "owner"
    VERIFICATION = "verification"


class State(StrEnum):
    """Of an admission."""

    OPEN = "open"
    ADMITTED = "admitted"


def start(
    store: Store,
    principal: Principal,
    device_class: str,
    family: str,
    model: str,
    reason: str,
    *,
    origin: Origin | None = None,
) -> Json:
    """Begin the admission of a type. Raises ForbiddenError, InvalidError, ConflictError
    `admission-exists`."""
    authorise(principal, Verb.MANAGE, NOUN)
    if device_class not in set(DeviceClass):
        raise InvalidError("field-invalid", path="class", expected=" | ".join(DeviceClass))
    for path, text in (("family", family), ("model", model)):
        if not 0 < len(text) <= MAX_NAME or not text.isprintable():
            raise InvalidError("field-invalid", path=path, expected="text")
    said = check_reason(reason)
    with store.read() as view:
        known = repository.admission_of(view, family, model)
    if known is not None:
        raise ConflictError("admission-exists", id=render(NOUN, known["id"]), family=family, model=model)
    unit, number, now = Unit(actor_of(principal)), store.ids.next(), store.now()
    row = unit.insert(
        t.resource_admission, id=number, device_class=device_class, family=family, model=model,
        state=State.OPEN.value, steps_json="{}", reason=said, started_at=now, started_by=principal.id,
        finished_at=None, finished_by=None, version=1,
    )  # fmt: skip
    extra = {"class": device_class, "family": family, "model": model, "reason": said}
    unit.leaf(_draft("admission.start", number, None, 1, origin, extra), row)
    store.writer.write(unit)
    return show(store, principal, render(NOUN, number))


def take_step(
    store: Store,
    principal: Principal,
    name: str,
    step: str,
    detail: Mapping[str, Any],
    *,
    origin: Origin | None = None,
) -> Json:
    """Take one step of an admission; a step may be taken again.

    Raises ForbiddenError, NotFoundError, InvalidError (`label-unknown`, `field-…`), and what
    `verifications.issue` raises.
    """
    authorise(principal, Verb.MANAGE, NOUN)
    if step not in set(Step):
        raise InvalidError("field-invalid", path="step", expected=" | ".join(Step))
    unit, now = Unit(actor_of(principal)), store.now()
    with store.read() as view:
        row = _find(view, name)
        said = _checked(view, store, unit, row, Step(step), detail, principal.id, now, origin)
    steps = msgspec.json.decode(row["steps_json"])
    steps[step] = {"at": now, "by": principal.id, **said}
    carrier = unit.update(
        t.resource_admission, {"id": row["id"], "version": row["version"]},
        steps_json=_encode(steps).decode(), version=row["version"] + 1,
    )  # fmt: skip
    extra = {"step": step, **said}
    draft = _draft("admission.step", row["id"], row["version"], row["version"] + 1, origin, extra)
    unit.leaf(draft, carrier, head_of(row))
    store.writer.write(unit)
    return show(store, principal, name)


def finish(store: Store, principal: Principal, name: str, *, origin: Origin | None = None) -> Json:
    """Admit the type. Raises ConflictError `admission-steps-missing` while a step is not taken, or while
    its verification has ended."""
    authorise(principal, Verb.MANAGE, NOUN)
    unit, now = Unit(actor_of(principal)), store.now()
    with store.read() as view:
        row = _find(view, name)
        steps = msgspec.json.decode(row["steps_json"])
        missing = [step.value for step in Step if step.value not in steps]
        if not missing and _standing(view, steps, now) is not Standing.VERIFIED:
            missing = [Step.VERIFICATION.value]
    if missing:
        raise ConflictError("admission-steps-missing", id=name, steps=", ".join(missing))
    if row["state"] == State.ADMITTED:
        return show(store, principal, name)
    carrier = unit.update(
        t.resource_admission, {"id": row["id"], "version": row["version"]},
        state=State.ADMITTED.value, finished_at=now, finished_by=principal.id, version=row["version"] + 1,
    )  # fmt: skip
    extra = {"family": row["family"], "model": row["model"]}
    draft = _draft("admission.finish", row["id"], row["version"], row["version"] + 1, origin, extra)
    unit.leaf(draft, carrier, head_of(row))
    store.writer.write(unit)
    return show(store, principal, name)


def _draft(
    action: str, number: int, before: int | None, after: int, origin: Origin | None, extra: Json
) -> LeafDraft:
    return LeafDraft(
        action=action, object_kind=NOUN, object_id=render(NOUN, number), version_before=before,
        version_after=after, origin=origin, extra=extra,
    )  # fmt: skip


def _find(view: View, name: str) -> Record:
    row = repository.get_admission(view, parse(NOUN, name))
    if row is None:
        raise NotFoundError("not-found", kind=NOUN, id=name[:80])
    return row


# --- what each step is held against ------------------------------------------------------------------
def _checked(
    view: View,
    store: Store,
    unit: Unit,
    row: Record,
    step: Step,
    detail: Mapping[str, Any],
    who: str,
    now: int,
    origin: Origin | None,
) -> Json:
    reader = DocumentReader(dict(detail), "step")
    if step is Step.VERIFICATION:
        workload, lasts = reader.text("workload"), verifications.valid_for(reader.optional_text("valid_for"))
        reader.finish()
        model = (row["family"], row["model"])
        number = store.ids.next()
        return verifications.issue(
            view, unit, number, workload, model, who, now, lasts, admission_id=row["id"], origin=origin
        )
    said = _read(view, reader, step)
    reader.finish()
    return said


def _read(view: View, reader: DocumentReader, step: Step) -> Json:
    if step is Step.LABELS:
        keys = reader.texts("labels", 64)
        if not keys:
            raise InvalidError("field-missing", path=reader.at("labels"))
        for key in keys:
            _known(view, reader.at("labels"), key, None)
        return {"labels": list(keys)}
    if step is Step.ENVIRONMENT:
        values = read_values(reader, "environment")
        if not values:
            raise InvalidError("field-missing", path=reader.at("environment"))
        for key, listed in values:
            for value in listed:
                _known(view, reader.at("environment"), key, value)
        return {"environment": {key: list(listed) for key, listed in values}}
    if step is Step.MONITORING:
        source = reader.name("source")
        known = declared_current(view, Kind.OBSERVATION_SOURCE.value)
        if source not in known:
            raise InvalidError("observation-source-unknown", name=source, known=joined(known))
        return {"source": source}
    return {"owner": reader.text("owner"), "on_call": reader.text("on_call")}


def _known(view: View, path: str, key: str, value: str | None) -> None:
    unknown = load_vocabulary(view).unknown(key, value)
    if unknown is not None:
        raise InvalidError(
            "label-unknown", kind="admission", name=path, path=path, key=key[:100],
            value=None if unknown.what == "key" else value, known=joined(unknown.known),
        )  # fmt: skip


# --- views ---------------------------------------------------------------------------------------------
def list_all(store: Store, principal: Principal) -> list[Json]:
    """Admissions, the newest first."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        rows = repository.admissions(view)
        return [_view(view, row, store.now()) for row in rows]


def show(store: Store, principal: Principal, name: str) -> Json:
    """One admission. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        return _view(view, _find(view, name), store.now())


def _standing(view: View, steps: Json, now: int) -> Standing:
    found = steps.get(Step.VERIFICATION.value)
    if found is None:
        return Standing.PENDING
    row = repository.get_verification(view, parse(verifications.NOUN, found["verification"]))
    return Standing.PENDING if row is None else verifications.standing_of(row, now)


def _view(view: View, row: Record, now: int) -> Json:
    steps = msgspec.json.decode(row["steps_json"])
    people = {row["started_by"], row["finished_by"], *(found["by"] for found in steps.values())} - {None}
    names = account_names(view, people)
    admitted = row["state"] == State.ADMITTED
    standing = _standing(view, steps, now) if admitted else Standing.PENDING
    return {
        "id": render(NOUN, row["id"]),
        "class": row["device_class"] if "device_class" in row else row["class"],
        "family": row["family"],
        "model": row["model"],
        "state": row["state"],
        "standing": standing.value,
        "reason": row["reason"],
        "started_at": row["started_at"],
        "started_by": names.get(row["started_by"], row["started_by"]),
        "finished_at": row["finished_at"],
        "finished_by": names.get(row["finished_by"], row["finished_by"]),
        "steps": [
            {"step": step.value, "done": step.value in steps, **_step(steps.get(step.value), names)}
            for step in Step
        ],
        "version": row["version"],
    }


def _step(found: Json | None, names: Mapping[str, str]) -> Json:
    if found is None:
        return {"at": None, "by": None, "detail": None}
    detail = {key: value for key, value in found.items() if key not in ("at", "by")}
    return {"at": found["at"], "by": names.get(found["by"], found["by"]), "detail": detail}
