"""The usage ledger as of now: stored segments, and those of what is still open, made by the same code.

What is open is not stored; a report at an instant makes it of the meter's open state and of the open
allocations, in the same read view, so that both tell of the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from types import SimpleNamespace

from steelyard.evidence.usage import HELD_BY_USER, STANDBY, AttemptFacts, Meter, holding_rows
from steelyard.evidence.usage import wait_rows as make_wait_rows
from steelyard.model.lifecycle import STAGE_TIMES
from steelyard.model.organisation import Scope
from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import DeviceClass, ShareKind
from steelyard.services.organisation import load_history
from steelyard.services.reasons import read_reasons
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.live import meter_rows
from steelyard.store.scoped import Record
from steelyard.store.workloads import reasons_between

Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OpenSegments:
    """What is open, cut at `until`."""

    until: int
    capacity: list[Record]
    unheld: list[Record]
    holding: list[Record]


def open_segments(view: View, scope: Scope, until: int) -> OpenSegments:
    """Open segments of every device, and holdings within the scope, cut at an instant."""
    meter = Meter()
    meter.load(meter_rows(view))
    capacity, unheld = meter.open_segments(until)
    return OpenSegments(until, capacity, unheld, list(_open_holdings(view, scope, until)))


def _open_holdings(view: View, scope: Scope, until: int) -> Iterator[Record]:
    org = load_history(view)
    rows = repository.open_holdings(view, scope)
    for _, group in groupby(rows, key=lambda row: row.attempt_id):
        own = list(group)
        first = own[0]
        facts = AttemptFacts(
            first.workload_id, first.attempt_id, first.kind, first.queue, first.priority, first.submitter,
            first.namespace, first.project, bool(first.simulated),
        )  # fmt: skip
        times = {name: getattr(first, name) for name in STAGE_TIMES}
        yield from holding_rows(facts, [_allocation(row) for row in own], times, until, org)


def _allocation(row: object) -> SimpleNamespace:
    values = dict(row._mapping)  # type: ignore[attr-defined]
    values["device_class"] = DeviceClass(values["device_class"])
    values["share_kind"] = ShareKind(values["share_kind"])
    return SimpleNamespace(**values)


def all_capacity(view: View, window: Window, opened: OpenSegments) -> list[Record]:
    """Stored and open capacity segments that overlap the window."""
    return [*repository.capacity_rows(view, window), *_within(opened.capacity, window)]


def all_unheld(view: View, window: Window, opened: OpenSegments) -> list[Record]:
    """Stored and open unheld segments that overlap the window."""
    return [*repository.unheld_rows(view, window), *_within(opened.unheld, window)]


def all_holding(view: View, scope: Scope, window: Window, opened: OpenSegments) -> list[Record]:
    """Stored and open holding segments that overlap the window."""
    return [*repository.holding_rows(view, scope, window), *_within(opened.holding, window)]


def _within(rows: list[Record], window: Window) -> list[Record]:
    return [row for row in rows if row["t0"] < window[1] and row["t1"] > window[0]]


def open_waits(view: View, scope: Scope, until: int) -> list[Record]:
    """Slices of what still waits, up to an instant, with project and kind; what is stored is left out."""
    found: list[Record] = []
    reasons: dict[int, list[tuple[int, int | None, str]]] = {}
    for row in repository.waiting_now(view, scope):
        since = max(row["attempt_submitted"], row["noted_until"] or 0)
        if since >= until:
            continue
        if row["shape_id"] not in reasons:
            reasons[row["shape_id"]] = [
                (item["t0"], item["t1"], _code(item["reasons_json"]))
                for item in reasons_between(view, row["shape_id"], 0, until)
            ]
        held = [(since, row["eligible"])] if row["eligible"] is None or row["eligible"] > since else []
        label = HELD_BY_USER
        if row["standby"] and row["activated_at"] is None:
            held, label = [(since, until)], STANDBY
        for piece in make_wait_rows(row["attempt_id"], since, until, reasons[row["shape_id"]], held, label):
            found.append({**piece, "workload_id": row["id"], "project": row["project"], "kind": row["kind"]})
    return found


def _code(text: str) -> str:
    found = read_reasons(text)
    return found[0].code if found else ReasonCode.PENDING_EVALUATION.value
