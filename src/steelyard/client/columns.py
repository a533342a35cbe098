"""What each kind of answer shows of itself: columns of a list, and the few words of one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from steelyard import locale
from steelyard.locale.rendering import amounts, class_rank, format_time
from steelyard.model.units import HOUR, SECOND, format_duration, format_quantity

Row: TypeAlias = Mapping[str, Any]
#: The text of a cell: of a row, in a language. What is missing is a dash.
Show: TypeAlias = Callable[[Row, str], object]


@dataclass(frozen=True, slots=True)
class Noun:
    """`one`: the noun of a row of a list. `rows`: the key of the table that a single answer is about."""

    columns: tuple[tuple[str, Show], ...]
    brief: tuple[Show, ...] = ()
    one: str = ""
    rows: str = ""


def key(name: str) -> Show:
    """The value itself."""
    return lambda row, lang: row.get(name)


def word(kind: str, name: str) -> Show:
    """A value of a closed list."""
    return lambda row, lang: locale.word(kind, row.get(name), lang)


def at(name: str) -> Show:
    """An instant."""
    return lambda row, lang: format_time(row.get(name))


def quantity(name: str) -> Show:
    """A quantity of the row's class."""
    return lambda row, lang: format_quantity(row.get("class") or "other", row.get(name))


def requested(name: str) -> Show:
    """Quantities by class."""
    return lambda row, lang: amounts(row.get(name), lang)


def place(row: Row, lang: str) -> str | None:
    """The cluster, with a mark where it is simulated."""
    name = row.get("cluster") or row.get("name")
    mark = f" [{locale.text('cli.simulated', None, lang)}]" if row.get("simulated") else ""
    return f"{name}{mark}" if name else None


def state(row: Row, lang: str) -> str:
    """Phase, or how it ended."""
    if row["phase"] == "finished" and row["outcome"]:
        return locale.word("outcome", row["outcome"], lang)
    shown = locale.word("phase", row["phase"], lang)
    return f"{shown} ({locale.word('sub-stage', row['sub_stage'], lang)})" if row.get("sub_stage") else shown


def why(row: Row, lang: str) -> str | None:
    """What it waits for, or why it failed."""
    verdict = row.get("verdict")
    if verdict and row.get("outcome") not in (None, "succeeded"):
        return locale.verdict_cause(verdict, lang)
    reason = row.get("first_reason")
    return sentence(reason, lang) if reason else None


def sentence(reason: Row, lang: str) -> str:
    """A reason: made here where its code is known, else the server's."""
    if locale.has(f"reason.{reason.get('code')}"):
        return locale.reason_text(reason, lang)
    return str(reason.get("text") or reason["code"])


def first_reason(row: Row, lang: str) -> str | None:
    """The binding reason."""
    return sentence(row["reasons"][0], lang) if row.get("reasons") else None


def device_state(row: Row, lang: str) -> str:
    """Whether it is free, held or away, and why."""
    shown = locale.word("state", row["state"], lang)
    return f"{shown} ({locale.word('unavailable', row['reason'], lang)})" if row.get("reason") else shown


def holders(row: Row, lang: str) -> str:
    """Who holds it; `…` for what the reader may not see."""
    names = (one.get("name") or one.get("workload") or "…" for one in row.get("holders") or ())
    return _comma(lang).join(map(str, names))


def devices_of(row: Row, lang: str) -> str:
    """Of a node: free and whole by class."""
    sums: dict[str, list[int]] = {}
    for device in row.get("devices") or ():
        entry = sums.setdefault(device["class"], [0, 0])
        entry[0] += device["free"] or 0
        entry[1] += device["capacity"] or 0
    shown = []
    for name in sorted(sums, key=class_rank):
        free, whole = (format_quantity(name, value) for value in sums[name])
        shown.append(f"{locale.word('class', name, lang)} {free}/{whole}")
    return _comma(lang).join(shown)


def _comma(lang: str) -> str:
    return locale.text("reason.comma", None, lang)


def limits_of(part: str) -> Show:
    """Of a queue or a quota: use over limit by class."""

    def show(row: Row, lang: str) -> str:
        told = []
        for limit in row.get("limits") or ():
            if limit.get(part) is not None:
                unit = limit.get("class") or limit["subject"].rpartition("/")[2]
                used, most = (format_quantity(unit, limit.get(name)) for name in ("used", part))
                told.append(f"{locale.word('class', limit['subject'], lang)} {used}/{most}")
        return _comma(lang).join(told)

    return show


def window(row: Row, lang: str) -> str:
    """`[from, to)`."""
    return f"{format_time(row.get('from'))} – {format_time(row.get('to'))}"


def held(row: Row, lang: str) -> str:
    """Quantity × time in hours; of memory GiB·h. The exact product is the value itself."""
    memory = row.get("class") == "memory"
    whole, unit = (1024, "GiB·") if memory else (1000, "")
    product = int(row["held"])
    span, name = (HOUR, "h") if product >= whole * HOUR // 10 else (SECOND, "s")
    thousandths = product * 1000 // (whole * span)
    return f"{thousandths // 1000}.{thousandths % 1000:03d} {unit}{name}"


