"""Levels of topology, declared once, from far to near: what requests may name, and which nodes lack them.

Where none are declared, a request may name the key of any node label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from steelyard.model.errors import InvalidError
from steelyard.model.workloads import Topology
from steelyard.services.documents import stored_document
from steelyard.services.kinds import Kind
from steelyard.services.scheduling_spec import SCHEDULING_NAME, SchedulingPolicySpec
from steelyard.store.closings import node_labels
from steelyard.store.database import View
from steelyard.store.live import declared_current

MOST_SHOWN = 8
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Lacking:
    """Nodes without the label of a level: they are in no domain of it."""

    level: str
    count: int
    nodes: tuple[str, ...]  # the first by cluster and name


def load_levels(view: View) -> tuple[str, ...]:
    """Those in force, from far to near; empty where none are declared."""
    body = declared_current(view, Kind.SCHEDULING_POLICY.value).get(SCHEDULING_NAME)
    if body is None:
        return ()
    spec = stored_document(Kind.SCHEDULING_POLICY.value, SCHEDULING_NAME, {}, _decode(body)).spec
    assert isinstance(spec, SchedulingPolicySpec)
    return spec.levels


def check_levels(topology: Topology | None, levels: Sequence[str]) -> None:
    """Raises InvalidError `topology-level-unknown` with the levels that there are, and `topology-level-order`
    where what is preferred is not nearer than what is required."""
    if topology is None or not levels:
        return
    for name, level in (("required", topology.required), ("preferred", topology.preferred)):
        if level is not None and level not in levels:
            raise InvalidError(
                "topology-level-unknown", path=f"spec.topology.{name}", level=level[:100],
                known=", ".join(levels)[:300],
            )  # fmt: skip
    outer, inner = topology.required, topology.preferred
    if outer is not None and inner is not None and levels.index(inner) <= levels.index(outer):
        raise InvalidError(
            "topology-level-order", path="spec.topology.preferred", level=inner, outer=outer,
            known=", ".join(levels)[:300],
        )  # fmt: skip


def lacking(view: View) -> list[Lacking]:
    """For each declared level that some node has no label of, from far to near."""
    levels = load_levels(view)
    if not levels:
        return []
    nodes = [(f"{row['cluster']}/{row['name']}", _decode(row["labels_json"])) for row in node_labels(view)]
    found = []
    for level in levels:
        without = [name for name, labels in nodes if level not in labels]
        if without:
            found.append(Lacking(level, len(without), tuple(without[:MOST_SHOWN])))
    return found
