"""Usage of a window: what was held by whom, what was not and why, who waited, what was refused.

Sums are quantity × µs as decimal text: milli-devices, milli-cores or MiB by class. What is simulated is
never summed with what is real.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from steelyard.evidence.usage import usage_rows
from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.resources import Availability
from steelyard.model.units import wide_to_json
from steelyard.services.ledger import (
    OpenSegments,
    Window,
    open_segments,
    open_waits,
)
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.workloads import account_names

Json = dict[str, Any]
Sums = dict[tuple[Any, ...], int]
NOUN = "usage"
POOL = "pool"
EXTERNAL = "external-to-platform"  # why it has no owner (metering.md 3b)
DIMENSIONS = (*repository.DIMENSIONS, POOL)
DEFAULT_BY = ("project", "kind", "class")
#: Of the capacity that may be unknown in a report that calls itself complete (CK13).
UNKNOWN_PERMILLE = 10
_COLUMN = {"class": "device_class"}


def report(
    store: Store,
    principal: Principal,
    start: int | None = None,
    end: int | None = None,
    by: Sequence[str] = DEFAULT_BY,
) -> Json:
    """The answer of /v1/usage. `end` None: now; later than now is cut at now.

    Raises InvalidError `dimension-unknown`, `window-invalid`.
    """
    seen = authorise_usage(principal)
    dimensions = _dimensions(by)
    now = store.now()
    with store.read() as view:
        return report_in(view, seen, usage_window(view, start, end, now), dimensions)


def report_in(view: View, seen: Scope, window: Window, by: Sequence[str]) -> Json:
    """The same within a read view and a scope, for a window that has ended."""
    dimensions = _dimensions(by)
    opened = open_segments(view, seen, window[1])
    held = _held(view, seen, window, dimensions, opened)
    unheld = _added(repository.unheld_sums(view, window), opened.unheld, window, ("state",))
    strangers = (row for row in opened.unheld if row["reason"] == repository.UNOWNED)
    unowned = _added(repository.unowned_sums(view, window), strangers, window, ())
    capacity = _added(repository.capacity_sums(view, window), opened.capacity, window, (), "capacity")
    return {
        "from": window[0],
        "to": window[1],
        "by": list(dimensions),
        "rows": _named(view, [_row(dimensions, key, states) for key, states in _sorted(held)]),
        "unheld": [
            {"class": cls, "simulated": simulated, "state": state, "quantity_time": wide_to_json(amount)}
            for (cls, simulated, state), amount in _sorted(unheld)
        ],
        "unattributed": [  # of what is unavailable: used by somebody whom no workload owns
            {
                "class": cls, "simulated": simulated, "reason": EXTERNAL,
                "quantity_time": wide_to_json(amount),
            }
            for (cls, simulated), amount in _sorted(unowned)
        ],
        "capacity": [
            {"class": cls, "simulated": simulated, "capacity_time": wide_to_json(amount)}
            for (cls, simulated), amount in _sorted(capacity)
        ],
        "waits": waits(view, seen, window),
        "counts": counts(view, seen, window),
        "complete": _complete(unheld, capacity),
        "closes": closes(view, window),
    }


def authorise_usage(principal: Principal) -> Scope:
    """What of the usage the principal may see. A member asks for what its projects used; without any
    project there is nothing to ask for: raises ForbiddenError."""
    seen = scope(principal, Verb.VIEW, NOUN)
    authorise(principal, Verb.VIEW, NOUN, min(seen.projects) if seen.projects else None)
    return seen


def _dimensions(by: Sequence[str]) -> tuple[str, ...]:
    for name in by:
        if name not in DIMENSIONS:
            raise InvalidError("dimension-unknown", name=name[:60], known=", ".join(DIMENSIONS))
    return tuple(dict.fromkeys(by))


def usage_window(view: View, start: int | None, end: int | None, now: int) -> Window:
    """The window meant: from the first device on, until now. Raises InvalidError `window-invalid`."""
    last = now if end is None else min(end, now)
    first = start
    if first is None:
        known = repository.first_instant(view)
        first = min(last - 1 if known is None else known, last - 1)  # never empty, also in a new house
    if first > last or (end is not None and start is not None and start >= end):
        raise InvalidError("window-invalid", start=first, end=last if end is None else end)
    return first, last


def _sorted(sums: Mapping[tuple[Any, ...], Any]) -> list[tuple[tuple[Any, ...], Any]]:
    return sorted(sums.items(), key=lambda item: [str(part) for part in item[0]])


def _held(
    view: View, seen: Scope, window: Window, by: tuple[str, ...], opened: OpenSegments
) -> dict[tuple[Any, ...], dict[str, int]]:
    """(`by` values…, simulated) → state → quantity × µs."""
    columns = [_COLUMN.get(name, name) for name in by]
    held: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    rows: Iterable[Record] = opened.holding
    if POOL in by:
        rows = _pooled(view, chain(repository.holding_rows(view, seen, window), opened.holding))
    else:
        for key, amount in repository.held_sums(view, seen, window, by).items():
            held[(*key[:-2], bool(key[-2]))][key[-1]] += amount
    for row in usage_rows(rows, window, columns):
        key = (*(row[name] for name in columns), row["simulated"])
        for state, amount in row["by_state"].items():
            held[key][state] += amount
    return held


def _pooled(view: View, rows: Iterable[Record]) -> Iterator[Record]:
    """Rows cut where their device moved to another pool. One at a time: there may be millions."""
    pools = repository.pool_history(view)
    for row in rows:
        at = row["t0"]
        for start, end, pool in pools.get(row["device_id"], ()):
            t0, t1 = max(at, start), row["t1"] if end is None else min(row["t1"], end)
            if t0 >= t1:
                continue
            if at < t0:
                yield {**row, "t0": at, "t1": t0, POOL: None}
            yield {**row, "t0": t0, "t1": t1, POOL: pool}
            at = t1
        if at < row["t1"]:
            yield {**row, "t0": at, POOL: None}


def _row(by: tuple[str, ...], key: tuple[Any, ...], states: Mapping[str, int]) -> Json:
    return {
        **dict(zip(by, key, strict=False)),
        "simulated": key[-1],
        "held": wide_to_json(sum(states.values())),
        "by_state": {state: wide_to_json(amount) for state, amount in sorted(states.items()) if amount},
    }


def _named(view: View, rows: list[Json]) -> list[Json]:
    """Submitters by name, where they have an account."""
    names = account_names(view, [row["submitter"] for row in rows if row.get("submitter")])
    for row in rows:
        if row.get("submitter") in names:
            row["submitter"] = names[row["submitter"]]
    return rows


def _added(
    sums: Sums, rows: Iterable[Record], window: Window, more: tuple[str, ...], quantity: str = "quantity"
) -> Sums:
    """Sums of what is stored with the open segments added."""
    total = {(key[0], bool(key[1]), *key[2:]): amount for key, amount in sums.items()}
    for row in rows:
        length = min(row["t1"], window[1]) - max(row["t0"], window[0])
        if length > 0:
            key = (row["device_class"], bool(row["simulated"]), *(row[name] for name in more))
            total[key] = total.get(key, 0) + length * row[quantity]
    return total


def waits(view: View, seen: Scope, window: Window) -> list[Json]:
    """Who waited how long for what, by project, kind and reason."""
    times: dict[tuple[str, str, str], int] = defaultdict(int)
    numbers: dict[tuple[str, str, str], int] = defaultdict(int)
    for key, (time, number) in repository.wait_sums(view, seen, window).items():
        times[key], numbers[key] = time, number
    opened = open_waits(view, seen, window[1])
    counted = repository.waited(view, {row["workload_id"] for row in opened}, window)
    for row in opened:
        length = min(row["t1"], window[1]) - max(row["t0"], window[0])
        if length > 0:
            key = (row["project"], row["kind"], row["reason"])
            times[key] += length
            if (row["workload_id"], row["reason"]) not in counted:
                counted.add((row["workload_id"], row["reason"]))
                numbers[key] += 1
    return [
        {
            "project": key[0],
            "kind": key[1],
            "reason": key[2],
            "time": wide_to_json(times[key]),
            "count": numbers[key],
        }
        for key in sorted(times)
    ]


def counts(view: View, seen: Scope, window: Window) -> Json:
    """Requests of the window, what finished in it by outcome, what was live at its end."""
    found = repository.count_workloads(view, seen, window)
    return {
        "submitted": found["taken"] + found["refused"],
        "refused": found["refused"],
        "finished": dict(sorted(found["finished"].items())),
        "live": found["live"],
    }


def _complete(unheld: Sums, capacity: Sums) -> bool:
    """Whether so little is unknown that the report may call itself complete."""
    total = sum(capacity.values())
    unknown = sum(amount for key, amount in unheld.items() if key[2] == Availability.UNKNOWN)
    return unknown * 1000 <= total * UNKNOWN_PERMILLE


def closes(view: View, window: Window, whole: OpenSegments | None = None) -> bool:
    """CK1 for the window: of each device, held + unheld = capacity × time, exactly. Of the whole house,
    whoever asks: only the answer is told. `whole`: everybody's open segments, where they are at hand."""
    left = repository.device_sums(view, window)
    opened = whole or open_segments(view, Scope.system(), window[1])
    parts = (
        (opened.capacity, "capacity", 1),
        (opened.unheld, "quantity", -1),
        (opened.holding, "quantity", -1),
    )
    for rows, quantity, sign in parts:
        for row in rows:
            length = min(row["t1"], window[1]) - max(row["t0"], window[0])
            if length > 0 and row["device_id"] is not None:
                left[row["device_id"]] = left.get(row["device_id"], 0) + sign * length * row[quantity]
    return not any(left.values())