def cause(row: Row, lang: str) -> str:
    """Of a group of failures: what happened."""
    return locale.verdict_cause(row["verdict"], lang)


def metadata(name: str) -> Show:
    """Of a declared object."""
    return lambda row, lang: row["metadata"].get(name)


def code(row: Row, lang: str) -> str:
    """The decision in a word."""
    return locale.text("cli.explain.decision", {"decision": row["decision"]}, lang)


_WORKLOAD: tuple[tuple[str, Show], ...] = (
    ("id", key("id")), ("name", key("name")), ("project", key("project")), ("kind", word("kind", "kind")),
    ("state", state), ("requested", requested("requested")), ("submitted", at("submitted_at")),
    ("cluster", lambda row, lang: place(row, lang) if row.get("cluster") else None), ("why", why),
)  # fmt: skip
_DEVICE: tuple[tuple[str, Show], ...] = (
    ("id", key("id")), ("uid", key("uid")), ("cluster", place), ("node", key("node")),
    ("class", word("class", "class")), ("model", key("model")), ("capacity", quantity("capacity")),
    ("free", quantity("free")), ("state", device_state), ("holders", holders),
)  # fmt: skip
_NODE: tuple[tuple[str, Show], ...] = (
    ("cluster", place), ("node", key("name")), ("state", word("availability", "availability")),
    ("free", devices_of),
)  # fmt: skip
_TREE: tuple[tuple[str, Show], ...] = (
    ("name", key("name")), ("kind", word("scope", "kind")), ("pending", key("pending")),
    ("running", key("running")),
)  # fmt: skip
_QUEUE = (*_TREE, ("nominal", limits_of("nominal")))
_QUOTA = (*_TREE, ("hard", limits_of("hard")))
_DECLARED: tuple[tuple[str, Show], ...] = (
    ("kind", key("kind")), ("name", metadata("name")), ("version", metadata("version")),
)  # fmt: skip
_USAGE: tuple[tuple[str, Show], ...] = (
    ("project", key("project")), ("kind", word("kind", "kind")), ("class", word("class", "class")),
    ("held-time", held), ("simulated", lambda row, lang: "✓" if row.get("simulated") else None),
)  # fmt: skip
_SUMMARY: tuple[tuple[str, Show], ...] = (
    ("cluster", place), ("class", word("class", "class")),
    *((part, quantity(part)) for part in ("capacity", "held", "free", "unavailable", "unknown")),
)  # fmt: skip
_FAILURES: tuple[tuple[str, Show], ...] = (
    ("count", key("count")), ("lost", lambda row, lang: format_duration(row.get("lost_time"))),
    ("failure", cause), ("last", at("last_at")),
)  # fmt: skip

NOUNS: dict[str, Noun] = {
    "workloads": Noun(_WORKLOAD, one="workload"),
    "workload": Noun(
        (*_WORKLOAD, ("queue", key("queue")), ("submitter", key("submitter"))),
        (key("id"), key("name"), state, requested("requested"), why),
    ),
    "explanation": Noun((("state", code), ("why", first_reason)), (code, first_reason)),
    "nodes": Noun(_NODE, one="node"),
    "node": Noun(_DEVICE, (key("name"), place, devices_of), rows="devices"),
    "device": Noun(_DEVICE, (key("id"), key("uid"), key("model"), device_state, holders)),
    "queues": Noun(_QUEUE, one="queue"),
    "queue": Noun(_QUEUE, (key("name"), limits_of("nominal"))),
    "quotas": Noun(_QUOTA, one="quota"),
    "quota": Noun(_QUOTA, (key("name"), limits_of("hard"))),
    "usage": Noun(_USAGE, (window,), rows="rows"),
    "summary": Noun(_SUMMARY, (at("as_of"),), rows="classes"),
    "failures": Noun(_FAILURES, (window, key("failures")), rows="items"),
    "objects": Noun(_DECLARED, one="object"),
    "object": Noun(_DECLARED, (key("kind"), metadata("name"))),
    "refusals": Noun(
        (("id", key("id")), ("at", at("at")), ("project", key("project")), ("name", key("name")),
         ("requested", requested("asked")), ("why", first_reason)),
    ),
    "users": Noun((("name", key("name")), ("display-name", key("display_name")))),
    "tokens": Noun((("id", key("id")), ("name", key("name")), ("user", key("user")))),
    "releases": Noun(
        (("id", key("id")), ("workload", key("workload")), ("state", word("release-state", "state"))),
    ),
    "cycles": Noun((("id", key("id")), ("at", at("at")))),
    "results": Noun((("kind", key("kind")), ("name", key("name")), ("action", key("action")))),
}  # fmt: skip
