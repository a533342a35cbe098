"""What may be done to a node or a device: cordon, uncordon, drain, maintenance, fence; and what is flagged.

Each act is a page of its own that says what it does, who would leave, and asks for the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from steelyard.model.ids import PREFIXES
from steelyard.model.organisation import Verb
from steelyard.services import flags
from steelyard.services.departures import departures
from steelyard.services.flags import Act
from steelyard.services.written import MAX_REASON

Json = Mapping[str, Any]
#: In the order in which they are offered.
ACTS = tuple(act.value for act in (Act.CORDON, Act.DRAIN, Act.MAINTENANCE, Act.UNCORDON, Act.FENCE))
#: Acts that ask somebody to leave, or may.
LEAVE = frozenset({Act.DRAIN, Act.MAINTENANCE, Act.FENCE})
_PATHS = {PREFIXES["node"]: "nodes", PREFIXES["device"]: "devices"}


def may_act(visit: Visit) -> bool:
    """Whether this reader may flag anything."""
    try:
        authorise(visit.principal, Verb.MANAGE, flags.NOUN)
    except ForbiddenError:
        return False
    return True


def acts_for(visit: Visit, standing: Iterable[Json], kind: str) -> list[str]:
    """What this reader may do to a node or device on which these flags stand."""
    if not may_act(visit):
        return []
    own = {flag["flag"] for flag in standing if flag["on"] == kind and flag["until"] is None}
    drained = any(flag["drain"] for flag in standing if flag["on"] == kind and flag["until"] is None)
    hidden = {
        Act.CORDON: "cordoned" in own, Act.DRAIN: "cordoned" in own and drained,
        Act.MAINTENANCE: "maintenance" in own, Act.UNCORDON: not own, Act.FENCE: "quarantined" in own,
    }  # fmt: skip
    return [act for act in ACTS if not hidden[Act(act)]]


def done_on(visit: Visit, standing: Iterable[Json]) -> str:
    """Which act the address says was done; empty where the flags say otherwise."""
    said, flagged = visit.asked("done"), any(flag["until"] is None for flag in standing)
    return said if said in ACTS and (said == Act.UNCORDON or flagged) else ""


def path_of(place: str) -> str:
    """The page of a node or device by its id. Raises NotFoundError for what is no such id."""
    found = _PATHS.get(place.partition("_")[0])
    if found is None:
        raise NotFoundError("not-found", kind="device", id=place[:80])
    return f"/{found}/{place}"


def flag_list(visit: Visit) -> Response:
    """Every flag that stands, with who set it, when and why."""
    rows = flags.standing(visit.console.store, visit.principal)
    return visit.show("flags.html", rows=rows, path_of=path_of, may_act=may_act(visit))


def act_page(visit: Visit) -> Response:
    """What the act does, who would leave, and the form."""
    return _asked(visit, _act(visit), None, "", visit.asked("drain") == "yes", 200)


def act(visit: Visit) -> Response:
    """Do it, and see the place; what is wrong with the form is said above it."""
    what, place = _act(visit), visit.named("place")
    reason, drain = visit.form.get("reason", ""), visit.form.get("drain") == "yes"
    try:
        flags.act(
            visit.console.store, visit.principal, what, place, reason, drain=drain, origin=visit.origin()
        )
    except (InvalidError, ConflictError) as error:
        visit.note(error)
        said = visit.speech.error(error.code, error.params)
        return _asked(visit, what, said, reason, drain, 422)
    return visit.go(f"{path_of(place)}?done={what.value}")


def _asked(visit: Visit, what: Act, failed: str | None, reason: str, drain: bool, status: int) -> Response:
    place = visit.named("place")
    path = path_of(place)
    authorise(visit.principal, Verb.MANAGE, flags.NOUN)
    shown = flags.show(visit.console.store, visit.principal, place)
    leaving = None
    if what in LEAVE:
        at_once = what is Act.FENCE
        found = departures(visit.console.store, visit.principal, place, at_once=at_once)
        leaving = found["departures"]
    return visit.show(
        "act.html", status, place=shown, path=path, act=what.value, leaving=leaving, failed=failed,
        written=reason[:MAX_REASON], drain=drain, most=MAX_REASON,
    )  # fmt: skip


def _act(visit: Visit) -> Act:
    try:
        return Act(visit.named("act"))
    except ValueError:
        raise NotFoundError("route-unknown") from None


PAGES = [
    Page("GET", "/flags", flag_list),
    Page("GET", "/places/{place}/{act}", act_page),
    Page("POST", "/places/{place}/{act}", act),
]
