"""One workload: its page, led by the verdict or the reasons, and what may be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from steelyard.console.document import document_of
from steelyard.console.log import log_of, whole_log
from steelyard.console.serve import Page
from steelyard.console.story import story
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError
from steelyard.model.ids import parse
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Verb
from steelyard.services import scaling, workloads
from steelyard.services.groups import SERVICE

Json = dict[str, Any]
#: action → the phases in which it makes sense; a finished workload is tried again unless it succeeded.
ACTIONS: dict[str, frozenset[str]] = {
    "retry": frozenset({Phase.FINISHED}),
    "hold": frozenset({Phase.QUEUED}),
    "release": frozenset({Phase.HELD}),
    "cancel": frozenset(Phase) - {Phase.FINISHED, Phase.STOPPING, Phase.RELEASING},
}
_ACT: Mapping[str, Callable[..., Json]] = {
    "cancel": workloads.cancel,
    "retry": workloads.retry,
    "hold": workloads.hold,
    "release": workloads.release,
}
MAX_RESULT = 16 * 1024
#: What may be said to be done.
_DONE = frozenset({*ACTIONS, "submit", "scale"})
#: How the lead of a page is toned, by phase and by outcome.
_TONES = {
    "queued": "wait", "reserved": "wait", "held": "mute", "starting": "run", "running": "run",
    "suspended": "wait", "stopping": "warn", "releasing": "warn",
}  # fmt: skip
_ENDS = {"succeeded": "ok", "cancelled": "mute", "withdrawn": "mute", "reclaimed": "warn"}


def workload_page(visit: Visit) -> Response:
    """What happened, why, what would change it; then everything that is known."""
    view = _view(visit)
    picture = story(view, visit.speech, visit.now)
    return visit.show(
        "workload.html",
        view=view,
        scalable=is_scalable(visit, view),
        tone=_ENDS.get(view["outcome"], "bad") if view["outcome"] else _TONES.get(view["phase"], "mute"),
        actions=possible(visit, view),
        story=picture,
        log=log_of(visit, view),
        document=document_of(view),
        pretty=_pretty,
        done=visit.asked("done") if visit.asked("done") in _DONE else "",
    )


def explanation_page(visit: Visit) -> Response:
    """What the next decision would be, asked of the scheduler itself, and who is looked at before."""
    view = _view(visit)
    found = workloads.explain_workload(visit.console.desk, visit.principal, parse("workload", view["id"]))
    return visit.show("explanation.html", view=view, found=found)


def _view(visit: Visit) -> Json:
    return workloads.show(visit.console.desk, visit.principal, parse("workload", visit.named("workload_id")))


def possible(visit: Visit, view: Json) -> list[str]:
    """What this reader may do to it now."""
    if not _may_change(visit, view):
        return []
    if view["phase"] == Phase.FINISHED:
        return ["retry"] if view["outcome"] not in (None, "succeeded") else []
    return [name for name, phases in ACTIONS.items() if view["phase"] in phases]


def _may_change(visit: Visit, view: Json) -> bool:
    try:
        authorise(visit.principal, Verb.CHANGE, "workload", view["project"], owner=view["submitter"])
    except ForbiddenError:
        return False
    return True


def _pretty(value: object) -> str:
    """A result as it may be read, not more of it than a page takes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}…"


def is_scalable(visit: Visit, view: Json) -> bool:
    """Whether this reader may change how many replicas of it run."""
    group = view["group"]
    running = group is not None and group["kind"] == SERVICE and group["stopped_at"] is None
    return running and _may_change(visit, view)


def scale_page(visit: Visit) -> Response:
    """How many replicas there are, and the form to change that."""
    view = _view(visit)
    if view["group"] is None or view["group"]["kind"] != SERVICE:
        raise ConflictError("not-scalable", id=view["id"])
    return visit.show("scale.html", view=view)


def scale(visit: Visit) -> Response:
    """Ask for so many replicas."""
    name, replicas = visit.named("workload_id"), visit.form.get("replicas", "").strip()
    if not replicas.isdecimal() or len(replicas) > 9:
        raise InvalidError("field-invalid", path="replicas", expected="integer")
    number = parse("workload", name)
    scaling.scale(visit.console.desk, visit.principal, number, int(replicas), origin=visit.origin())
    return visit.go(f"/workloads/{name}?done=scale")


def _confirm(action: str) -> Page:
    def page(visit: Visit) -> Response:
        return visit.show("confirm.html", view=_view(visit), action=action)

    return Page("GET", f"/workloads/{{workload_id}}/{action}", page)


def _act(action: str) -> Page:
    def page(visit: Visit) -> Response:
        name = visit.named("workload_id")
        version = visit.form.get("version", "")
        _ACT[action](
            visit.console.desk,
            visit.principal,
            parse("workload", name),
            if_match=int(version) if version.isdecimal() and len(version) < 19 else None,
            origin=visit.origin(),
        )
        return visit.go(f"/workloads/{name}?done={action}")

    return Page("POST", f"/workloads/{{workload_id}}/{action}", page)


PAGES = [
    Page("GET", "/workloads/{workload_id}", workload_page),
    Page("GET", "/workloads/{workload_id}/explanation", explanation_page),
    Page("GET", "/workloads/{workload_id}/log", whole_log),
    Page("GET", "/workloads/{workload_id}/scale", scale_page),
    Page("POST", "/workloads/{workload_id}/scale", scale),
    *[_confirm(action) for action in ACTIONS],
    *[_act(action) for action in ACTIONS],
]
