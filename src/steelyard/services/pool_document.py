"""How a pool's document is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steelyard.model.errors import InvalidError
from steelyard.model.organisation import Scope
from steelyard.model.pools import Purpose
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import WorkloadKind
from steelyard.services.pool_spec import (
    AdmissionRules,
    FitSpec,
    FlavorSpec,
    OperationsSpec,
    PoolSpec,
    Values,
)
from steelyard.services.reading import DocumentReader, check_label_key, shown

MAX_FLAVORS = 64
MAX_VALUES = 64
MAX_NODES = 20_000
MAX_ABOUT = 1000
#: In place of names that a reader may not see.
HIDDEN = "…"


def read_pool(reader: DocumentReader) -> PoolSpec:
    """A pool's spec. Raises InvalidError."""
    selector = reader.reader("selector")
    labels = selector.labels()
    selector.finish()
    lending = reader.reader("lending")
    lends_to = lending.names("to", 64)
    lending.finish()
    return PoolSpec(
        cluster=reader.name("cluster"),
        selector=labels,
        flavors=_flavors(reader),
        purpose=reader.choice("purpose", Purpose, Purpose.GENERAL),
        owner=reader.optional_text("owner"),
        about=reader.optional_text("about", limit=MAX_ABOUT),
        on_call=reader.optional_text("onCall"),
        environment=read_values(reader, "environment"),
        fit=tuple(_fit(inner) for inner in reader.readers("fit", len(DeviceClass))),
        admission=_admission(reader.reader("admission")),
        lends_to=lends_to,
        operations=tuple(_operations(inner) for inner in reader.readers("operations", len(DeviceClass))),
        nodes=_nodes(reader),
    )


def with_known_purpose(body: dict[str, Any]) -> dict[str, Any]:
    """A stored spec as it is read now: a purpose in free words, from before there was a list, says what the
    pool is about."""
    purpose = body.get("purpose")
    if not isinstance(purpose, str) or purpose in set(Purpose):
        return body
    return {**{key: value for key, value in body.items() if key != "purpose"}, "about": purpose}


def projects_in_sight(projects: Iterable[str], seen: Scope) -> list[str]:
    """Of the projects that a pool lets in those that a reader may see; a dash of dots for the others."""
    listed = list(projects)
    shown = [name for name in listed if seen.allows(name)]
    return shown if len(shown) == len(listed) else [*shown, HIDDEN]


def teams_in_sight(teams: Iterable[str], seen: Scope) -> list[str]:
    """Of the teams likewise: they are shown to who sees everything."""
    listed = list(teams)
    return listed if seen.projects is None or not listed else [HIDDEN]


def in_sight(body: dict[str, Any], seen: Scope) -> dict[str, Any]:
    """A pool's spec as a reader may see it."""
    rules = body.get("admission") or {}
    if seen.projects is None or not ({"projects", "teams"} & rules.keys()):
        return body
    shown = dict(rules)
    if "projects" in rules:
        shown["projects"] = projects_in_sight(rules["projects"], seen)
    if "teams" in rules:
        shown["teams"] = teams_in_sight(rules["teams"], seen)
    return {**body, "admission": shown}


def _flavors(reader: DocumentReader) -> tuple[FlavorSpec, ...]:
    flavors = []
    for inner in reader.readers("flavors", MAX_FLAVORS):
        flavor = FlavorSpec(
            inner.name("name"),
            inner.choice("class", DeviceClass),
            inner.optional_text("model", limit=63),
            inner.optional_text("family", limit=63),
        )
        inner.finish()
        flavors.append(flavor)
    names = [flavor.name for flavor in flavors]
    if len(set(names)) != len(names):
        raise InvalidError("field-invalid", path=reader.at("flavors"), expected="entries without doubles")
    return tuple(flavors)


def _fit(reader: DocumentReader) -> FitSpec:
    found = FitSpec(reader.choice("class", DeviceClass), read_values(reader, "needs"))
    if not found.needs:
        raise InvalidError("field-missing", path=reader.at("needs"))
    reader.finish()
    return found


def _admission(reader: DocumentReader) -> AdmissionRules:
    kinds = []
    for raw, path in reader.items("kinds", len(WorkloadKind)):
        if not isinstance(raw, str) or raw not in set(WorkloadKind):
            expected = " | ".join(kind.value for kind in WorkloadKind)
            raise InvalidError("field-invalid", path=path, expected=expected)
        kinds.append(WorkloadKind(raw))
    inner = reader.reader("maxPerRequest")
    most = [(cls, inner.optional_amount(cls.value, cls.value)) for cls in DeviceClass]
    inner.finish()
    found = AdmissionRules(
        tuple(dict.fromkeys(kinds)),
        reader.names("projects"),
        reader.names("teams"),
        reader.names("environments", 64),
        tuple((cls, amount) for cls, amount in most if amount is not None),
    )
    reader.finish()
    return found


def _operations(reader: DocumentReader) -> OperationsSpec:
    found = OperationsSpec(
        reader.choice("class", DeviceClass), reader.optional_text("owner"), reader.optional_text("onCall")
    )
    reader.finish()
    return found


def _nodes(reader: DocumentReader) -> tuple[str, ...] | None:
    if not reader.has("members"):
        return None
    inner = reader.reader("members")
    nodes = tuple(sorted(inner.texts("nodes", MAX_NODES)))
    inner.finish()
    return nodes


def read_values(reader: DocumentReader, key: str) -> Values:
    """Label key → one value or a list of them, sorted by key. Raises InvalidError."""
    inner = reader.reader(key)
    found = []
    for label in sorted(inner.left()):
        raw = inner.take(label)
        check_label_key(label, inner.at(shown(label)))
        one = DocumentReader({label: raw}, inner.path)
        values = one.texts(label, MAX_VALUES) if isinstance(raw, list) else (one.text(label),)
        if not values:
            raise InvalidError("field-missing", path=inner.at(label))
        found.append((label, values))
    inner.finish()
    return tuple(found)
