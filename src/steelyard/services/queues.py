"""The two quota trees as people see them: what a node owns, uses, may still be charged, could ever be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.model.policy import UNBOUNDED
from steelyard.scheduling.quota import QuotaTree, Usage, available, potential, shown

Json = dict[str, Any]
Counts = Mapping[str, Mapping[str, int]]  # node → phase → live workloads
_PENDING = ("held", "queued", "reserved")


def tree_views(tree: QuotaTree, usage: Usage, counts: Counts) -> list[Json]:
    """Every node, parents before children. `counts` are of the node's own workloads, not of those below."""
    names = sorted(tree.nodes, key=lambda name: (len(tree.path(name)), name))
    return [_node(tree, usage, counts, name) for name in names]


def _node(tree: QuotaTree, usage: Usage, counts: Counts, name: str) -> Json:
    node = tree.nodes[name]
    subjects = {subject for _, subject in tree.limits} | {
        subject for owner, subject in usage if owner == name
    }
    phases = counts.get(name, {})
    return {
        "name": name.partition("/")[2] if node.kind in ("team", "project", "namespace") else name,
        "node": name,
        "kind": node.kind,
        "parent": node.parent,
        "stopped": node.stopped,
        "limits": [_limit(tree, usage, name, subject) for subject in sorted(subjects)],
        "pending": sum(phases.get(phase, 0) for phase in _PENDING),
        "running": sum(count for phase, count in phases.items() if phase not in _PENDING),
    }


def _limit(tree: QuotaTree, usage: Usage, name: str, subject: str) -> Json:
    limit = tree.limits.get((name, subject))
    nominal = None if limit is None or limit.nominal >= UNBOUNDED else limit.nominal
    return {
        "subject": subject,
        "nominal": nominal,
        "borrowing_limit": limit.borrowing_limit if limit else None,
        "lending_limit": limit.lending_limit if limit else None,
        "on_exceed": limit.on_exceed.value if limit else None,
        "used": usage.get((name, subject), 0),
        "available": shown(available(tree, usage, name, subject)),
        "potential": shown(potential(tree, name, subject)),
    }
