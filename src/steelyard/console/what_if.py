"""What would come of a change: a form for one or several, and the answer of the scheduler's own decision."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from steelyard.console.answers import status_of
from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ForbiddenError, InvalidError, SteelyardError
from steelyard.model.organisation import Verb
from steelyard.model.yaml_text import load_documents
from steelyard.services import queues, what_if

Json = dict[str, Any]
MAX_TEXT = 256 * 1024
SHOWN = 100
#: Fields of the form; the first four may be asked by those who see the whole installation.
FIELDS = ("node", "subject", "value", "flavor", "count", "cordon", "uncordon", "end", "document", "copies")


def what_if_page(visit: Visit) -> Response:
    """The form, with what the address says filled in."""
    return _form(visit, {name: visit.asked(name, 120) for name in FIELDS}, None, None, 200)


def ask(visit: Visit) -> Response:
    """Ask, and show the answer above the form. Nothing is written."""
    written = {name: visit.form.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    try:
        changes = _changes(visit, written)
        found = what_if.ask(visit.console.desk, visit.principal, changes)
    except SteelyardError as error:
        visit.note(error)
        failed = str(visit.speech.error(error.code, error.params))
        return _form(visit, written, None, failed, status_of(error))
    return _form(visit, written, found, None, 200)


def _changes(visit: Visit, written: dict[str, str]) -> list[Json]:
    """In the order in which they are imagined: rules first, submits last. Raises InvalidError."""
    documents = _documents(visit, written["document"])
    declared = [each for each in documents if each.get("kind") != "Workload"]
    jobs = [each for each in documents if each.get("kind") == "Workload"]
    changes: list[Json] = []
    if declared:
        changes.append({"documents": declared})
    if written["node"] or written["value"]:
        limit = {name: written[name] for name in ("node", "subject", "value")}
        for name, given in limit.items():
            if not given:
                raise InvalidError("field-missing", path=name)
        changes.append({"limit": limit})
    if written["flavor"]:
        changes.append({"add_devices": {"flavor": written["flavor"], "count": _number(written, "count")}})
    changes += [{name: written[name]} for name in ("cordon", "uncordon", "end") if written[name]]
    copies = _number(written, "copies")
    changes += [{"submit": {"document": job, "copies": copies}} for job in jobs]
    if not changes:
        raise InvalidError("what-if-nothing")
    return changes


def _documents(visit: Visit, text: str) -> list[Json]:
    if not text:
        return []
    if len(text) > MAX_TEXT:
        raise InvalidError("body-too-large", most=MAX_TEXT)
    return load_documents(text.encode("utf-8", "surrogatepass"), visit.speech.say("what_if.document"))


def _number(written: dict[str, str], name: str) -> int:
    said = written[name] or "1"
    if not (said.isascii() and said.isdecimal()) or len(said) > 9:
        raise InvalidError("field-invalid", path=name, expected="integer")
    return int(said)


def sees_all(visit: Visit) -> bool:
    """Whether this reader may ask about more than work of its own projects."""
    try:
        authorise(visit.principal, Verb.VIEW, "cycle")
    except ForbiddenError:
        return False
    return True


def _form(
    visit: Visit, written: dict[str, str], found: Json | None, failed: str | None, status: int
) -> Response:
    everything = sees_all(visit)
    nodes = _limited(visit) if everything else []
    return visit.show(
        "what_if.html", status, written=written, found=found, failed=failed, everything=everything,
        nodes=nodes, shown=SHOWN,
    )  # fmt: skip


def _limited(visit: Visit) -> list[str]:
    """What may have a limit, as a change names it: `queue/main`, `project/vision`."""
    store, who = visit.console.store, visit.principal
    nodes = [*queues.queue_page(store, who), *queues.quota_page(store, who)]
    return [f"{node['kind']}/{node['name']}" for node in nodes]


PAGES = [Page("GET", "/what-if", what_if_page), Page("POST", "/what-if", ask, question=True)]
