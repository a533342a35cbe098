"""The story's documents: read from YAML beside this file, with what only the running story knows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from importlib import resources
from string import Template
from typing import Any

import yaml

from steelyard.demo.expect import Json

#: In the order in which they are applied.
DECLARED = ("pool", "organisation", "policy")


@cache
def _read(name: str) -> tuple[Json, ...]:
    text = resources.files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return tuple(yaml.safe_load_all(text))


def declared() -> list[Json]:
    """All declared objects of the story."""
    return [copy.deepcopy(document) for name in DECLARED for document in _read(name)]


def one(kind: str, name: str) -> Json:
    """One declared object. Raises KeyError."""
    for document in declared():
        if document["kind"] == kind and document["metadata"]["name"] == name:
            return document
    raise KeyError(f"{kind}/{name}")


def workload(name: str, values: Mapping[str, str]) -> Json:
    """A workload document with `$NAME` replaced in each of its texts. Raises KeyError."""
    for document in _read("workloads"):
        if document["metadata"]["name"] == name:
            filled: Json = _filled(document, values)
            return filled
    raise KeyError(name)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(values)
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    return value


def member(user: str, project: str) -> Json:
    """The binding that makes somebody a member of a project."""
    return {
        "kind": "Binding",
        "metadata": {"name": f"{user}-{project}"},
        "spec": {"user": user, "role": "member", "project": project},
    }
