"""The home page: what waits and why, what runs, what failed lately, what there is, what needs somebody."""

from __future__ import annotations

import time

from starlette.responses import Response

from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ForbiddenError
from steelyard.model.organisation import Verb
from steelyard.services.doctor import Check, examine
from steelyard.services.overview import by_class, overview

MAX_FAILED = 6
KEPT_SECONDS = 15.0
_ORDER = ("gpu", "npu", "other", "cpu", "memory")


def home(visit: Visit) -> Response:
    """The page."""
    found = overview(visit.console.store, visit.principal, failures=MAX_FAILED)
    classes = by_class(found["inventory"]) if found["inventory"] is not None else None
    if classes is not None:
        classes.sort(key=lambda row: (row["simulated"], _ORDER.index(row["class"])))
    live = found["live"]
    counts = {
        "waiting": sum(live.get(phase, 0) for phase in ("queued", "reserved")),
        "held": live.get("held", 0),
        "running": sum(live.get(phase, 0) for phase in ("starting", "running", "suspended")),
        "ending": sum(live.get(phase, 0) for phase in ("stopping", "releasing")),
    }
    clusters = found["inventory"]["clusters"] if found["inventory"] is not None else []
    silent = [cluster for cluster in clusters if cluster["reachable"] is False]
    return visit.show(
        "home.html",
        found=found,
        counts=counts,
        classes=classes,
        silent=silent,
        failing=_failing(visit),
        failed_most=MAX_FAILED,
    )


def _failing(visit: Visit) -> tuple[Check, ...]:
    """Checks of the doctor that fail, for those who may see them; silent clusters are told anyhow. What was
    found is kept for some seconds: the page is looked at more often than a server's health changes."""
    console, clock = visit.console, time.monotonic()
    try:
        authorise(visit.principal, Verb.VIEW, "doctor")
    except ForbiddenError:
        return ()
    made, failing = console.health
    if clock - made > KEPT_SECONDS:
        folder = console.extra.get("folder")
        found = examine(console.store, visit.principal, console.engines, folder, console.signer)
        wrong = (check for check in found if check.ok is False)
        failing = tuple(check for check in wrong if not check.id.startswith("cluster/"))
        console.health = clock, failing
    return failing


PAGES = [Page("GET", "/", home)]
