"""What became of one device over the last day: who held how much of it, and what the rest of it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.evidence.usage import Meter
from steelyard.identity.authorise import authorise, scope
from steelyard.model.organisation import Principal, Verb
from steelyard.model.units import DAY
from steelyard.services.inventory import NOUN
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.live import meter_rows
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Segment = tuple[int, int, int]  # (t0, t1, quantity)
#: A stage that was closed within the window is found if it began at most this long before it.
LONGEST = 30 * DAY


@dataclass(frozen=True, slots=True)
class DevicePast:
    """Segments within `window`; at each instant `held` and `unheld` sum to the capacity. `held` is by
    project, None for projects that the reader may not see."""

    window: tuple[int, int]
    capacity: tuple[Segment, ...]
    held: Mapping[str | None, tuple[Segment, ...]]
    unheld: Mapping[str, tuple[Segment, ...]]


def device_past(
    store: Store, principal: Principal, device_id: int, registered: int, span: int = DAY
) -> DevicePast | None:
    """From `span` ago, or from its registration on, until now. None for a device that is not metered: of one
    that is divided its parts are."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "workload")
    with store.read() as view:
        now = store.now()
        window = (max(registered, now - span), now)
        capacity, unheld = _metered(view, device_id, window)
        held: dict[str | None, list[Segment]] = defaultdict(list)
        for row in repository.holdings_within(view, seen, device_id, window, LONGEST):
            held[row["project"]].append((row["t0"], row["t1"], row["quantity"]))
        for row in repository.open_allocations(view, seen, [device_id]):
            held[row["project"]].append((row["t0"], now, row["quantity"]))
    if not capacity:
        return None
    ordered = sorted(held, key=lambda project: (project is None, project or ""))
    return DevicePast(
        window, tuple(capacity), {each: tuple(held[each]) for each in ordered}, _by_state(unheld)
    )


def _metered(view: View, device_id: int, window: tuple[int, int]) -> tuple[list[Segment], list[Record]]:
    meter = Meter()
    meter.load(meter_rows(view, device_id))
    opened, idle = meter.open_segments(window[1])
    closed = [row for row in repository.availability_of(view, device_id) if row["t1"] > window[0]]
    capacity = [(row["t0"], row["t1"], row["capacity"]) for row in (*closed, *opened)]
    return capacity, [*repository.unheld_of(view, device_id, window[0]), *idle]


def _by_state(rows: Iterable[Record]) -> dict[str, tuple[Segment, ...]]:
    found: dict[str, list[Segment]] = defaultdict(list)
    for row in rows:
        found[row["state"]].append((row["t0"], row["t1"], row["quantity"]))
    return {state: tuple(segments) for state, segments in sorted(found.items())}
