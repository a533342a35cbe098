"""Workloads: the list with its filters."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.workloads import WorkloadKind
from steelyard.services import workloads
from steelyard.services.declared import list_objects
from steelyard.store.workloads import LIVE, WorkloadFilter

PAGE_SIZE = 50
MAX_NAMES = 200
KINDS = tuple(kind.value for kind in WorkloadKind)
PHASES = tuple(phase.value for phase in Phase)
OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.PREEMPTED)
#: The short ways: name → what it narrows to.
VIEWS: dict[str, dict[str, str]] = {
    "all": {},
    "live": {"phase": LIVE},
    "waiting": {"phase": Phase.QUEUED.value},
    "running": {"phase": Phase.RUNNING.value},
    "failed": {"outcome": Outcome.FAILED.value},
}
_FIELDS = ("project", "namespace", "kind", "phase", "outcome", "queue", "q")


def list_page(visit: Visit) -> Response:
    """Fifty at a time, narrowed by the query; what no closed list has narrows nothing, and is said."""
    asked, unknown = _asked(visit)
    order = "oldest" if visit.asked("order") == "oldest" else "newest"
    wanted = WorkloadFilter(
        project=asked["project"],
        namespace=asked["namespace"],
        kind=asked["kind"],
        phase=asked["phase"],
        outcome=asked["outcome"],
        queue=asked["queue"],
        text=asked["q"],
    )
    rows, following = workloads.list_page(
        visit.console.desk,
        visit.principal,
        wanted,
        cursor=visit.asked("cursor") or None,
        limit=PAGE_SIZE,
        order=order,
    )
    narrowed = {name: value for name, value in asked.items() if value}
    return visit.show(
        "workloads.html",
        rows=rows,
        asked=asked,
        unknown=unknown,
        narrowed=narrowed,
        order=order,
        following=following,
        names=_names(visit),
        kinds=KINDS,
        phases=(LIVE, *PHASES),
        outcomes=OUTCOMES,
        views=VIEWS,
    )


def _asked(visit: Visit) -> tuple[dict[str, str | None], dict[str, str]]:
    """What the list is narrowed to, and what was asked for that no closed list has."""
    closed = {"kind": KINDS, "phase": (LIVE, *PHASES), "outcome": OUTCOMES}
    found = {name: visit.asked(name, 63) or None for name in _FIELDS}
    unknown = {name: value for name in closed if (value := found[name]) and value not in closed[name]}
    return {name: None if name in unknown else value for name, value in found.items()}, unknown


def _names(visit: Visit) -> dict[str, list[str]]:
    """Names to choose from while typing, of what the reader may see."""
    found: dict[str, list[str]] = {"Project": [], "Namespace": [], "Queue": []}
    for declared in list_objects(visit.console.store, visit.principal):
        if declared.kind in found and len(found[declared.kind]) < MAX_NAMES:
            found[declared.kind].append(declared.name)
    return found


PAGES = [Page("GET", "/workloads", list_page)]
