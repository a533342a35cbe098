"""Domains of nodes that are near each other: nodes with the same value of one label.

A gang may require that all its members are in one domain of a level, or prefer it. Of the domains that may
hold it the one with the least room goes first (best fit, so that larger ones stay whole for larger gangs),
of equals the first by name. A node without the label is in no domain of that level.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from steelyard.model.workloads import Topology
from steelyard.scheduling.board import Board

#: (level, value) from the outer level to the inner one.
Domain = tuple[tuple[str, str], ...]
#: Domains in which a place is looked for, for one attempt.
MAX_DOMAINS = 64


class Levels:
    """The domains of a cycle's nodes, by flavor; made when they are first asked for."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._split: dict[tuple[Domain, str, str], dict[str, tuple[int, ...]]] = {}

    def nodes(self, domain: Domain, flavor: str) -> Sequence[int]:
        """The nodes of a domain that have the flavor and may be given work, by id."""
        if not domain:
            return self.board.order(flavor)
        level, value = domain[-1]
        return self.split(domain[:-1], level, flavor).get(value, ())

    def split(self, outer: Domain, level: str, flavor: str) -> dict[str, tuple[int, ...]]:
        """The nodes with a flavor of a domain, by the value of one level."""
        key = (outer, level, flavor)
        known = self._split.get(key)
        if known is None:
            found: dict[str, list[int]] = {}
            for node in self.nodes(outer, flavor):
                value = self.board.nodes[node].labels.get(level)
                if value is not None:
                    found.setdefault(value, []).append(node)
            known = self._split[key] = {value: tuple(nodes) for value, nodes in found.items()}
        return known

    def by_room(self, outer: Domain, level: str, flavor: str, wanted: int) -> list[Domain]:
        """The domains of a level with that much of a flavor, the one with the least room first."""
        rooms = [
            (sum(self.board.free_on(node, flavor) for node in nodes), value)
            for value, nodes in self.split(outer, level, flavor).items()
        ]
        return [(*outer, (level, value)) for room, value in sorted(rooms) if room >= wanted]

    def tried(self, topology: Topology, flavor: str, wanted: int) -> Iterator[Domain]:
        """Domains in the order in which they are tried: preferred ones first, within required ones."""
        outer: list[Domain] = [()]
        if topology.required is not None:
            outer = self.by_room((), topology.required, flavor, wanted)
        if topology.preferred is not None:
            for domain in outer:
                yield from self.by_room(domain, topology.preferred, flavor, wanted)
        if topology.required is not None:
            yield from outer


class Outside(Collection[int]):
    """The nodes outside a domain, and those in it that are to be avoided: where a member may not go."""

    def __init__(self, levels: Levels, domain: Domain, avoid: Collection[int]) -> None:
        self._levels = levels
        self._domain = domain
        self._avoid = avoid

    def nodes(self, flavor: str) -> Sequence[int]:
        """The nodes of the domain that have the flavor, by id."""
        return self._levels.nodes(self._domain, flavor)

    def __contains__(self, node: object) -> bool:
        labels = self._levels.board.nodes[node].labels if isinstance(node, int) else {}
        return node in self._avoid or any(labels.get(level) != value for level, value in self._domain)

    def __iter__(self) -> Iterator[int]:
        return (node for node in self._levels.board.nodes if node in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True
