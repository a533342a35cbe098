"""What is known of the families beyond their names: tools, capabilities, models, Kubernetes, health signals.

The files beside this module are the data (`tools.yaml`, `capabilities.yaml`, `kubernetes.yaml`,
`signals.yaml`); each names its own source. What the catalogue holds for unconfirmed is loaded with that mark,
and every look-up leaves it out unless it is asked for: nothing is built on it by oversight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

import yaml

from steelyard.model.errors import InvalidError
from steelyard.model.health import Health, SignCode

SUPPORTED_VERSION = 1
ISOLATIONS = frozenset({"hardware", "software", "none"})
RESOURCE_KINDS = frozenset({
    "device", "count", "memory", "memory-percent", "cores-percent", "cores", "slice", "priority", "monitor",
})  # fmt: skip
LABEL_FACTS = frozenset({
    "model", "memory", "cards", "replicas", "sharing", "mig_strategy", "driver", "runtime", "architecture",
    "topology", "tiles",
})  # fmt: skip
FORMATS = frozenset({"csv", "json", "table", "key-value", "list", "lines"})
_VARYING = re.compile(r"<[A-Za-z]+>")
Raw = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KnownLayout:
    """A layout of a tool that can be read, and the command that prints it."""

    family: str
    tool: str
    name: str
    command: str
    format: str
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A command that exists and is not read, and why."""

    family: str
    tool: str
    command: str
    reason: str


@dataclass(frozen=True, slots=True)
class Capability:
    """One way in which a family has a capability. `isolation` is None where it has no meaning."""

    family: str
    word: str
    mode: str
    isolation: str | None
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part that a model may be cut into. `memory` in MiB, None where only its name is known."""

    name: str
    memory: int | None


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of models of the same build. `memory` in MiB."""

    family: str
    names: tuple[str, ...]
    memory: int | None
    parts: tuple[Part, ...]
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A name under which a Kubernetes node offers devices. `mib`: what one unit of memory is worth."""

    family: str
    name: str
    kind: str
    mib: int | None
    by: str | None
    when: str | None
    unconfirmed: bool

    def matches(self, name: str) -> bool:
        """Whether a resource's name is this one; the parts in <> vary."""
        parts = [re.escape(part) for part in _VARYING.split(self.name)]
        return re.fullmatch("[A-Za-z0-9-]+".join(parts), name[:200]) is not None


@dataclass(frozen=True, slots=True)
class LabelKey:
    """A label found on nodes, who writes it, and which fact of the family it tells (None: none is read)."""

    family: str
    key: str
    by: str
    tells: str | None
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class OnKubernetes:
    """How one family shows on Kubernetes."""

    resources: tuple[ResourceName, ...]
    labels: tuple[LabelKey, ...]
    runtime_class: str | None
    cdi: str | None
    drivers: tuple[str, ...]  # of dynamic resource allocation, the confirmed ones


@dataclass(frozen=True, slots=True)
class HealthSignal:
    """Something that speaks for a family's health. `reader` is None where nothing here reads it."""

    family: str
    signal: str
    reader: str | None
    sign: SignCode
    health: Health
    ignored: tuple[int, ...]
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """All four files."""

    layouts: tuple[KnownLayout, ...]
    unread: tuple[Unread, ...]
    words: Mapping[str, str]
    capabilities: tuple[Capability, ...]
    models: tuple[Model, ...]
    kubernetes: Mapping[str, OnKubernetes]
    signals: tuple[HealthSignal, ...]

    def can(self, family: str, word: str, *, unconfirmed: bool = False) -> tuple[Capability, ...]:
        """The ways in which a family has a capability; the unconfirmed ones only where asked for."""
        return tuple(
            one
            for one in self.capabilities
            if one.family == family and one.word == word and (unconfirmed or not one.unconfirmed)
        )

    def resource(self, name: str, *, unconfirmed: bool = False) -> tuple[ResourceName, ...]:
        """What a resource's name on a node may mean. More than one: it depends on who offers it."""
        return tuple(
            one
            for family in self.kubernetes.values()
            for one in family.resources
            if one.matches(name) and (unconfirmed or not one.unconfirmed)
        )


def _only(raw: Raw, needed: Iterable[str], allowed: Iterable[str], where: str) -> None:
    """Raises InvalidError for a key that is missing or not known."""
    amiss = (set(needed) - set(raw)) | (set(raw) - set(needed) - set(allowed))
    if amiss:
        raise InvalidError("catalogue-invalid", name=f"{where}: {', '.join(sorted(amiss))}"[:80])


def _among(value: str, words: Iterable[str], where: str) -> str:
    if value not in words:
        raise InvalidError("catalogue-invalid", name=f"{where}: {value}"[:80])
    return value


def _flag(raw: Raw) -> bool:
    return raw.get("unconfirmed") is True


def _document(text: str, *keys: str) -> Raw:
    raw: Raw = yaml.safe_load(text)
    if raw.get("version") != SUPPORTED_VERSION:
        raise InvalidError("catalogue-version", version=str(raw.get("version")), supported=SUPPORTED_VERSION)
    _only(raw, ("version", "source", "families", *keys), (), "document")
    return raw


