"""Submitting a workload: a document to begin with, what would come of it, and sending it once."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.responses import Response

from steelyard.console.answers import status_of
from steelyard.console.document import document_of, line_of, lines_of
from steelyard.console.serve import Page
from steelyard.console.starts import KINDS, start, start_of_template
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError, RefusedError, SteelyardError
from steelyard.model.ids import parse
from steelyard.model.yaml_text import load_documents
from steelyard.reports.drawing.markup import Markup
from steelyard.services import workloads
from steelyard.services.declared import list_objects
from steelyard.services.idempotency import Once
from steelyard.services.reasons import reason_view
from steelyard.store.unit import Unit

Json = dict[str, Any]
MAX_TEXT = 256 * 1024
MAX_TEMPLATES = 50


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a document was not taken: its sentence, the field and its line, every reason, the record."""

    sentence: Markup
    path: str | None = None
    line: int | None = None
    reasons: tuple[Json, ...] = ()
    refusal: str | None = None
    more: tuple[Fault, ...] = ()  # what else is wrong in it


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of sending the form. `would` of a preview: would, reasons, placement."""

    would: Json | None = None
    fault: Fault | None = None
    status: int = 200
    kinds: dict[str, str] = field(default_factory=dict)


def submit_page(visit: Visit) -> Response:
    """The form, with the document that `like`, `template` or `start` name."""
    return _form(visit, _first_text(visit), Answer())


def send(visit: Visit) -> Response:
    """Look what would come of it, or submit it and show the workload. Sent twice, it is submitted once."""
    text = visit.form.get("document", "").replace("\r\n", "\n")
    try:
        document = _read(visit, text)
        if visit.form.get("act") != "submit":
            found = workloads.submit(visit.console.desk, visit.principal, document, dry_run=True)
            return _form(visit, text, Answer(would=found))
        return visit.go(f"/workloads/{_submit_once(visit, text, document)}?done=submit")
    except SteelyardError as error:
        visit.note(error)
        return _form(visit, text, Answer(fault=_fault(visit, text, error), status=status_of(error)))


def _read(visit: Visit, text: str) -> Json:
    if len(text) > MAX_TEXT:
        raise InvalidError("body-too-large", most=MAX_TEXT)
    found = load_documents(text.encode("utf-8", "surrogatepass"), visit.speech.say("submit.document"))
    if len(found) != 1:
        raise InvalidError("form-one-document", count=len(found))
    return found[0]


def _submit_once(visit: Visit, text: str, document: Json) -> str:
    """The id of the workload, new or of the same form sent before."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    once = Once(visit.principal.id, f"form:{visit.form.get('once', '')[:64]}:{digest[:32]}", digest)
    with visit.console.store.read() as view:
        known = once.recorded(view)
    if known is not None:
        return str(known.body["id"])

    def record(unit: Unit, name: str) -> None:
        once.record(unit, 201, {"id": name}, visit.now)

    made = workloads.submit(
        visit.console.desk, visit.principal, document, origin=visit.origin(), on_unit=record
    )
    return str(made["id"])


def _fault(visit: Visit, text: str, error: SteelyardError) -> Fault:
    path = error.params.get("path")
    reasons = (
        tuple(reason_view(reason) for reason in error.reasons) if isinstance(error, RefusedError) else ()
    )
    line = error.params.get("line")
    refusal = error.params.get("refusal")
    return Fault(
        visit.speech.error(error.code, error.params),
        str(path) if path is not None else None,
        line if isinstance(line, int) else line_of(text, str(path) if path is not None else None),
        reasons,
        str(refusal) if refusal is not None else None,
        _also(visit, text, error),
    )


def _also(visit: Visit, text: str, error: SteelyardError) -> tuple[Fault, ...]:
    """What else is wrong in the document, each with its line."""
    found = error.faults[1:] if isinstance(error, InvalidError) else ()
    paths = [str(one.params.get("path") or "") or None for one in found]
    places = zip(found, paths, lines_of(text, paths), strict=True)
    return tuple(Fault(visit.speech.error(one.code, one.params), path, line) for one, path, line in places)


def _first_text(visit: Visit) -> str:
    like, template = visit.asked("like", 64), visit.asked("template", 63)
    if like:
        view = workloads.show(visit.console.desk, visit.principal, parse("workload", like))
        return document_of(view)
    namespace = next(iter(_names(visit, "Namespace")), "my-namespace")
    if template in _names(visit, "Template"):
        return start_of_template(template, namespace)
    return start(visit.asked("start", 63), namespace)


def _names(visit: Visit, kind: str) -> list[str]:
    return [declared.name for declared in list_objects(visit.console.store, visit.principal, kind)]


def _form(visit: Visit, text: str, answer: Answer) -> Response:
    return visit.show(
        "submit.html",
        answer.status,
        text=text,
        lines=min(40, max(18, text.count("\n") + 3)),
        answer=answer,
        kinds=KINDS,
        templates=_names(visit, "Template")[:MAX_TEMPLATES],
        namespaces=_names(visit, "Namespace")[:MAX_TEMPLATES],
        once=visit.form.get("once", "")[:64] or secrets.token_hex(16),
    )


PAGES = [Page("GET", "/submit", submit_page), Page("POST", "/submit", send)]
