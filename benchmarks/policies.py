"""The named policies of the benchmarks: documents as an administrator declares them, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from steelyard.model.policy import Policy
from steelyard.services.documents import parse_document
from steelyard.services.scheduling_rules import make_policy

_FILE = Path(__file__).with_name("policies.yaml")


def documents(name: str) -> list[dict[str, Any]]:
    """The profile's documents. Raises KeyError for a name that the file does not have."""
    known = yaml.safe_load(_FILE.read_text())
    made = _laid_over(known["base"], known["profiles"][name])
    classes = [_document("PriorityClass", each, spec) for each, spec in made["classes"].items()]
    return [*classes, _document("SchedulingPolicy", "default", made["scheduling"])]


def policy(name: str, version: int = 1) -> Policy:
    """What `decide` follows under the profile; queues declare nothing of their own."""
    return make_policy([parse_document(each) for each in documents(name)], version)


def told(name: str) -> str:
    """The profile in a line, for people."""
    known = yaml.safe_load(_FILE.read_text())
    return f"policy {name}: {_text(known['profiles'][name])}"


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = _laid_over(made[key], value) if both else value
    return made


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(each)}" for key, each in value.items()) + "}"
    return str(value)
