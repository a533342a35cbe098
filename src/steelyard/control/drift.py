"""Pools whose nodes are not what was declared let nothing new in, until they are, or somebody accepts it.

What an engine finds is compared node by node, and only where it changed. An operator's opening holds for
the very differences that it was said of: others close the pool again.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.control.context import ACTOR, Context
from steelyard.model.pools import ClosingCause
from steelyard.model.resources import FoundNode
from steelyard.services import verifications
from steelyard.services.closings import change_findings, close_row, findings_body, open_row
from steelyard.services.pool_drift import Drift, drift_of_node
from steelyard.services.pool_rules import declared_pools, load_pools
from steelyard.services.pool_spec import PoolSpec
from steelyard.store import closings as repository
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit


class Drifting:
    """Owned by the control thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pools: dict[str, PoolSpec] = {}
        self._nodes: dict[str, dict[str, tuple[FoundNode, Mapping[str, list[Drift]]]]] = {}
        self._newest: dict[str, Record] = {}  # of each pool, the newest closing for drift
        self._next_expiry: int | None = None
        self._load()

    def _load(self) -> None:
        with self._context.store.read() as view:
            self._pools = declared_pools(view)
            rows = repository.newest_closings(view, ClosingCause.DRIFT.value)
            self._next_expiry = verifications.next_expiry(view)
        self._newest = {row["pool"]: row for row in rows}

    def follow(self, declared: bool, moved: bool) -> None:
        """What others did: declared something, or opened, closed or verified in a pool."""
        if declared:
            self.declared()
        elif moved:
            self.reload()

    def declared(self) -> None:
        """Something was declared: every node that is known is compared anew."""
        before = self._pools
        self._load()
        if self._pools == before:
            return
        for cluster, nodes in self._nodes.items():
            mine = self._of(cluster)
            for name, (node, _) in nodes.items():
                nodes[name] = (node, drift_of_node(mine, node))
        self._settle({spec.cluster for spec in self._pools.values()} | set(self._nodes))

    def reload(self) -> None:
        """Somebody closed or opened a pool, or a record was issued."""
        self._load()
        self._take()

    def found(self, cluster: str, nodes: tuple[FoundNode, ...]) -> None:
        """The whole inventory of a cluster as its engine sees it now."""
        known, mine = self._nodes.setdefault(cluster, {}), self._of(cluster)
        changed = False
        for node in nodes:
            before = known.get(node.name)
            if before is not None and before[0] is node:
                continue
            differs = drift_of_node(mine, node) if mine else {}
            changed = changed or before is None or before[1] != differs
            known[node.name] = (node, differs)
        if changed:
            self._settle({cluster})

    def run(self) -> None:
        """Ends records whose time is over."""
        context = self._context
        if self._next_expiry is None or context.store.now() < self._next_expiry:
            return
        unit, now = context.unit(), context.now()
        with context.store.read() as view:
            verifications.expire(view, unit, ACTOR.id, now)
        context.commit(unit, now)
        self.reload()

    def _of(self, cluster: str) -> dict[str, PoolSpec]:
        return {name: spec for name, spec in sorted(self._pools.items()) if spec.cluster == cluster}

    def _settle(self, clusters: set[str]) -> None:
        """Closes and opens the pools of these clusters as what was found of them says."""
        context = self._context
        unit, now = context.unit(), context.now()
        for pool, spec in sorted(self._pools.items()):
            if spec.cluster in clusters and spec.cluster in self._nodes:
                self._pool(unit, pool, spec.cluster, now)
        if not unit.drafts:
            return
        context.commit(unit, now)
        self._load()
        self._take()

    def _pool(self, unit: Unit, pool: str, cluster: str, now: int) -> None:
        found = [entry for _, differs in self._nodes[cluster].values() for entry in differs.get(pool, ())]
        findings, newest = findings_body(found), self._newest.get(pool)
        if newest is not None and newest["opened_at"] is None:
            if not found:
                open_row(unit, newest, ACTOR.id, None, now)
            elif newest["findings_json"] != findings:
                change_findings(unit, newest, findings)
        elif found and not _accepted(newest, findings):
            number = self._context.store.ids.next()
            close_row(unit, number, pool, ClosingCause.DRIFT, findings, ACTOR.id, None, now)

    def _take(self) -> None:
        """The scheduler sees the pools as they are now."""
        with self._context.store.read() as view:
            self._context.state.pools = load_pools(view)
        self._context.changed = True


def _accepted(newest: Record | None, findings: str) -> bool:
    """True when somebody opened the pool with these very differences known."""
    return (
        newest is not None and newest["opened_by"] != ACTOR.id and newest["findings_json"] == findings
    )