def parse_tools(text: str) -> tuple[tuple[KnownLayout, ...], tuple[Unread, ...]]:
    """The layouts of `tools.yaml`, and the commands that are not read. Raises InvalidError."""
    layouts: list[KnownLayout] = []
    unread: list[Unread] = []
    for family, tools in _document(text)["families"].items():
        for tool, body in tools.items():
            _only(body, ("layouts",), ("unread",), tool)
            for name, one in body["layouts"].items():
                _only(one, ("command", "format"), ("unconfirmed",), name)
                form = _among(one["format"], FORMATS, name)
                layouts.append(KnownLayout(family, tool, name, one["command"], form, _flag(one)))
            for one in body.get("unread", ()):
                _only(one, ("command", "reason"), (), tool)
                unread.append(Unread(family, tool, one["command"], one["reason"]))
    return tuple(layouts), tuple(unread)


def parse_capabilities(text: str) -> tuple[Mapping[str, str], tuple[Capability, ...], tuple[Model, ...]]:
    """Words, capabilities and models of `capabilities.yaml`. Raises InvalidError."""
    raw = _document(text, "words", "models")
    words: Mapping[str, str] = MappingProxyType(raw["words"])
    found = []
    for family, capabilities in raw["families"].items():
        for word, ways in capabilities.items():
            _among(word, words, family)
            for way in ways:
                _only(way, ("mode",), ("isolation", "unconfirmed"), f"{family} {word}")
                isolation = way.get("isolation")
                if isolation is not None:
                    _among(isolation, ISOLATIONS, family)
                found.append(Capability(family, word, way["mode"], isolation, _flag(way)))
    models = tuple(_model(family, one) for family, many in raw["models"].items() for one in many)
    return words, tuple(found), models


def _model(family: str, raw: Raw) -> Model:
    _only(raw, ("names",), ("memory", "parts", "unconfirmed"), family)
    parts = []
    for part in raw.get("parts", ()):
        _only(part, ("name",), ("memory",), family)
        parts.append(Part(part["name"], part.get("memory")))
    return Model(family, tuple(raw["names"]), raw.get("memory"), tuple(parts), _flag(raw))


def parse_kubernetes(text: str) -> Mapping[str, OnKubernetes]:
    """What `kubernetes.yaml` has, by family. Raises InvalidError."""
    families = _document(text)["families"]
    return MappingProxyType({family: _on_kubernetes(family, body) for family, body in families.items()})


def _on_kubernetes(family: str, raw: Raw) -> OnKubernetes:
    _only(raw, ("resources", "labels"), ("runtime_class", "cdi", "dra"), family)
    labels = []
    for one in raw["labels"]:
        _only(one, ("key", "by"), ("tells", "unconfirmed"), family)
        tells = one.get("tells")
        if tells is not None:
            _among(tells, LABEL_FACTS, one["key"])
        labels.append(LabelKey(family, one["key"], one["by"], tells, _flag(one)))
    drivers = []
    for one in raw.get("dra", ()):
        _only(one, ("driver",), ("by", "unconfirmed"), family)
        drivers += [] if _flag(one) else [one["driver"]]
    names = tuple(_resource(family, one) for one in raw["resources"])
    return OnKubernetes(names, tuple(labels), raw.get("runtime_class"), raw.get("cdi"), tuple(drivers))


def _resource(family: str, raw: Raw) -> ResourceName:
    _only(raw, ("name", "kind"), ("mib", "by", "when", "unconfirmed"), family)
    kind = _among(raw["kind"], RESOURCE_KINDS, raw["name"])
    if (kind == "memory") != ("mib" in raw):
        raise InvalidError("catalogue-invalid", name=raw["name"][:80])
    return ResourceName(family, raw["name"], kind, raw.get("mib"), raw.get("by"), raw.get("when"), _flag(raw))


def parse_signals(text: str) -> tuple[HealthSignal, ...]:
    """The signals of `signals.yaml`; an unconfirmed one speaks for degraded at most. Raises InvalidError."""
    found = []
    for family, signals in _document(text)["families"].items():
        for raw in signals:
            _only(raw, ("signal", "sign", "health"), ("reader", "ignored", "unconfirmed"), family)
            sign = SignCode(_among(raw["sign"], {code.value for code in SignCode}, family))
            health = Health(_among(raw["health"], {one.value for one in Health}, family))
            if _flag(raw) and health is not Health.DEGRADED:
                raise InvalidError("catalogue-invalid", name=raw["signal"][:80])
            ignored = tuple(raw.get("ignored", ()))
            found.append(
                HealthSignal(family, raw["signal"], raw.get("reader"), sign, health, ignored, _flag(raw))
            )
    return tuple(found)


def _read(name: str, parse: Callable[[str], T]) -> T:
    return parse(resources.files("steelyard.devices").joinpath(name).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def load_facts() -> Facts:
    """What this version ships, read once."""
    layouts, unread = _read("tools.yaml", parse_tools)
    words, capabilities, models = _read("capabilities.yaml", parse_capabilities)
    kubernetes = _read("kubernetes.yaml", parse_kubernetes)
    signals = _read("signals.yaml", parse_signals)
    return Facts(layouts, unread, words, capabilities, models, kubernetes, signals)
