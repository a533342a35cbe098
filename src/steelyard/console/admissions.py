"""How a new type of resource comes in, step by step, and the records of what real runs verified.

What is pending is never shown as passed: it has a clock and the word, not a tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from steelyard.console.pools import may_manage
from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError
from steelyard.model.resources import ACCELERATORS
from steelyard.model.standing import Standing
from steelyard.services import declared, resource_admissions, verifications
from steelyard.services.kinds import Kind
from steelyard.services.resource_admissions import Step
from steelyard.services.written import MAX_REASON

Json = dict[str, Any]
_LONGEST = 4000


def admission_list(visit: Visit) -> Response:
    """Every admission, and the form that begins one."""
    return _list(visit, None, 200)


def _list(visit: Visit, failed: str | None, status: int) -> Response:
    return visit.show(
        "admissions.html",
        status,
        admissions=resource_admissions.list_all(visit.console.store, visit.principal),
        classes=[(each.value, visit.speech.word("class", each.value)) for each in ACCELERATORS],
        manage=may_manage(visit, resource_admissions.NOUN),
        form=visit.form,
        failed=failed,
        most=MAX_REASON,
    )


def start(visit: Visit) -> Response:
    """Begin an admission."""
    given = [visit.form.get(name, "").strip() for name in ("class", "family", "model", "reason")]
    try:
        found = resource_admissions.start(
            visit.console.store, visit.principal, given[0], given[1], given[2], given[3],
            origin=visit.origin(),
        )  # fmt: skip
    except (InvalidError, ConflictError) as error:
        visit.note(error)
        return _list(visit, visit.speech.error(error.code, error.params), 422)
    return visit.go(f"/admissions/{found['id']}")


def admission_page(visit: Visit) -> Response:
    """One admission with its steps."""
    return _show(visit, None, 200)


def _show(visit: Visit, failed: str | None, status: int) -> Response:
    found = resource_admissions.show(visit.console.store, visit.principal, visit.named("admission"))
    manage = may_manage(visit, resource_admissions.NOUN)
    sources = declared.list_objects(visit.console.store, visit.principal, Kind.OBSERVATION_SOURCE.value)
    return visit.show(
        "admission.html",
        status,
        admission={**found, "step_standing": _step_standing(visit, found)},
        manage=manage and found["state"] != "admitted",
        retake=manage,
        ready=all(step["done"] for step in found["steps"]),
        sources=[(source.name, source.name) for source in sources],
        form=visit.form,
        failed=failed,
        shown=_shown,
    )


def _step_standing(visit: Visit, admission: Json) -> str:
    """How the record of the verifying step stands now: one that has ended leaves it pending."""
    step = next(each for each in admission["steps"] if each["step"] == Step.VERIFICATION)
    if not step["done"]:
        return Standing.PENDING.value
    record = verifications.show(visit.console.store, visit.principal, step["detail"]["verification"])
    return str(record["standing"])


def _shown(detail: Json) -> list[tuple[str, str]]:
    """What was said at a step, as names and values."""
    return [(key, _plain(value)) for key, value in detail.items() if value not in (None, {}, [])]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_plain(each)}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def take_step(visit: Visit) -> Response:
    """Take one step with what its form says."""
    name, step = visit.named("admission"), visit.named("step")
    if step not in set(Step):
        raise NotFoundError("route-unknown")
    return _try(
        visit,
        lambda: resource_admissions.take_step(
            visit.console.store, visit.principal, name, step, _detail(visit, Step(step)),
            origin=visit.origin(),
        ),
    )  # fmt: skip


def finish(visit: Visit) -> Response:
    """Admit the type."""
    name = visit.named("admission")
    return _try(
        visit,
        lambda: resource_admissions.finish(
            visit.console.store, visit.principal, name, origin=visit.origin()
        ),
    )


def _try(visit: Visit, act: Callable[[], Json]) -> Response:
    try:
        act()
    except (InvalidError, ConflictError) as error:
        visit.note(error)
        return _show(visit, visit.speech.error(error.code, error.params), 422)
    return visit.go(f"/admissions/{visit.named('admission')}")


def _detail(visit: Visit, step: Step) -> Json:
    """The fields of a step's form as the step takes them."""
    form = {key: value.strip()[:_LONGEST] for key, value in visit.form.items()}
    if step is Step.LABELS:
        return {"labels": _listed(form.get("labels", ""))}
    if step is Step.ENVIRONMENT:
        values: dict[str, list[str]] = {}
        for each in _listed(form.get("environment", "")):
            key, _, value = each.partition("=")
            values.setdefault(key.strip(), []).append(value.strip())
        return {"environment": values}
    names = {
        Step.MONITORING: ("source",), Step.OWNER: ("owner", "on_call"),
        Step.VERIFICATION: ("workload", "valid_for"),
    }[step]  # fmt: skip
    return {name: form[name] for name in names if form.get(name)}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]


def verification_list(visit: Visit) -> Response:
    """Every record, the newest first."""
    return visit.show(
        "verifications.html", records=verifications.list_all(visit.console.store, visit.principal)
    )


def verification_page(visit: Visit) -> Response:
    """One record."""
    return _record(visit, None, 200)


def _record(visit: Visit, failed: str | None, status: int) -> Response:
    found = verifications.show(visit.console.store, visit.principal, visit.named("verification"))
    return visit.show(
        "verification.html", status, record=found, failed=failed, shown=_shown, most=MAX_REASON,
        manage=may_manage(visit, verifications.NOUN) and found["ended_at"] is None,
    )  # fmt: skip


def end(visit: Visit) -> Response:
    """End a record before its time."""
    name = visit.named("verification")
    try:
        verifications.end(
            visit.console.store, visit.principal, name, visit.form.get("reason", ""), origin=visit.origin()
        )
    except (InvalidError, ConflictError) as error:
        visit.note(error)
        return _record(visit, visit.speech.error(error.code, error.params), 422)
    return visit.go(f"/verifications/{name}")


PAGES = [
    Page("GET", "/admissions", admission_list),
    Page("POST", "/admissions", start),
    Page("GET", "/admissions/{admission}", admission_page),
    Page("POST", "/admissions/{admission}/steps/{step}", take_step),
    Page("POST", "/admissions/{admission}/finish", finish),
    Page("GET", "/verifications", verification_list),
    Page("GET", "/verifications/{verification}", verification_page),
    Page("POST", "/verifications/{verification}/end", end),
]
