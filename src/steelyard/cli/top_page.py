"""What `top` shows: devices' use, queues, running workloads, in the columns and lines there are.

Only characters of one column are drawn with, for bars of blocks are as wide as a terminal likes in Chinese.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.cli.amounts import ORDER
from steelyard.cli.session import Session
from steelyard.cli.tree import ordered
from steelyard.locale.plain import columns, cut, one_line, padded
from steelyard.locale.rendering import class_rank, format_time
from steelyard.model.units import format_duration, format_quantity

Json = Mapping[str, Any]
_BAR, _ROOMY = 20, 100
_LEAST = 40  # columns; a narrower window cuts lines
_BOLD, _GREEN, _YELLOW, _RED, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
_STYLES = {"head": _BOLD, "lost": _RED, "silent": _YELLOW}
_BUSY, _FULL = 700, 900  # permille: from where a bar changes its colour


@dataclass(frozen=True, slots=True)
class Reading:
    """What the server said at one time. `cut`: more workloads run than were read."""

    summary: Json
    queues: Sequence[Json]
    workloads: Sequence[Json]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The room there is. `height` None: as many lines as it takes. `notice`: why the reading is not new."""

    width: int
    height: int | None = None
    colour: bool = False
    notice: str | None = None


def draw(session: Session, reading: Reading, page: Page) -> list[str]:
    """The lines, none wider than the page."""
    width = max(page.width, _LEAST)
    parts = [
        (_devices_head(session, width), "bar", _devices(session, reading, width)),
        (_queues_head(session, width), "", _queues(session, reading, width)),
        (_workloads_head(session, width), "", _workloads(session, reading, width)),
    ]
    room = _rooms([len(rows) for _, _, rows in parts], page.height, taken=2 + 2 * len(parts) + 2)
    # (style, text)
    lines = [("", _headline(session, reading)), _notice(session, reading, page)]
    for (head, style, rows), most in zip(parts, room, strict=True):
        kept = rows if len(rows) <= most else rows[: max(most - 1, 0)]
        lines += [("head", head), *((style, row) for row in kept)]
        if not rows:
            lines.append(("", f"  {session.text('cli.top.none')}"))
        if len(rows) > len(kept):
            lines.append(("", f"  {session.text('notebook.more', count=len(rows) - len(kept))}"))
        lines.append(("", ""))
    shown = [(style, cut(text, page.width)) for style, text in lines[:-1]][: page.height]
    return [_coloured(style, text) if page.colour else text for style, text in shown]


