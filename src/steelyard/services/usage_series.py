"""Usage of a window over time: the same sums as `usage.report`, for each of many spans that tile the window.

Of each class: capacity = what the reader's projects held + idle + unavailable + unknown + what others held,
exactly, in every span. Quantities × µs: milli-devices, milli-cores or MiB by class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.model.errors import InvalidError
from steelyard.model.organisation import Principal, Scope
from steelyard.services.ledger import OpenSegments, open_segments
from steelyard.services.usage import authorise_usage, closes, counts, usage_window, waits
from steelyard.store import usage_series as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.usage import DIMENSIONS, first_instant
from steelyard.store.usage_series import Change, Spans
from steelyard.store.workloads import account_names

Json = dict[str, Any]
Amounts = tuple[int, ...]
SPANS = 72
_COLUMN = {"class": "device_class"}


@dataclass(frozen=True, slots=True)
class ClassSeries:
    """One class, real or simulated. Every tuple has one sum for each span."""

    device_class: str
    simulated: bool
    capacity: Amounts
    held: Mapping[str | None, Amounts]
    unheld: Mapping[str, Amounts]

    @property
    def others(self) -> Amounts:
        """What is left: held by others for who sees some projects only, else nothing, if the books close."""
        known = [*self.held.values(), *self.unheld.values()]
        return tuple(whole - sum(each[span] for each in known) for span, whole in enumerate(self.capacity))


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """`marks` are the borders of the spans. `whole`: the reader sees everybody's use. `since`: when the
    first device was registered, None before that."""

    window: tuple[int, int]
    by: str
    marks: Amounts
    classes: tuple[ClassSeries, ...]
    waits: Sequence[Json]
    counts: Json
    closes: bool
    whole: bool
    since: int | None


def usage_series(
    store: Store, principal: Principal, start: int | None, end: int | None, by: str, spans: int = SPANS
) -> UsageSeries:
    """The window, which begins with the first device at the earliest: before it there was nothing.

    Raises ForbiddenError, InvalidError `dimension-unknown`, `window-invalid`.
    """
    seen = authorise_usage(principal)
    if by not in DIMENSIONS:
        raise InvalidError("dimension-unknown", name=by[:60], known=", ".join(DIMENSIONS))
    now = store.now()
    with store.read() as view:
        since = first_instant(view)
        first, last = usage_window(view, start, end, now)
        if since is not None and first < since < last:
            first = since
        if first >= last:
            raise InvalidError("window-invalid", start=first, end=last)
        cut = Spans(first, last, -(-(last - first) // spans))
        marks = (*range(first, last, cut.width), last)
        opened = open_segments(view, seen, last)
        return UsageSeries(
            (first, last),
            by,
            marks,
            _classes(view, seen, cut, by, opened),
            waits(view, seen, (first, last)),
            counts(view, seen, (first, last)),
            closes(view, (first, last), opened if seen.projects is None else None),
            seen.projects is None,
            since,
        )


def _classes(view: View, seen: Scope, cut: Spans, by: str, opened: OpenSegments) -> tuple[ClassSeries, ...]:
    held = _sums(cut, repository.held_changes(view, seen, cut, (by,)), opened.holding, (_COLUMN.get(by, by),))
    if by == "submitter":
        held = _named(view, held)
    unheld = _sums(cut, repository.unheld_changes(view, cut), opened.unheld, ("state",))
    capacity = _capacity(view, cut, opened)
    found = []
    for (device_class, simulated), amounts in sorted(capacity.items()):
        key = (device_class, simulated)
        found.append(ClassSeries(device_class, simulated, amounts, _of(held, key), _of(unheld, key)))
    return tuple(found)


def _named(view: View, held: Mapping[tuple[Any, ...], Amounts]) -> dict[tuple[Any, ...], Amounts]:
    """Submitters by name, where they have an account."""
    names = account_names(view, [key[-1] for key in held if key[-1]])
    return {(*key[:-1], names.get(key[-1], key[-1])): amounts for key, amounts in held.items()}


def _of(sums: Mapping[tuple[Any, ...], Amounts], key: tuple[str, bool]) -> dict[Any, Amounts]:
    """What is of a class, by what is left of the keys."""
    chosen = {rest: amounts for (name, simulated, rest), amounts in sums.items() if (name, simulated) == key}
    return dict(sorted(chosen.items(), key=lambda item: str(item[0])))


def _capacity(view: View, cut: Spans, opened: OpenSegments) -> dict[tuple[Any, ...], Amounts]:
    rows = ({**row, "quantity": row["capacity"]} for row in opened.capacity)
    return _sums(cut, repository.capacity_changes(view, cut), rows, ())


def _sums(
    cut: Spans, changes: Iterable[Change], opened: Iterable[Record], more: tuple[str, ...]
) -> dict[tuple[Any, ...], Amounts]:
    """(class, simulated, `more`…) → quantity × µs in each span, of stored segments and of open ones."""
    level: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * (cut.count + 1))
    inside: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * (cut.count + 1))

    def change(key: tuple[Any, ...], sign: int, span: int, quantity: int, number: int, after: int) -> None:
        level[key][span] += sign * quantity * number
        inside[key][span] += sign * quantity * (number * cut.width - after)

    for each in changes:
        change((each.key[0], bool(each.key[1]), *each.key[2:]), *each[1:])
    for row in opened:
        t0, t1 = max(row["t0"], cut.start) - cut.start, min(row["t1"], cut.end) - cut.start
        if t0 < t1:
            key = (row["device_class"], bool(row["simulated"]), *(row[name] for name in more))
            change(key, 1, t0 // cut.width, row["quantity"], 1, t0 % cut.width)
            change(key, -1, t1 // cut.width, row["quantity"], 1, t1 % cut.width)
    return {key: _running(level[key], inside[key], cut) for key in level}


def _running(level: Sequence[int], inside: Sequence[int], cut: Spans) -> Amounts:
    found, at = [], 0
    for span in range(cut.count):
        found.append(at * cut.width + inside[span])
        at += level[span]
    return tuple(found)
