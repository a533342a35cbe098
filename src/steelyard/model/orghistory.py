"""The organisation over time: where a namespace stood at any instant, and when that changed.

Built from interval rows; usage is cut at every change, so that what ran before a move stays with the
team of its time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from steelyard.model.organisation import OrgEdge, OrgPlace

_FOREVER = 2**63


class OrgHistory:
    """Immutable view over all edges (kind team, project, namespace), open and closed."""

    def __init__(self, edges: Iterable[OrgEdge]) -> None:
        self._edges: dict[tuple[str, str], list[OrgEdge]] = {}
        self._steady: dict[str, tuple[int, OrgPlace | None]] = {}
        for edge in sorted(edges, key=lambda e: (e.kind, e.child, e.valid_from, e.version)):
            self._edges.setdefault((edge.kind, edge.child), []).append(edge)

    def edge(self, kind: str, child: str, at: int) -> OrgEdge | None:
        """The edge valid at an instant, None where there was none."""
        edges = self._edges.get((kind, child), ())
        index = bisect_right([edge.valid_from for edge in edges], at) - 1
        while index >= 0:
            edge = edges[index]
            if edge.valid_from <= at and (edge.valid_to is None or at < edge.valid_to):
                return edge
            index -= 1
        return None

    def place(self, namespace: str, at: int) -> OrgPlace | None:
        """Project, team, environment and cost centre of a namespace at an instant."""
        edge = self.edge("namespace", namespace, at)
        if edge is None or edge.parent is None:
            return None
        project = self.edge("project", edge.parent, at)
        versions = [edge.org_version] + ([project.org_version] if project else [])
        return OrgPlace(
            namespace,
            edge.parent,
            project.parent if project else None,
            edge.environment,
            edge.cost_centre,
            max(versions),
        )

    def pieces(self, namespace: str, t0: int, t1: int) -> list[tuple[int, int, OrgPlace | None]]:
        """`[t0, t1)` cut at every change of the namespace's place; the pieces tile the interval."""
        cuts = {t0}
        for edge in self._edges.get(("namespace", namespace), ()):
            cuts.update(_inside(edge, t0, t1))
            for upper in self._edges.get(("project", edge.parent or ""), ()):
                cuts.update(_inside(upper, t0, t1))
        marks = [*sorted(cuts), t1]
        return [(a, b, self.place(namespace, a)) for a, b in pairwise(marks) if a < b]

    def steady(self, namespace: str) -> tuple[int, OrgPlace | None]:
        """(t, place): from t on the namespace's place never changes. Kept, for this view never changes."""
        found = self._steady.get(namespace)
        if found is None:
            times = {0}
            for edge in self._edges.get(("namespace", namespace), ()):
                times.update(_inside(edge, 0, _FOREVER))
                for upper in self._edges.get(("project", edge.parent or ""), ()):
                    times.update(_inside(upper, 0, _FOREVER))
            last = max(times)
            found = self._steady[namespace] = (last, self.place(namespace, last))
        return found

    def namespaces(self, at: int) -> list[str]:
        """Names of the namespaces there were at an instant."""
        return [child for kind, child in self._edges if kind == "namespace" and self.edge(kind, child, at)]

    def projects(self, at: int) -> list[str]:
        """Names of the projects there were at an instant."""
        return [child for kind, child in self._edges if kind == "project" and self.edge(kind, child, at)]


def _inside(edge: OrgEdge, t0: int, t1: int) -> list[int]:
    times = [edge.valid_from] + ([edge.valid_to] if edge.valid_to is not None else [])
    return [at for at in times if t0 < at < t1]
