"""Follow the log: what others wrote (submits, cancels, declared objects) is read from its leaves.

The evidence log is the change feed: every server appends to it, so the lease holder misses nothing,
whichever server took the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from steelyard.control.context import Context
from steelyard.control.inventory import Inventory
from steelyard.model.ids import parse
from steelyard.model.lifecycle import Phase
from steelyard.services.declared_step import DECLARED_VERSION
from steelyard.services.ground import FOLLOWED_VERSION
from steelyard.services.live_load import live_attempt, load_policy_into
from steelyard.services.live_records import LiveAttempt
from steelyard.services.organisation import load_history
from steelyard.store import leaves
from steelyard.store import live as rows
from steelyard.store.database import View

BATCH = 2000
#: Object kinds whose leaves change what the loop works on: quota, organisation, pools, clusters.
DECLARED = frozenset(
    {
        "cluster",
        "pool",
        "team",
        "project",
        "namespace",
        "cohort",
        "queue",
        "quota",
        "priorityclass",
        "routing",
        "schedulingpolicy",
        "conversiontable",
        "binding",
    }
)


class Follower:
    """Keeps the live state up to date with what others wrote. What it takes in is always all that stands
    in one view of the store, so that `next_seq` says exactly what the loop knows."""

    def __init__(self, context: Context, inventory: Inventory, versions: Mapping[str, int]) -> None:
        """`versions` are the counters of the view that the context was loaded from."""
        self._context = context
        self._inventory = inventory
        self._versions = versions
        self.clusters_changed = True
        self._releases: set[int] = set()
        self._flags: set[int] = set()
        self._retired: set[int] | None = None  # None: not all that were asked for are known
        self._groups: set[int] = set()
        self._pools_moved = False
        self._declared_moved = False

    def take_groups(self) -> set[int]:
        """Groups of which others changed a workload since this was asked last."""
        found, self._groups = self._groups, set()
        return found

    def take_flags(self) -> set[int]:
        """Flags that others set or lifted since this was asked last."""
        found, self._flags = self._flags, set()
        return found

    def take_pools(self) -> bool:
        """Whether somebody closed or opened a pool, or verified something in one, since this was asked."""
        found, self._pools_moved = self._pools_moved, False
        return found

    def take_declared(self) -> bool:
        """Whether anything was declared since this was asked."""
        found, self._declared_moved = self._declared_moved, False
        return found

    def take_retired(self) -> set[int] | None:
        """Registrations by which others gave up a device since this was asked last; None: look at all."""
        found, self._retired = self._retired, set()
        return found

    def take_releases(self) -> set[int]:
        """Unproven releases that others changed since this was asked last: an operator wants something."""
        found, self._releases = self._releases, set()
        return found

    def catch_up(self) -> None:
        """What was declared while nobody followed, or followed only half-way, has its effect now."""
        versions = self._versions
        if versions.get(FOLLOWED_VERSION, 0) != versions.get(DECLARED_VERSION, 0):
            self._declared()

    def run(self) -> bool:
        """Read on in the log; True when something of interest was there."""
        context = self._context
        if not context.store.shared and context.store.writer.state.size <= context.next_seq:
            return False
        with context.store.read() as connection:
            workloads, declared = self._read_on(connection)
            changed = rows.workloads_by_id(connection, workloads)
            if declared:
                self._take_policy(connection)
        self._groups |= {row.group_id for row in changed if row.group_id is not None}
        for row in changed:
            self._workload(live_attempt(row, []), row.phase == Phase.FINISHED)
        if declared:
            self._declared()
        return bool(workloads or declared)

    def _read_on(self, connection: View) -> tuple[set[int], bool]:
        """Workloads that others changed, and whether anything declared did, up to the end of the view."""
        context, start = self._context, self._context.next_seq
        workloads: set[int] = set()
        declared = False
        while True:
            found = leaves.changed_objects(connection, context.next_seq, BATCH)
            for seq, _action, kind, object_id in found:
                context.next_seq = seq + 1
                if self._is_own(seq):
                    continue
                if kind == "workload":
                    workloads.add(parse("workload", object_id))
                elif kind == "release":
                    self._releases.add(parse("release", object_id))
                elif kind in ("closing", "verification"):
                    self._pools_moved = True
                elif kind == "flag":
                    self._flags.add(parse("flag", object_id))
                elif kind == "registration" and self._retired is not None:
                    self._retired.add(parse("registration", object_id))
                declared = declared or kind in DECLARED
            if len(found) < BATCH:
                break
        if context.next_seq > start:
            context.last_hash = leaves.leaf_hash(connection, context.next_seq - 1)
        return workloads, declared

    def _take_policy(self, connection: View) -> None:
        context = self._context
        clusters = dict(context.state.clusters)
        load_policy_into(context.state, connection)
        context.state.clusters = clusters
        context.org = load_history(connection)
        self._versions = rows.counters(connection)
        context.org_version = self._versions.get("org_version", 0)

    def _is_own(self, seq: int) -> bool:
        own = self._context.own
        while own and own[0][1] <= seq:
            own.popleft()
        return bool(own) and own[0][0] <= seq

    def _workload(self, fresh: LiveAttempt, finished: bool) -> None:
        state = self._context.state
        known = state.by_workload.get(fresh.workload_id)
        if known is not None and known.version >= fresh.version:
            return
        if finished:
            state.remove(fresh.workload_id)
        elif (
            known is None or known.attempt_id != fresh.attempt_id or known.phase in (Phase.HELD, Phase.QUEUED)
        ):
            state.add(fresh)
        else:
            known.version, known.attempt_version = fresh.version, fresh.attempt_version
            known.head = fresh.head
            known.cancel_requested_at = fresh.cancel_requested_at
            known.activated_at = fresh.activated_at
            hold = state.holds.get(known.attempt_id)
            if hold is not None:
                state.holds[known.attempt_id] = replace(hold, item=known.item())

    def _declared(self) -> None:
        context = self._context
        now = context.now()
        unit = context.unit()
        for tree, node, subject, delta in context.state.recount():
            unit.charge(tree, node, subject, delta)
        context.commit(unit, now)
        self.clusters_changed = True
        self._declared_moved = True
        self._inventory.pools_changed(self._versions.get(DECLARED_VERSION, 0))
