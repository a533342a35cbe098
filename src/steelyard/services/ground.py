"""What a submit is judged on: organisation, routing, policy and quota as they stood a moment ago.

Reading them anew for each of thousands of submits a second would cost more than the submits. They are
kept for a few milliseconds, and dropped at once when this server commits a change of anything declared.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from steelyard.evidence.leaf import Sequenced
from steelyard.model.labels import Vocabulary
from steelyard.model.organisation import Scope
from steelyard.model.orghistory import OrgHistory
from steelyard.model.policy import QUEUE_TREE, OnExceed, Policy
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.units import MILLISECOND
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import FlavorView, QuotaTree, Snapshot, can_ever_fit, over_refusing_limit, shut_now
from steelyard.scheduling.admission import misfits
from steelyard.scheduling.board import need_of
from steelyard.services.declared_step import DECLARED_VERSION
from steelyard.services.documents import stored_document
from steelyard.services.guarantees import Judged, judge_guarantee
from steelyard.services.kinds import TemplateSpec
from steelyard.services.labels import load_vocabulary
from steelyard.services.model_speeds import Shown, records_of
from steelyard.services.organisation import load_history
from steelyard.services.policy import Routes, load_policy, routes
from steelyard.services.topology_levels import load_levels
from steelyard.store.database import View
from steelyard.store.declared import DeclaredRow, history
from steelyard.store.inventory import list_clusters
from steelyard.store.live import counters, usage_counters
from steelyard.store.store import Store

#: How old what a submit is judged on may be, µs.
KEPT = 25 * MILLISECOND
MAX_SHAPES = 10_000
#: Leaves about these change nothing that a submit is judged on but use, which `KEPT` bounds.
_MOVING = frozenset({"workload", "refusal"})
#: Counter: up to which version of what is declared the control loop has assigned devices to pools.
FOLLOWED_VERSION = "followed_version"
#: Reasons that speak of the devices there are.
_OF_CAPACITY = frozenset({ReasonCode.NO_MATCHING_FLAVOR, ReasonCode.EXCEEDS_CAPACITY})
#: Reasons that speak of the labels and rules of the pools there are.
_OF_POOLS = frozenset(
    {
        ReasonCode.LABEL_MISMATCH,
        ReasonCode.POOL_NOT_ADMITTING,
        ReasonCode.LENDING_UNVERIFIED,
        ReasonCode.MODEL_UNVERIFIED,
    }
)


class SubmitSnapshots(Protocol):
    """Makes snapshots."""

    def for_submit(self, connection: View, _now: int) -> Snapshot:
        """Quota and capacity, without what is used, runs or waits; what did not change is the same object."""
        ...

    def full(self, connection: View, _now: int) -> tuple[Snapshot, Policy]:
        """What the next cycle would see."""
        ...


@dataclass(frozen=True, slots=True)
class Ground:
    """One consistent state. `never` keeps the answers about shapes that could never start; use is known only
    where some limit refuses what exceeds it.

    `unseen` are declared clusters of which nothing was found yet: what might fit there is let in, and so is
    everything while the pools are `behind` what was declared last.
    """

    at: int
    history: OrgHistory
    routes: Routes
    policy: Policy
    snapshot: Snapshot
    refuses: bool  # some limit refuses what exceeds it
    unseen: frozenset[str] = frozenset()
    behind: bool = False
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    versions: Mapping[str, int] = field(default_factory=dict)  # the counters that it was made at
    never: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    shut: dict[str, tuple[Reason, ...]] = field(default_factory=dict)  # of those that may only not start now
    verified: tuple[Shown, ...] = ()  # what real runs have shown
    levels: tuple[str, ...] = ()  # of topology, as declared

    def judge(self, shape: Shape) -> tuple[Reason, ...]:
        """Why a shape is refused at submit; empty when it is let in."""
        known = self.never.get(shape.key)
        if known is None:
            known = can_ever_fit(self.snapshot, self.policy, shape)
            if len(self.never) < MAX_SHAPES:
                self.never[shape.key] = known
        if known and self._may_change(shape):
            passing = _OF_CAPACITY | _OF_POOLS if self._may_be_taken(shape) else _OF_CAPACITY
            known = tuple(reason for reason in known if reason.code not in passing)
        known = known or self._shut(shape)
        if known or not self.refuses:
            return known
        return over_refusing_limit(self.snapshot, shape, self.policy)

    def _shut(self, shape: Shape) -> tuple[Reason, ...]:
        """The pools that are closed, where there is no other for the shape."""
        known = self.shut.get(shape.key)
        if known is None:
            known = shut_now(self.snapshot, shape)
            if len(self.shut) < MAX_SHAPES:
                self.shut[shape.key] = known
        return known

    def _may_change(self, shape: Shape) -> bool:
        """Whether devices that could take the shape may turn up in a moment."""
        return self.behind or any(self._may_fit_unseen(request) for _, _, request in shape.roles)

    def _may_be_taken(self, shape: Shape) -> bool:
        """Whether some pool whose devices may turn up in a moment has no rule against the shape."""
        pools = self.snapshot.pools
        late = [pool for pool in pools.values() if pool.cluster in self.unseen]
        return self.behind or any(
            not misfits(pool, pools, shape, request, FlavorView("", need_of(request).primary, pool.cluster))
            for pool in late
            for _, _, request in shape.roles
        )

    def _may_fit_unseen(self, request: MemberRequest) -> bool:
        return bool(self.unseen) and (not request.clusters or not self.unseen.isdisjoint(request.clusters))


class Grounds:
    """Hands out the ground to stand on. Thread-safe."""

    def __init__(self, store: Store, snapshots: SubmitSnapshots) -> None:
        self._store = store
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._kept: Ground | None = None
        self._moved = 0
        store.writer.on_publish(self._published)

    def current(self, now: int) -> Ground:
        """A ground not older than `KEPT`."""
        kept = self._kept
        if kept is not None and 0 <= now - kept.at <= KEPT:
            return kept
        with self._lock:
            kept = self._kept
            if kept is not None and 0 <= now - kept.at <= KEPT:
                return kept
            moved = self._moved
            with self._store.read() as view:
                ground = self._load(view, now, kept)
            if moved == self._moved:
                self._kept = ground
            return ground

    def judge(self, ground: Ground, shape: Shape) -> tuple[Reason, ...]:
        """Why a shape is refused at submit, with the workloads that hold what is missing.

        What runs is read only for that: a ground does not have it.
        """
        reasons = ground.judge(shape)
        if not any(reason.code == ReasonCode.OVER_LIMIT for reason in reasons):
            return reasons
        with self._store.read() as view:
            snapshot, policy = self._snapshots.full(view, ground.at)
        return over_refusing_limit(snapshot, shape, policy) or reasons  # what was held may be free by now

    def judge_guarantee(self, now: int, shape: Shape, replicas: int) -> Judged:
        """Why so many replicas of a shape can't be guaranteed: by the quota of now, not of a moment ago."""
        with self._store.read() as view:
            trees = self._snapshots.for_submit(view, now).trees
            return judge_guarantee(view, trees.get(QUEUE_TREE), shape, replicas)

    def drop(self) -> None:
        """Read anew the next time."""
        self._moved += 1
        self._kept = None

    def template(self, name: str, version: str | None) -> tuple[str, dict[str, Any]] | None:
        """(version, spec) of a template: the newest that is in force, or any version that ever was."""
        with self._store.read() as view:
            rows = history(view, Scope.system(), "Template", name)
        for row in rows:
            spec = _template(row)
            if version is None and row.valid_to is not None:
                return None
            if version in (None, spec.version):
                return spec.version, spec.body
        return None

    def _load(self, view: View, now: int, before: Ground | None) -> Ground:
        """All of it follows from what the counters count, but use."""
        versions = counters(view)
        if before is None or before.versions != versions:
            made = self._make(view, now, before, versions)
        else:
            made = replace(before, at=now)
        if made.refuses:
            made = replace(made, snapshot=replace(made.snapshot, usage=usage_counters(view)))
        return made

    def _make(self, view: View, now: int, before: Ground | None, versions: Mapping[str, int]) -> Ground:
        snapshot = self._snapshots.for_submit(view, now)
        policy = load_policy(view)
        same = before is not None and _same(before, snapshot, policy)
        never = before.never if same and before is not None else {}
        shut = before.shut if same and before is not None else {}
        refuses = before.refuses if same and before is not None else _refuses(snapshot.trees)
        found = {node.cluster for node in snapshot.nodes.values()}
        unseen = frozenset(row["name"] for row in list_clusters(view)) - found
        behind = versions.get(FOLLOWED_VERSION, 0) not in (0, versions.get(DECLARED_VERSION, 0))
        is_kept = before is not None and before.snapshot.pools is snapshot.pools
        verified = before.verified if is_kept and before is not None else records_of(view)
        return Ground(
            now, load_history(view), routes(view), policy, snapshot, refuses, unseen, behind,
            load_vocabulary(view), versions, never, shut, verified,
            load_levels(view),
        )  # fmt: skip

    def _published(self, done: Sequenced) -> None:
        if any(row.object_kind not in _MOVING for row in done.rows):
            self.drop()


def _same(before: Ground, snapshot: Snapshot, policy: Policy) -> bool:
    """True when neither limits nor capacity changed."""
    old = before.snapshot
    same_parts = (
        old.nodes is snapshot.nodes and old.flavors is snapshot.flavors and old.trees is snapshot.trees
        and old.pools is snapshot.pools
    )
    return same_parts and before.policy.version == policy.version


def _refuses(trees: Mapping[str, QuotaTree]) -> bool:
    return any(
        limit.on_exceed is OnExceed.REFUSE for tree in trees.values() for limit in tree.limits.values()
    )


def _template(row: DeclaredRow) -> TemplateSpec:
    spec = stored_document(row.kind, row.name, row.labels, row.spec).spec
    assert isinstance(spec, TemplateSpec)
    return spec
