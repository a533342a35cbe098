"""lscpu of util-linux (`-J`), flat or with entries nested under others.

Cores that are switched off count for nothing; on a machine that had them it is a sign that it has less than
it should (catalogue: cpu). arm64 may print no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import (
    DETAIL_LIMIT,
    Parsed,
    Problem,
    ProblemCode,
    Reading,
    incomplete,
    judged,
    kept,
)
from steelyard.devices.text import UnreadableError, at, json_in, known, whole
from steelyard.model.health import Health, Sign, SignCode, SignSource

FAMILY = "cpu"
TOOL = "lscpu"
NAME = "json"

_COUNTS = {
    "cpus": "cpu(s)",
    "sockets": "socket(s)",
    "cores_per_socket": "core(s) per socket",
    "threads_per_core": "thread(s) per core",
    "clusters": "cluster(s)",
    "numa_nodes": "numa node(s)",
}
_DEPTH = 8
_CPUS_MAX = 65_536


def _recognises(output: Output) -> bool:
    found = json_in(output)
    return found is not None and isinstance(at(found.value, "lscpu"), list)


def _fields(entries: object, depth: int = 0) -> Iterator[tuple[str, str | None]]:
    """(field in lower case, its data) of the entries and of those nested under them."""
    for entry in entries if isinstance(entries, list) and depth < _DEPTH else []:
        name, data = at(entry, "field"), at(entry, "data")
        if isinstance(name, str):
            yield name.strip().rstrip(":").lower(), data if isinstance(data, str) else None
        yield from _fields(at(entry, "children"), depth + 1)


def listed(text: str | None) -> int | None:
    """How many CPUs a list such as `0-47,96` names. Raises UnreadableError."""
    plain = known(text)
    if plain is None:
        return None
    count = 0
    for part in plain.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = whole(first), whole(last if dash else first)
        if begin is None or end is None or not begin <= end < _CPUS_MAX:
            raise UnreadableError(plain[:80])
        count += end - begin + 1
    return count


def _parse(output: Output) -> Parsed:
    found = json_in(output)
    entries = None if found is None else at(found.value, "lscpu")
    line = kept(json.dumps(entries, ensure_ascii=False)[:4_000])
    base = Reading(family=FAMILY, tool=TOOL, layout=NAME, complete=True, line=line)
    try:
        return Parsed(readings=(_reading(base, dict(_fields(entries))),))
    except UnreadableError:
        return Parsed((incomplete(base, line),), (Problem(ProblemCode.ROW_INCOMPLETE, line),))


def _reading(base: Reading, told: dict[str, str | None]) -> Reading:
    counts = {name: whole(told.get(key)) for name, key in _COUNTS.items()}
    off = told.get("off-line cpu(s) list")
    counts["cpus_online"] = listed(told.get("on-line cpu(s) list"))
    counts["cpus_offline"] = listed(off)
    other: dict[str, str | int] = {name: value for name, value in counts.items() if value is not None}
    for name, key in (("architecture", "architecture"), ("vendor", "vendor id")):
        text = known(told.get(key))
        if text is not None:
            other[name] = text[:80]
    model = known(told.get("model name"))
    reading = replace(base, model=None if model is None else model[:120], other=other)
    return judged(reading, _signs(counts["cpus_offline"], off))


def _signs(offline: int | None, text: str | None) -> Iterator[Sign]:
    if offline:
        detail = kept(text or "")[:DETAIL_LIMIT]
        yield Sign(SignCode.COMPUTE_OFF, Health.DEGRADED, SignSource.TOOL, detail, {"count": offline})


LAYOUTS = (Layout(FAMILY, TOOL, NAME, _recognises, _parse),)
