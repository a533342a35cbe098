"""The inventory of a past instant, and what changed between two: instants are typed on the reader's clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from steelyard.console.cells import amounts, cells_of, look_of, merged
from steelyard.console.device import NAMED
from steelyard.console.inventory import CLASSES, in_order, one_of
from steelyard.console.serve import Page
from steelyard.console.speech import zone
from steelyard.console.usage_window import dated, instant
from steelyard.console.visit import Visit
from steelyard.identity.authorise import scope
from steelyard.model.errors import InvalidError
from steelyard.model.organisation import Verb
from steelyard.model.units import DAY
from steelyard.services.census import Wanted
from steelyard.services.fleet import ever_there
from steelyard.services.inventory import PARTS
from steelyard.services.inventory_diff import difference
from steelyard.services.inventory_past import nodes_at, summary_at

Json = Mapping[str, Any]
NODES_A_PAGE, CHANGES_A_PAGE = 24, 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOON = 12


def past_page(visit: Visit) -> Response:
    """The inventory as it was; without an instant the form alone, which offers yesterday's noon."""
    noon = typed(_noon_of_yesterday(visit), visit.speech.zone)
    given = visit.asked("at", 32) or noon
    wanted = Wanted(
        visit.asked("cluster", 63) or None, one_of(visit.asked("class"), CLASSES),
        visit.asked("pool", 63) or None,
    )  # fmt: skip
    at: int | None = None
    found: dict[str, Any] = {}
    failed: str | None = None
    if visit.asked("at", 32):
        try:
            at = instant(given, visit.speech.zone)
            assert at is not None
            found = _at(visit, at, wanted)
        except InvalidError as error:
            failed, at = said_of(visit, error), None
    return visit.show(
        "past.html",
        422 if failed else 200,
        at=at,
        given=given if failed is None else noon,
        failed=failed,
        wanted=wanted,
        found=found,
        choices=_choices(visit),
        states=PARTS,
        look_of=look_of,
        merged=merged,
        map_of=lambda node: cells_of(visit, node["devices"]),
        amounts_of=lambda node: amounts(node["devices"]),
    )


def _at(visit: Visit, at: int, wanted: Wanted) -> dict[str, Any]:
    store, who = visit.console.store, visit.principal
    seen = scope(who, Verb.VIEW, "workload")
    sums = visit.console.instants.get((seen.projects, at), lambda: summary_at(store, who, at))
    nodes, following = nodes_at(
        store, who, at, cluster=wanted.cluster, device_class=wanted.device_class, pool=wanted.pool,
        cursor=visit.asked("cursor", 40) or None, limit=NODES_A_PAGE,
    )  # fmt: skip
    shown = [row for row in sums["classes"] if wanted.cluster in (None, row["cluster"])]
    shown = [row for row in shown if wanted.device_class in (None, row["class"])]
    down = [each for node in nodes for each in node["devices"] if each["reason"] not in (None, "partitioned")]
    return {"classes": in_order(shown), "nodes": nodes, "following": following, "down": down}


def changes_page(visit: Visit) -> Response:
    """What changed between two instants; without any the last day."""
    given = [visit.asked(name, 32) for name in ("from", "to")]
    failed, found = None, None
    try:
        start, end = (instant(text, visit.speech.zone) for text in given)
        begun = visit.now - DAY if start is None else start
        found = difference(visit.console.store, visit.principal, begun, end)
    except InvalidError as error:
        failed = said_of(visit, error)
        given = ["", ""]
    if found is not None and not given[0]:
        given[0] = typed(found["from"], visit.speech.zone)
    changes = found["changes"] if found is not None else []
    of = one_of(visit.asked("of"), {change["what"] for change in changes})
    listed = [change for change in changes if of in (None, change["what"])]
    pages = max(1, -(-len(listed) // CHANGES_A_PAGE))
    asked = visit.asked("page", 6)
    page = min(max(1, int(asked) if asked.isascii() and asked.isdecimal() else 1), pages)
    return visit.show(
        "changes.html",
        422 if failed else 200,
        given=given,
        failed=failed,
        found=found,
        of=of,
        kinds=sorted({change["what"] for change in changes}),
        named=NAMED,
        changes=listed[(page - 1) * CHANGES_A_PAGE : page * CHANGES_A_PAGE],
        count_of=len(listed),
        page=page,
        pages=pages,
    )


def said_of(visit: Visit, error: InvalidError) -> str:
    """What is wrong with the instants, on the reader's clock."""
    places = {"window-invalid": ("start", "end"), "time-to-come": ("at", "now")}.get(error.code)
    if places is None:
        return visit.speech.error(error.code, error.params)
    first, second = (dated(int(error.params[name] or 0), visit.speech.zone) for name in places)
    return visit.speech.say(f"past.{error.code}", first=first, second=second)


def typed(at: int, zone_name: str) -> str:
    """An instant as the field takes it: `2026-05-01T08:30`."""
    local = (_EPOCH + timedelta(microseconds=at)).astimezone(zone(zone_name))
    return local.strftime("%Y-%m-%dT%H:%M")


def _noon_of_yesterday(visit: Visit) -> int:
    """12:00 of the day before on the reader's clock, in µs UTC."""
    local = (_EPOCH + timedelta(microseconds=visit.now)).astimezone(zone(visit.speech.zone))
    noon = (local - timedelta(days=1)).replace(hour=_NOON, minute=0, second=0, microsecond=0)
    return (noon.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _choices(visit: Visit) -> dict[str, list[tuple[str, str]]]:
    known = ever_there(visit.console.store, visit.principal)
    return {
        "clusters": [(name, name) for name in known["clusters"]],
        "pools": [(name, name) for name in known["pools"]],
        "classes": [(name, visit.speech.word("class", name)) for name in CLASSES],
    }


PAGES = [
    Page("GET", "/inventory/past", past_page),
    Page("GET", "/inventory/changes", changes_page),
]
