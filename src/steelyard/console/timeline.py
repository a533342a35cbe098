"""The history of one device as a line of events, made of its intervals: what changed, when, by whom, why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
#: Reasons of now that the spans of a device don't tell of: they are of its cluster, or of a part of it.
_OF_NOW = frozenset({"cluster-unreachable", "release-unconfirmed"})
KINDS = ("registration", "state", "health", "processes", "flag", "fact", "pool", "usage")


@dataclass(frozen=True, slots=True)
class Event:
    """`what` names the sentence; `before`, `after` are values of its kind; `row` is what it was made of."""

    at: int
    kind: str
    what: str
    before: Any = None
    after: Any = None
    by: str | None = None
    why: str | None = None
    row: Json | None = None


def timeline(device: Json) -> list[Event]:
    """Every event, the newest first."""
    parts = (_registration, _states, _conditions, _flags, _facts, _pools, _usage)
    events = [event for part in parts for event in part(device)]
    return sorted(events, key=lambda event: (-event.at, KINDS.index(event.kind)))


def _registration(device: Json) -> Iterator[Event]:
    yield Event(device["registered_at"], "registration", "registered")
    if device["retired_at"] is not None:
        yield Event(device["retired_at"], "registration", "retired")


def _states(device: Json) -> Iterator[Event]:
    """The end of each span is the beginning of the next; the last one is what holds now."""
    spans = sorted(device["availability_history"], key=lambda span: int(span["t0"]))
    states = [_state(span["availability"], span["reason"]) for span in spans]
    if spans and device["retired_at"] is None and device["reason"] not in _OF_NOW:
        unknown = "unknown" if device["state"] == "unknown" else "available"
        states.append(_state(unknown, device["reason"]))
    for span, before, after in zip(spans, states, states[1:], strict=False):
        if before != after:
            yield Event(span["t1"], "state", "state", before, after)


def _state(availability: str, reason: str | None) -> str:
    """Its reason, where it was not to be had."""
    return reason or availability


def _conditions(device: Json) -> Iterator[Event]:
    """Between two stored spans that do not touch, it was healthy and nobody was on it."""
    spans = sorted(device["health_history"], key=lambda span: int(span["valid_from"]))
    health, people = "healthy", ""
    for index, span in enumerate(spans):
        said = span["signs"][0] if span["signs"] else None
        if span["health"] != health:
            yield Event(span["valid_from"], "health", "health", health, span["health"], row=said)
        names = _people(span)
        if names != people:
            yield Event(span["valid_from"], "processes", "processes", people or None, names or None)
        health, people = span["health"], names
        following = spans[index + 1]["valid_from"] if index + 1 < len(spans) else None
        if span["valid_to"] is not None and span["valid_to"] != following:
            if health != "healthy":
                yield Event(span["valid_to"], "health", "health", health, "healthy")
            if people:
                yield Event(span["valid_to"], "processes", "processes", people, None)
            health, people = "healthy", ""


def _people(span: Json) -> str:
    found = [(one["name"] or "?", "?" if one["pid"] is None else one["pid"]) for one in span["processes"]]
    return ", ".join(f"{name} ({pid})" for name, pid in found)


def _flags(device: Json) -> Iterator[Event]:
    for flag in device["flag_history"]:
        yield Event(flag["since"], "flag", "set", None, flag["flag"], flag["by"], flag["reason"], flag)
        if flag["until"] is not None:
            lifted = (flag["lifted_by"], flag["lift_reason"])
            yield Event(flag["until"], "flag", "lifted", flag["flag"], None, *lifted, row=flag)


def _facts(device: Json) -> Iterator[Event]:
    """Changes; what came with the device is its registration."""
    by_key: dict[str, list[Json]] = defaultdict(list)
    for fact in device["facts"]:
        by_key[fact["key"]].append(fact)
    for key, versions in by_key.items():
        before: Json | None = None
        for fact in sorted(versions, key=lambda one: int(one["valid_from"])):
            if fact["valid_from"] > device["registered_at"]:
                touching = before is not None and before["valid_to"] == fact["valid_from"]
                value = before["value"] if before is not None and touching else None
                if value != fact["value"]:
                    yield Event(
                        fact["valid_from"], "fact", key, value, fact["value"], None, fact["source"], fact
                    )
            if before is not None and before["valid_to"] != fact["valid_from"]:
                yield Event(before["valid_to"], "fact", key, before["value"], None, row=before)
            before = fact
        if before is not None and before["valid_to"] not in (None, device["retired_at"]):
            yield Event(before["valid_to"], "fact", key, before["value"], None, row=before)


def _pools(device: Json) -> Iterator[Event]:
    spans = sorted(device["pools"], key=lambda span: int(span["valid_from"]))
    ends = {span["valid_to"]: span for span in spans if span["valid_to"] is not None}
    begins = {span["valid_from"]: span for span in spans}
    for at in sorted({*ends, *begins}):
        before, after = _pool(ends.get(at)), _pool(begins.get(at))
        if before != after:
            yield Event(at, "pool", "pool", before, after)


def _pool(span: Json | None) -> str | None:
    return None if span is None else f"{span['pool']}/{span['flavor']}"


def _usage(device: Json) -> Iterator[Event]:
    yield from _ends(device["former"])
    for holder in _by_workload(device["holders"]):
        yield Event(holder["since"], "usage", "taken", row=holder)


def _ends(former: Iterable[Json]) -> Iterator[Event]:
    for span in former:
        yield Event(span["t0"], "usage", "taken", row=span)
        yield Event(span["t1"], "usage", "given-back", row=span)


def _by_workload(holders: Iterable[Json]) -> list[Json]:
    """One entry for each workload, with all of its members."""
    found: dict[str | None, dict[str, Any]] = {}
    for holder in holders:
        known = found.setdefault(holder["workload"], {**holder, "quantity": 0})
        known["quantity"] += holder["quantity"]
    return list(found.values())
