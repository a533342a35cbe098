"""One device: what it is and how each fact is known, how well it is, who has it, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.cells import cell_of, look_of, merged
from steelyard.console.device_picture import device_picture
from steelyard.console.places import acts_for, done_on
from steelyard.console.serve import Page
from steelyard.console.timeline import KINDS, timeline
from steelyard.console.visit import Visit
from steelyard.reports.drawing.fleet import cell_picture
from steelyard.services import fleet
from steelyard.services.inventory import PARTS

Json = Mapping[str, Any]
EVENTS_A_PAGE = 40
#: The several numbers of one card, which are never taken for one another.
NUMBERS = (
    "uuid", "serial", "pci", "pci_id", "index", "host_index", "in_container", "module", "partition", "numa",
)  # fmt: skip
#: Facts that have a name in the reader's language.
NAMED = frozenset({
    *NUMBERS, "capacity", "family", "memory", "model", "driver", "firmware", "kernel_driver", "lanes", "mig",
    "total", "reserved", "name",
})  # fmt: skip


def device_page(visit: Visit) -> Response:
    """The page. `of`: only these events of the line; `page`: further back."""
    found = fleet.show_device_with_holders(visit.console.store, visit.principal, visit.named("device"))
    of = visit.asked("of") if visit.asked("of") in KINDS else None
    every = timeline(found)
    events = [event for event in every if of in (None, event.kind)]
    pages = max(1, -(-len(events) // EVENTS_A_PAGE))
    asked = visit.asked("page", 6)
    page = min(max(1, int(asked) if asked.isascii() and asked.isdecimal() else 1), pages)
    current = [fact for fact in found["facts"] if fact["valid_to"] is None]
    return visit.show(
        "device.html",
        device=found,
        picture=cell_picture(cell_of(visit, found)),
        past=device_picture(visit, found),
        look=look_of(found),
        holders=merged(found["holders"]),
        states=PARTS,
        numbers=_numbers(current),
        current=[fact for fact in current if fact["key"] not in NUMBERS],
        named=NAMED,
        acts=[] if found["retired_at"] is not None else acts_for(visit, found["flags"], "device"),
        done=done_on(visit, found["flags"]),
        events=events[(page - 1) * EVENTS_A_PAGE : page * EVENTS_A_PAGE],
        of=of,
        kinds=[kind for kind in KINDS if any(event.kind == kind for event in every)],
        page=page,
        pages=pages,
    )


def _numbers(facts: Iterable[Json]) -> list[Json]:
    """The numbers that are known, in a fixed order."""
    by_key = {fact["key"]: fact for fact in facts}
    return [by_key[key] for key in NUMBERS if key in by_key]


PAGES = [Page("GET", "/devices/{device:path}", device_page)]