def _rooms(wanted: list[int], height: int | None, taken: int) -> list[int]:
    """Lines for each part: a third each, and what one leaves to those that want more."""
    if height is None:
        return wanted
    left = max(height - taken, len(wanted))
    rooms = [min(want, max(left // len(wanted), 1)) for want in wanted]
    for index in reversed(range(len(wanted))):  # the workloads first
        rooms[index] += min(wanted[index] - rooms[index], max(left - sum(rooms), 0))
    return [max(room, 1) for room in rooms]


def _headline(session: Session, reading: Reading) -> str:
    at = format_time(reading.summary.get("as_of"))
    pending, running = (
        sum(node.get(part) or 0 for node in reading.queues if node.get("kind") == "queue")
        for part in ("pending", "running")
    )
    return session.text("cli.top.head", at=at, pending=pending, running=running)


def _notice(session: Session, reading: Reading, page: Page) -> tuple[str, str]:
    if page.notice is not None:
        return "lost", f"! {one_line(page.notice)}"
    silent = [cluster["name"] for cluster in reading.summary["clusters"] if cluster["reachable"] is False]
    return "silent", f"! {session.text('cli.top.silent', names=', '.join(silent))}" if silent else ""


# --- devices --------------------------------------------------------------------------------------


def _devices_head(session: Session, width: int) -> str:
    return _device_line(
        width, session.text("cli.column.cluster"), session.text("cli.column.class"),
        session.text("cli.top.use"), "", session.text("cli.column.free"), session.text("cli.top.away"),
    )  # fmt: skip


def _devices(session: Session, reading: Reading, width: int) -> list[str]:
    rows = sorted(reading.summary["classes"], key=lambda row: (row["cluster"], class_rank(row["class"])))
    return [_device(session, row, width) for row in rows]


def _device(session: Session, row: Json, width: int) -> str:
    unit, capacity = row["class"], row["capacity"] or 0
    away = (row.get("unavailable") or 0) + (row.get("unknown") or 0)
    use = f"{_short(unit, row['held'])}/{_short(unit, row['capacity'])}"
    return _device_line(
        width, one_line(row["cluster"]) + session.simulated(row), session.word("class", unit), use,
        _bar(row["held"] or 0, away, capacity, _bar_of(width)), _short(unit, row["free"]),
        _short(unit, away) if away else "",
    )  # fmt: skip


def _short(unit: str, quantity: int | None) -> str:
    """A quantity in few columns: memory in whole GiB from 10 GiB on; the inventory has it exact."""
    if unit == "memory" and quantity is not None and quantity >= 10 * 1024:
        return f"{quantity // 1024} GiB"
    return format_quantity(unit, quantity)


def _device_line(width: int, cluster: str, kind: str, use: str, bar: str, free: str, away: str) -> str:
    cells = [padded(kind, 6), padded(use, 16, right=True), padded(bar, _bar_of(width) + 2)]
    cells += [padded(free, 8, right=True), padded(away, 8, right=True)]
    place = max(width - 2 - sum(map(columns, cells)) - len(cells), 4)
    return ("  " + " ".join([padded(cluster, place), *cells])).rstrip()


def _bar_of(width: int) -> int:
    """The columns of a bar: half a one where there is little room."""
    return _BAR if width >= _ROOMY else _BAR // 2


def _bar(held: int, away: int, capacity: int, width: int) -> str:
    """`[####..xx]`: held, free, away; a part that is there at all is seen."""
    if capacity <= 0:
        return ""
    full = min(max(held * width // capacity, 1 if held else 0), width)
    gone = min(max(away * width // capacity, 1 if away else 0), width - full)
    return f"[{'#' * full}{'.' * (width - full - gone)}{'x' * gone}]"


# --- queues ---------------------------------------------------------------------------------------


def _queues_head(session: Session, width: int) -> str:
    return _queue_line(
        width, session.text("cli.column.queue"), session.text("cli.column.pending"),
        session.text("cli.top.admitted"), session.text("cli.top.limits"),
    )  # fmt: skip


def _queues(session: Session, reading: Reading, width: int) -> list[str]:
    lines = []
    for depth, node in ordered(reading.queues):
        stopped = f" ({session.text('cli.queues.stopped')})" if node.get("stopped") else ""
        name = "  " * depth + one_line(node["name"]) + stopped
        limits = _limits(session, node)
        lines.append(_queue_line(width, name, node.get("pending"), node.get("running"), limits))
    return lines


def _queue_line(width: int, name: str, pending: object, running: object, limits: str) -> str:
    counts = [padded(str("–" if n is None else n), 9, right=True) for n in (pending, running)]
    return ("  " + " ".join([padded(name, max(width * 3 // 10, 8)), *counts, "", limits])).rstrip()


def _limits(session: Session, node: Json) -> str:
    """Use over limit, of classes alone: those of flavors are on the page of the queues."""
    told = []
    known = {limit["subject"]: limit for limit in node.get("limits") or ()}
    for subject in ORDER:
        limit = known.get(subject)
        if limit and limit.get("nominal") is not None:
            used, most = (format_quantity(subject, limit[part]) for part in ("used", "nominal"))
            told.append(f"{session.word('class', subject)} {used}/{most}")
    return "  ".join(told)


# --- workloads ------------------------------------------------------------------------------------


def _workloads_head(session: Session, width: int) -> str:
    name, project, requested, cluster = (
        session.text(f"cli.column.{part}") for part in ("name", "project", "requested", "cluster")
    )
    return _workload_line(width, name, project, requested, session.text("cli.top.ran"), cluster)


def _workloads(session: Session, reading: Reading, width: int) -> list[str]:
    now = reading.summary.get("as_of")
    lines = [_workload(session, row, now, width) for row in by_use(reading.workloads)]
    return [*lines, f"  {session.text('cli.top.newest', count=len(lines))}"] if reading.cut else lines


def by_use(workloads: Sequence[Json]) -> list[Json]:
    """What takes most first, accelerators before cores; of equals the one that has run longest."""

    def rank(row: Json) -> tuple[Any, ...]:
        asked = row.get("requested") or {}
        return (*(-(asked.get(name) or 0) for name in ORDER), row.get("started_at") or 0, row["id"])

    return sorted(workloads, key=rank)


def _workload(session: Session, row: Json, now: int | None, width: int) -> str:
    since = row.get("started_at")
    ran = format_duration(max(now - since, 0)) if now is not None and since is not None else "–"
    place = one_line(row.get("cluster") or "–") + session.simulated(row)
    asked = _asked(session, row.get("requested") or {})
    return _workload_line(width, one_line(row["name"]), one_line(row["project"]), asked, ran, place)


def _asked(session: Session, requested: Mapping[str, int]) -> str:
    """`4 GPU 8 CPU 64 GiB`: memory is known by its unit."""
    told = []
    for name in sorted(requested, key=class_rank):
        word = "" if name == "memory" else f" {session.word('class', name)}"
        told.append(f"{_short(name, requested[name])}{word}")
    return "  ".join(told) or "–"


def _workload_line(width: int, name: str, project: str, asked: str, ran: str, place: str) -> str:
    room = width - 2 - 4 - 8
    name_room, project_room, place_room = room * 32 // 100, room * 15 // 100, room * 21 // 100
    cells = [padded(name, name_room), padded(project, project_room)]
    cells += [padded(asked, room - name_room - project_room - place_room), padded(ran, 8, right=True)]
    return ("  " + " ".join([*cells, cut(place, place_room)])).rstrip()


# --- colour ---------------------------------------------------------------------------------------


def _coloured(style: str, text: str) -> str:
    if style in _STYLES and text:
        return f"{_STYLES[style]}{text}{_PLAIN}"
    before, bracket, rest = text.rpartition("[#")
    if style == "bar" and bracket:
        full = 1 + len(rest) - len(rest.lstrip("#"))
        share = full * 1000 // max(rest.find("]") + 1, 1)
        shade = _RED if share >= _FULL else _YELLOW if share >= _BUSY else _GREEN
        return f"{before}[{shade}{'#' * full}{_PLAIN}{rest[full - 1 :]}"
    return text
