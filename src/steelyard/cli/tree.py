"""Trees of nodes with a parent each, as they are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def ordered(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """(depth, node), each below its parent; nodes whose parent is not shown stand at the top."""
    names = {_name(node) for node in nodes}
    below: dict[str | None, list[Mapping[str, Any]]] = {}
    for node in nodes:
        below.setdefault(node.get("parent") if node.get("parent") in names else None, []).append(node)
    found: list[tuple[int, Mapping[str, Any]]] = []
    waiting = [(0, node) for node in reversed(below.get(None, []))]
    while waiting:
        depth, node = waiting.pop()
        found.append((depth, node))
        waiting += [(depth + 1, child) for child in reversed(below.pop(_name(node), []))]
    return found


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("node") or node["name"])
