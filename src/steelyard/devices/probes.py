"""How each family's state is asked, as data: vendor tools, their arguments, what the later steps need.

The file beside this module, `probes.yaml`, is the data; it names its own source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

from steelyard.model.errors import InvalidError

SUPPORTED_VERSION = 1


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a tool. `when`: `mig`, or None: always."""

    arguments: tuple[str, ...]
    when: str | None = None


@dataclass(frozen=True, slots=True)
class VendorTool:
    """A tool, and what is asked of it: the first question lists the devices."""

    name: str
    questions: tuple[Question, ...]
    libraries: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """Of one family. `runtime`: any of these paths is its runtime; `services`: see the data."""

    family: str
    tools: tuple[VendorTool, ...]
    modules: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    cdi: str | None = None
    services: frozenset[str] = frozenset()


def _tool(raw: Mapping[str, Any]) -> VendorTool:
    questions = tuple(
        Question(tuple(str(word) for word in one["arguments"]), one.get("when")) for one in raw["ask"]
    )
    return VendorTool(raw["tool"], questions, raw.get("libraries", ""))


def parse_probes(text: str) -> Mapping[str, Probe]:
    """The probes in `text`, by family. Raises InvalidError for another version."""
    raw = yaml.safe_load(text)
    if raw.get("version") != SUPPORTED_VERSION:
        raise InvalidError("catalogue-version", version=str(raw.get("version")), supported=SUPPORTED_VERSION)
    probes = {
        name: Probe(
            name,
            tuple(_tool(tool) for tool in body["tools"]),
            tuple(body.get("modules", ())),
            tuple(body.get("runtime", ())),
            body.get("cdi"),
            frozenset(body.get("services", ())),
        )
        for name, body in raw["families"].items()
    }
    return MappingProxyType(probes)


@lru_cache(maxsize=1)
def load_probes() -> Mapping[str, Probe]:
    """What this version ships, read once."""
    text = resources.files("steelyard.devices").joinpath("probes.yaml").read_text(encoding="utf-8")
    return parse_probes(text)
