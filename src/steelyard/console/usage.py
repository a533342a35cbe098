"""Usage of a window: stacked areas that add up to the capacity, the sums below them, waits and counts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from steelyard.console.answers import HEADERS
from steelyard.console.serve import Page
from steelyard.console.usage_window import SPANS, Window, dated, shift_of, window_of
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError
from steelyard.model.units import HOUR, SECOND
from steelyard.reports.drawing.markup import Markup
from steelyard.reports.drawing.palette import IDLE, OTHER_STATES, holder_fills, legend, state_fill
from steelyard.reports.drawing.stacked import Layer, stacked
from steelyard.services import usage
from steelyard.services.usage import authorise_usage
from steelyard.services.usage_series import Amounts, ClassSeries, UsageSeries, usage_series

BY = ("project", "team", "kind", "queue", "namespace", "submitter", "environment", "cost_centre", "cluster")
#: Rows of the table of spans: this many spans of the picture each.
_JOINED = 6
_ORDER = ("gpu", "npu", "other", "cpu", "memory")
_UNIT = {"memory": 1024}
_OTHERS = "f-others"
_LAST = 2**62
_TYPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Line:
    """One layer: `amounts` by span. `share` is in per mille of the capacity."""

    label: str
    is_name: bool
    fill: str
    amounts: Amounts
    total: int
    share: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One class, real or simulated: its picture and what it sums to."""

    device_class: str
    simulated: bool
    lines: tuple[Line, ...]
    capacity: int
    picture: Markup
    legend: Markup
    spans: tuple[tuple[int, int, tuple[int, ...]], ...]

    @property
    def total(self) -> int:
        """The sum of the lines."""
        return sum(line.total for line in self.lines)


def usage_page(visit: Visit) -> Response:
    """The window that is asked for; what is no window is said above the form."""
    by = visit.asked("by") if visit.asked("by") in BY else "project"
    try:
        window = window_of(visit)
        found = _series(visit, window, by)
    except InvalidError as error:
        typed = [text if _TYPED.fullmatch(text) else "" for text in (visit.asked("from"), visit.asked("to"))]
        given = {"window": None, "found": None, "typed": typed, **_given(visit, by)}
        return visit.show("usage.html", 422, failed=said_of(visit, error), **given)
    panels = [_panel(visit, each, found) for each in sorted(found.classes, key=_place)]
    return visit.show(
        "usage.html",
        window=window,
        found=found,
        typed=window.given,
        failed=None,
        panels=panels,
        waits=_waits(found.waits),
        complete=_complete(found.classes),
        **_given(visit, by),
    )


def _series(visit: Visit, window: Window, by: str) -> UsageSeries:
    """As of now, or as of a moment ago where it takes long: the page says of which window it is."""
    seen = authorise_usage(visit.principal)
    start = None if window.span == "week" else window.start  # a week begins anew each moment
    key = (seen.projects, window.span, start, window.end, by)
    return visit.console.usage.get(
        key, lambda: usage_series(visit.console.store, visit.principal, window.start, window.end, by)
    )


def said_of(visit: Visit, error: InvalidError) -> str:
    """What is wrong with a window, with its instants on the reader's clock."""
    if error.code != "window-invalid":
        return visit.speech.error(error.code, error.params)
    start, end = (dated(int(error.params[name] or 0), visit.speech.zone) for name in ("start", "end"))
    return visit.speech.say("usage.window-invalid", start=start, end=end)


def _given(visit: Visit, by: str) -> dict[str, Any]:
    return {
        "by": by,
        "bys": [(name, visit.speech.say(f"usage.by.{name}")) for name in BY],
        "choices": [(name, visit.speech.say(f"usage.span.{name}")) for name in (*SPANS, "custom")],
        "product": lambda panel, amount: product(visit, panel.device_class, amount, panel.capacity),
        "permille": lambda value: f"{value // 10}.{value % 10} %",
        "mean": lambda device_class, amount, length: visit.speech.quantity(
            device_class, amount // max(1, length)
        ),
    }


def product(visit: Visit, device_class: str, amount: int, whole: int) -> str:
    """Quantity × time in the unit of the class times hours, cut to three places: `1.234 GPU·h`; times
    seconds where the whole is less than ten of these."""
    hour = _UNIT.get(device_class, 1000) * HOUR
    few = whole < 10 * hour
    thousandths = abs(amount) * 1000 // (_UNIT.get(device_class, 1000) * SECOND if few else hour)
    shown = f"{visit.speech.count(thousandths // 1000)}.{thousandths % 1000:03d}"
    code = f"usage.unit.{device_class}.seconds" if few else f"usage.unit.{device_class}"
    return visit.speech.say(code, amount=shown if amount >= 0 else f"−{shown}")


def _place(each: ClassSeries) -> tuple[bool, int]:
    return each.simulated, _ORDER.index(each.device_class)


def _panel(visit: Visit, each: ClassSeries, found: UsageSeries) -> Panel:
    capacity = sum(each.capacity)
    lines = tuple(_lines(visit, each, found, capacity))
    name = visit.speech.word("class", each.device_class)
    title = visit.speech.say("usage.picture", name=name)
    layers = [
        Layer(
            line.label,
            line.fill,
            _levels(found.marks, line.amounts),
            f"{line.label}: {product(visit, each.device_class, line.total, capacity)}",
        )
        for line in lines
    ]
    roof = _levels(found.marks, each.capacity)
    picture = stacked(
        layers, roof, found.window, each.device_class, title, shift_of(visit.speech.zone, found.window[0])
    )
    return Panel(
        each.device_class,
        each.simulated,
        lines,
        capacity,
        picture,
        legend({line.fill: line.label for line in lines if line.total}),
        tuple(_joined(found.marks, lines)),
    )


