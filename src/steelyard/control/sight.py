"""How well each cluster is seen: when it was last observed, since when it is not, and that as a record.

Blind time is never interpolated: what nobody holds of an unreachable cluster is metered as unknown.
"""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.control.inventory import Inventory
from steelyard.engines.port import Capabilities
from steelyard.evidence.leaf import BLIND_PREFIX, Head, LeafDraft
from steelyard.model.units import SECOND
from steelyard.scheduling import ClusterView
from steelyard.services.inventory import told_isolation
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.inventory import list_clusters
from steelyard.store.statements import Row
from steelyard.store.unit import NO_HEAD, Unit

#: `explain` reads observation times from the store, so they are written while nothing else is, too.
#: So often that what is shown is never ten seconds old.
WRITE_EVERY = 5 * SECOND


class Sight:
    """Observation state of the clusters."""

    def __init__(self, context: Context, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory
        self._heads: dict[str, Head] = {}
        self._versions: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._blind: dict[str, int] = {}
        self._isolation: dict[str, Row] = {}  # as the last leaf of each cluster has it
        with context.store.read() as connection:
            for row in rows.observations(connection):
                self._heads[row.cluster] = Head(row.head_n, row.head_seq, bytes(row.head_hash or b""))
                self._versions[row.cluster] = row.version
            for known in list_clusters(connection):
                told = told_isolation(known["leaf"])
                if told is not None:
                    self._isolation[known["name"]] = told
            for row in rows.blind_times(connection):
                self._blind[row.cluster] = row.t0

    def observed(self, cluster: str, as_of: int) -> None:
        """The cluster answered."""
        context = self._context
        known = context.state.clusters.get(cluster)
        context.state.clusters[cluster] = ClusterView(cluster, as_of, True)
        if known is None or not known.reachable:
            self._turn(cluster, as_of, True)
        elif context.store.now() - self._written.get(cluster, 0) >= WRITE_EVERY:
            unit = context.unit()
            self._written[cluster] = now = context.now()
            unit.update(t.observation, {"cluster": cluster}, as_of=as_of)
            context.commit(unit, now)

    def described(self, cluster: str, able: Capabilities) -> None:
        """The cluster's engine told what it can do: how it keeps projects apart goes into every leaf that
        speaks of the cluster, and into one of its own when that changes."""
        if not able.isolation_modes:
            return  # an engine that runs nothing on a machine of ours
        told: Row = {
            "mode": able.isolation_mode, "enforced": list(able.isolation),
            "not_enforced": list(able.not_enforced), "text": able.isolation_text,
        }  # fmt: skip
        if self._isolation.get(cluster) == told:
            return
        self._isolation[cluster] = told
        known = self._context.state.clusters.get(cluster)
        if known is not None and known.reachable and known.observed_at is not None:
            unit, now = self._context.unit(), self._context.now()
            self._note(unit, cluster, known.observed_at, True, "cluster.described")
            self._context.commit(unit, now)

    def lost(self, cluster: str) -> None:
        """The cluster did not answer."""
        context = self._context
        known = context.state.clusters.get(cluster)
        if known is not None and not known.reachable:
            return
        as_of = None if known is None else known.observed_at
        context.state.clusters[cluster] = ClusterView(cluster, as_of, False)
        self._turn(cluster, as_of or 0, False)

    def _turn(self, cluster: str, as_of: int, reachable: bool) -> None:
        context, now = self._context, self._context.now()
        unit = context.unit()
        action = "cluster.observed" if reachable else f"{BLIND_PREFIX}cluster-unreachable"
        self._note(unit, cluster, as_of, reachable, action)
        since = self._blind.pop(cluster, None)
        if reachable and since is not None:
            unit.update(t.coverage, {"cluster": cluster, "t0": since}, null=("t1",), t1=now)
        if not reachable:
            self._blind[cluster] = now
            unit.insert(t.coverage, cluster=cluster, t0=now, t1=None, reason="cluster-unreachable")
            self._inventory.blind(unit, cluster, now)
        self._written[cluster] = now
        context.commit(unit, now)
        context.changed = True
        if reachable and cluster in context.agents:
            context.agents[cluster].look_again()

    def _note(self, unit: Unit, cluster: str, as_of: int, reachable: bool, action: str) -> None:
        version = self._versions[cluster] = self._versions.get(cluster, 0) + 1
        carrier = unit.upsert(
            t.observation, ("cluster",), cluster=cluster, as_of=as_of, version=version, reachable=reachable
        )
        isolation = self._isolation.get(cluster)
        draft = LeafDraft(
            action=action,
            object_kind="observation",
            object_id=cluster,
            cluster=cluster,
            version_before=version - 1 or None,
            version_after=version,
            extra=None if isolation is None else {"isolation": isolation},
        )

        def keep(head: Head) -> None:
            self._heads[cluster] = head

        unit.leaf(draft, carrier, self._heads.get(cluster, NO_HEAD), keep)
