"""When what waits will start, and how often such estimates held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steelyard.identity.authorise import scope
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.policy import Policy
from steelyard.model.units import DAY, SECOND
from steelyard.scheduling import Snapshot
from steelyard.scheduling.estimates import MAX_INSTANTS, Estimate, Known, estimate, waiting_in
from steelyard.services.admission import NOUN
from steelyard.services.run_times import learn
from steelyard.services.workloads import Desk, find
from steelyard.store import estimates as rows
from steelyard.store import workloads as repository
from steelyard.store.database import View

Json = dict[str, Any]
MAX_SHOWN = 500
#: Instants looked at of each future: the fewer, the more waits.
LEAST_INSTANTS, MAX_LOOKS = 32, 100_000
#: Starts that coverage is measured on: those of the last days, no more than so many.
WINDOW, MAX_STARTS = 7 * DAY, 20_000
#: A start this much (µs) beside its interval fell into it: what is told of ends is a little late.
TOLERANCE = SECOND


def estimates_page(
    desk: Desk, principal: Principal, workload: str | None = None, project: str | None = None
) -> Json:
    """Estimates of what the principal may see, those first who are first in order, and their coverage. Raises
    NotFoundError for a workload that is not there to it."""
    now = desk.store.now()
    seen = scope(principal, Verb.VIEW, NOUN)
    with desk.store.read() as view:
        number = None if workload is None else find(view, principal, parse("workload", workload))["id"]
        snapshot, policy = desk.snapshots.full(view, now)
        items = _items(view, seen, snapshot, policy, now, number, project)
        return {"at": now, "items": items, "coverage": coverage(view, now)}


def _items(
    view: View, seen: Scope, snapshot: Snapshot, policy: Policy, now: int, number: int | None,
    project: str | None,
) -> list[Json]:
    shapes = {
        item.workload_id: (shape, item)
        for shape, item in waiting_in(snapshot)
        if seen.allows(shape.project)
        and project in (None, shape.project)
        and number in (None, item.workload_id)
    }
    order = sorted(shapes, key=lambda n: (-shapes[n][0].priority, shapes[n][1].submitted, n))[:MAX_SHOWN]
    if not order:
        return []
    waiting = sum(group.count for group in snapshot.pending)
    most = max(LEAST_INSTANTS, min(MAX_INSTANTS, MAX_LOOKS // (waiting + 1)))
    found = estimate(snapshot, policy, now, Known(learn(view)), order, most)
    names = repository.names_of(view, seen, order)
    return [
        {
            "id": render("workload", n),
            "name": names[n]["name"] if n in names else None,
            "project": shapes[n][0].project,
            "queue": shapes[n][0].queue,
            "priority": shapes[n][0].priority,
            "submitted_at": shapes[n][1].submitted,
            **estimate_view(found[n]),
        }
        for n in order
    ]


def estimate_view(found: Estimate) -> Json:
    """An estimate as shown."""
    return {
        "earliest": found.earliest,
        "latest": found.latest,
        "why": None if found.why is None else found.why.value,
        "rests": dict(found.rests),
    }


def coverage(view: View, now: int) -> Json:
    """Of the starts that had a whole interval when they were first looked at, how many fell into it."""
    since = max(0, now - WINDOW)
    return covered(rows.outcomes(view, since, MAX_STARTS), since)


def covered(found: Iterable[Any], since: int) -> Json:
    """`starts` with a whole interval, how many fell `within` it, `percent`; `open`: with half of one."""
    starts = within = half = 0
    for row in found:
        if row["earliest"] is None or row["latest"] is None:
            half += 1
            continue
        starts += 1
        within += row["earliest"] - TOLERANCE <= row["placed"] <= row["latest"] + TOLERANCE
    percent = within * 100 // starts if starts else None
    return {"since": since, "starts": starts, "within": within, "percent": percent, "open": half}