def _lines(visit: Visit, each: ClassSeries, found: UsageSeries, capacity: int) -> Iterable[Line]:
    """From the bottom up: holders, others, idle by cause, what was not there, what nobody knows."""
    names = sorted({key for series in found.classes for key in series.held if key is not None}, key=str)
    fills = holder_fills(names)
    for key, amounts in each.held.items():
        told = visit.speech.say("usage.unattributed") if key is None else _holder(visit, found.by, key)
        is_name = key is not None and found.by != "kind"
        yield _line(told, is_name, "f-h6" if key is None else fills[key], amounts, capacity)
    others = each.others
    if any(others):
        label = visit.speech.say("usage.missing" if found.whole else "usage.others")
        yield _line(label, False, _OTHERS, others, capacity)
    known = [state for state in (*IDLE, *OTHER_STATES) if state in each.unheld]
    for state in (*known, *(state for state in each.unheld if state not in known)):
        label = visit.speech.word("state", state)
        yield _line(label, False, state_fill(state), each.unheld[state], capacity)


def _holder(visit: Visit, by: str, key: str) -> str:
    return visit.speech.word("kind", key) if by == "kind" else key


def _line(label: str, is_name: bool, fill: str, amounts: Amounts, capacity: int) -> Line:
    total = sum(amounts)
    return Line(label, is_name, fill, amounts, total, 1000 * total // capacity if capacity else 0)


def _levels(marks: Sequence[int], amounts: Amounts) -> tuple[tuple[int, int, int], ...]:
    """The mean of each span, for the picture; sums stay sums."""
    spans = zip(marks, marks[1:], amounts, strict=False)
    return tuple((t0, t1, amount // max(1, t1 - t0)) for t0, t1, amount in spans)


def _joined(marks: Sequence[int], lines: Sequence[Line]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    """(t0, t1, sum of each line) of fewer and longer spans."""
    count = len(marks) - 1
    for first in range(0, count, _JOINED):
        last = min(first + _JOINED, count)
        yield marks[first], marks[last], tuple(sum(line.amounts[first:last]) for line in lines)


def _waits(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By reason; a workload that waited for two reasons counts for both."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = found.setdefault(row["reason"], {"reason": row["reason"], "time": 0, "count": 0})
        total["time"] += int(row["time"])
        total["count"] += row["count"]
    return sorted(found.values(), key=lambda row: -row["time"])


def _complete(classes: Iterable[ClassSeries]) -> bool:
    listed = list(classes)
    unknown = sum(sum(each.unheld.get("unknown", ())) for each in listed)
    return unknown * 1000 <= usage.UNKNOWN_PERMILLE * sum(sum(each.capacity) for each in listed)


def _report(visit: Visit) -> dict[str, Any]:
    """Of the very window of the page that led here, which is given in µs."""
    start, end = (_micros(visit, name) for name in ("start", "end"))
    by = visit.asked("by") if visit.asked("by") in BY else "project"
    return usage.report(visit.console.store, visit.principal, start, end, (by, "kind", "class"))


def _micros(visit: Visit, name: str) -> int | None:
    text = visit.asked(name, 20)
    if text and not (text.isascii() and text.isdecimal() and int(text) <= _LAST):
        raise InvalidError("instant-invalid", text=text)
    return int(text) if text else None


def usage_json(visit: Visit) -> Response:
    """The report as the API gives it, as a file."""
    return _file(msgspec.json.format(msgspec.json.encode(_report(visit))), "application/json", "json")


def usage_csv(visit: Visit) -> Response:
    """The report's sums as a table: integers, quantity × µs."""
    report = _report(visit)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["part", "class", "simulated", *report["by"][:-1], "state", "quantity_microseconds"])
    for row in report["rows"]:
        named = [_plain(row[name]) for name in report["by"][:-1]]
        for state, amount in row["by_state"].items():
            writer.writerow(["held", row["class"], _yes(row), *named, state, amount])
    blank = [""] * (len(report["by"]) - 1)
    for row in report["unheld"]:
        writer.writerow(["unheld", row["class"], _yes(row), *blank, row["state"], row["quantity_time"]])
    for row in report["capacity"]:
        writer.writerow(["capacity", row["class"], _yes(row), *blank, "", row["capacity_time"]])
    return _file(out.getvalue().encode(), "text/csv; charset=utf-8", "csv")


def _yes(row: Mapping[str, Any]) -> str:
    return "true" if row["simulated"] else "false"


def _plain(value: str | None) -> str:
    """Never a formula to a spreadsheet."""
    text = value or ""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _file(data: bytes, kind: str, ending: str) -> Response:
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="steelyard-usage.{ending}"'}
    return Response(data, media_type=kind, headers=headers)


PAGES = [
    Page("GET", "/usage", usage_page),
    Page("GET", "/usage/report.json", usage_json),
    Page("GET", "/usage/report.csv", usage_csv),
]
