"""What is live, in memory: attempts, members, nodes, devices, quota usage, and their snapshot.

The control loop keeps one and changes it as it commits; `explain` and dry runs load one of their
own. Both turn it into a `Snapshot` by the same code, so that they decide the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from steelyard.model.health import DeviceFlag
from steelyard.model.lifecycle import HOLDING_PHASES, Phase
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Policy
from steelyard.model.workloads import Shape
from steelyard.scheduling import (
    Charge,
    ClusterView,
    FlavorView,
    HoldView,
    PendingItem,
    PoolView,
    QuotaTree,
    RunningView,
    ShapeGroup,
    Snapshot,
    charge,
    total_usage,
)
from steelyard.scheduling.fleet import as_fleet
from steelyard.scheduling.history import NOTHING_USED, History, Used, history_of, start
from steelyard.scheduling.memo import Memo
from steelyard.scheduling.prices import PriceList
from steelyard.scheduling.run_times import RunTimes
from steelyard.scheduling.runs import as_runs
from steelyard.scheduling.subjects import Counting
from steelyard.services.live_records import (
    LiveAttempt,
    LiveDevice,
    LiveFlag,
    LiveMember,
    LiveNode,
    LiveRelease,
)
from steelyard.services.live_views import flavors_of, node_view

MAX_HEADS = 512


class LiveState:
    """Indexes over all that is live. Not thread-safe: one owner."""

    def __init__(self) -> None:
        self.attempts: dict[int, LiveAttempt] = {}
        self.by_workload: dict[int, LiveAttempt] = {}
        self.parts: dict[int, LiveAttempt] = {}  # by members that are apart
        self.in_groups: dict[int, set[int]] = {}  # group → its live workloads
        self._phases: dict[Phase, dict[int, LiveAttempt]] = {phase: {} for phase in Phase}
        self.nodes: dict[int, LiveNode] = {}
        self.devices: dict[int, LiveDevice] = {}
        self.flags: dict[int, dict[DeviceFlag, LiveFlag]] = {}  # by node or device
        self.clusters: dict[str, ClusterView] = {}
        self.pools: dict[str, PoolView] = {}
        self.trees: dict[str, QuotaTree] = {}
        self.usage: dict[str, dict[tuple[str, str], int]] = {QUEUE_TREE: {}, ORG_TREE: {}}
        self.holds: dict[int, HoldView] = {}
        self.evicted: dict[str, tuple[int, ...]] = {}  # see Snapshot
        self.releases: dict[int, LiveRelease] = {}  # unproven ones that are open, by attempt
        self.stops_on_failure: set[str] = set()  # clusters where work leaves a device that turns bad
        self.release_within: dict[str, int] = {}  # cluster → µs, where it is declared
        self.policy = Policy(0)
        self.last_looked: dict[str, int] = {}
        self.basis: tuple[tuple[str, str | int], ...] = ()
        self.prices: PriceList = {}
        self.run_times = RunTimes()
        self._history = NOTHING_USED
        self._history_tree: QuotaTree | None = None  # from which it follows
        self._started: dict[Used, int] = {}  # since its instant
        self._waiting: dict[str, list[tuple[int, int, PendingItem]]] = {}
        self._shapes: dict[str, Shape] = {}
        self._running: dict[int, RunningView] = {}
        self._growing: set[int] = set()
        self._ran: set[int] = set()  # attempts whose view changed since the last snapshot
        self._runs = as_runs({})
        self._fleet = as_fleet({})
        self._plans: Memo[Any] = Memo()
        self._groups: dict[str, ShapeGroup] = {}  # those in which nothing changed since
        self._fronts: dict[str, tuple[ShapeGroup, int]] = {}  # of which only so many of the first have left
        self._dirty: set[int] = set()
        self._flavors: dict[str, FlavorView] = {}
        self._flavors_stale = True
        self.inventory_changes = 0  # how often a node, or what it has, was another than before
        self._counting: tuple[tuple[object, ...], Counting] | None = None

    # --- attempts --------------------------------------------------------------------------------
    def add(self, attempt: LiveAttempt) -> None:
        """Take an attempt in, in whatever phase it is."""
        self.remove(attempt.workload_id)
        if attempt.members:
            attempt.charges = self.counting().charges_of(attempt.shape, attempt.allocations())
        self.attempts[attempt.attempt_id] = attempt
        self.by_workload[attempt.workload_id] = attempt
        if attempt.group_id is not None:
            self.in_groups.setdefault(attempt.group_id, set()).add(attempt.workload_id)
        self._index(attempt)

    def remove(self, workload_id: int) -> None:
        """Drop what is known of a workload."""
        attempt = self.by_workload.pop(workload_id, None)
        if attempt is not None:
            self._unindex(attempt)
            self.attempts.pop(attempt.attempt_id, None)
            if attempt.group_id is not None:
                self.in_groups.get(attempt.group_id, set()).discard(workload_id)

    def change_phase(self, attempt: LiveAttempt, phase: Phase) -> None:
        """Move an attempt to a phase; its indexes follow. Releases nothing by itself."""
        self._unindex(attempt)
        attempt.phase = phase
        self._index(attempt)

    def lose_member(self, attempt: LiveAttempt, member: LiveMember) -> None:
        """A member has left for good, and nothing of it is charged any more."""
        self._unindex(attempt)
        attempt.members.remove(member)
        attempt.charges = self.counting().charges_of(attempt.shape, attempt.allocations())
        self._index(attempt)

    def in_phase(self, *phases: Phase) -> list[LiveAttempt]:
        """Attempts in these phases: what the loops look at must not grow with what only waits."""
        return [attempt for phase in phases for attempt in self._phases[phase].values()]

    def _index(self, attempt: LiveAttempt) -> None:
        self._phases[attempt.phase][attempt.attempt_id] = attempt
        if attempt.phase is Phase.QUEUED:
            item = attempt.item()
            self._shapes.setdefault(attempt.shape.key, attempt.shape)
            insort(self._waiting.setdefault(attempt.shape.key, []), (item.submitted, item.workload_id, item))
            self._groups.pop(attempt.shape.key, None)
            self._fronts.pop(attempt.shape.key, None)
        elif attempt.phase in HOLDING_PHASES:
            self._show(attempt)

    def _show(self, attempt: LiveAttempt) -> None:
        """As the scheduler is to see it from now on."""
        views = attempt.running_views(self.counting()) if attempt.leaves else [attempt.running_view()]
        for view in views:
            self._running[view.attempt_id] = view
            self._ran.add(view.attempt_id)
        if views[0].grows is not None:
            self._growing.add(attempt.attempt_id)
        for member in attempt.members if attempt.apart else ():
            self.parts[member.id] = attempt

    def _unindex(self, attempt: LiveAttempt) -> None:
        self._phases[attempt.phase].pop(attempt.attempt_id, None)
        if self._running.pop(attempt.attempt_id, None) is not None:
            self._ran.add(attempt.attempt_id)
            self._growing.discard(attempt.attempt_id)
        for member in attempt.members if attempt.apart else ():
            self.parts.pop(member.id, None)
            if self._running.pop(member.id, None) is not None:
                self._ran.add(member.id)
        if attempt.phase is not Phase.QUEUED:
            return
        key = attempt.shape.key
        group, (known, gone) = self._groups.pop(key, None), self._fronts.pop(key, (None, 0))
        waiting = self._waiting.get(key, [])
        at = bisect_left(waiting, (attempt.submitted_at, attempt.workload_id))
        while at < len(waiting) and waiting[at][1] == attempt.workload_id:
            if waiting[at][2].attempt_id == attempt.attempt_id:
                del waiting[at]
                before = group or known
                if before is not None and not at:
                    self._fronts[key] = before, gone + 1
                break
            at += 1
        if not waiting:
            self._waiting.pop(attempt.shape.key, None)

    def waiting_shapes(self) -> dict[str, Shape]:
        """Shapes of which something waits."""
        return {key: self._shapes[key] for key in self._waiting}

    def waiting_since(self, shape_key: str, until: int) -> Iterator[PendingItem]:
        """What waits of a shape, and was submitted by then; in that order."""
        for submitted, _, item in self._waiting.get(shape_key, ()):
            if submitted > until:
                return
            yield item

    @property
    def waiting_count(self) -> int:
        """How many attempts are queued."""
        return sum(len(items) for items in self._waiting.values())

    # --- quota -------------------------------------------------------------------------------------
    def counting(self) -> Counting:
        """How what is held is counted by the policy in force."""
        made_of = (self.trees, self.flavors(), self.policy)
        if self._counting is None or any(a is not b for a, b in zip(self._counting[0], made_of, strict=True)):
            self._counting = (made_of, Counting(*made_of))
        return self._counting[1]

    def charge(self, charges: tuple[Charge, ...], sign: int) -> list[tuple[str, str, str, int]]:
        """Charge (1) or discharge (−1); the counters' deltas, to be written in the same unit."""
        deltas = []
        for item in charges:
            tree = self.trees.get(item.tree)
            if tree is None or item.node not in tree.nodes:
                continue
            usage = self.usage.setdefault(item.tree, {})
            for node, subject, delta in charge(tree, usage, item.node, item.subject, sign * item.quantity):
                usage[node, subject] = usage.get((node, subject), 0) + delta
                deltas.append((item.tree, node, subject, delta))
        return deltas

    def recount(self) -> list[tuple[str, str, str, int]]:
        """Make what is charged, and the usage from it, anew by the policy in force; the differences of the
        usage, to be written."""
        self._recharge()
        deltas = []
        for name in sorted({*self.usage} - {*self.trees}):
            deltas += [(name, *key, -used) for key, used in sorted(self.usage.pop(name).items()) if used]
        for name, tree in self.trees.items():
            own = [
                (c.node, c.subject, c.quantity)
                for c in self._all_charges()
                if c.tree == name and c.node in tree.nodes
            ]
            fresh, known = total_usage(tree, own), self.usage.get(name, {})
            for key in sorted({*fresh, *known}):
                if delta := fresh.get(key, 0) - known.get(key, 0):
                    deltas.append((name, *key, delta))
            self.usage[name] = dict(fresh)
        return deltas

    def _recharge(self) -> None:
        """What limits count, and where, follows from the policy; what is held stays the same."""
        counting = self.counting()
        for attempt in self.in_phase(*HOLDING_PHASES):
            charges = counting.charges_of(attempt.shape, attempt.allocations())
            if charges != attempt.charges:
                attempt.charges = charges
                self._show(attempt)
        for key, hold in self.holds.items():
            charges = counting.charges_at(hold.shape, hold.members)
            self.holds[key] = replace(hold, charges=charges)
            if key in self.attempts:
                self.attempts[key].charges = charges

    def _all_charges(self) -> list[Charge]:
        charged = [c for attempt in self.in_phase(*HOLDING_PHASES) for c in attempt.charges]
        return charged + [c for hold in self.holds.values() for c in hold.charges]

    # --- what was used lately ------------------------------------------------------------------------
    @property
    def history(self) -> History:
        """Decayed use as it counts now."""
        tree = self.trees.get(QUEUE_TREE)
        if self._history.at and self._history_tree is not tree:
            self.history = history_of(tree, self._history.at, self._history.own, self._started)
        if self._started:
            self._history = replace(self._history, started=dict(self._started))
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        self._history, self._started = history, dict(history.started)
        self._history_tree = self.trees.get(QUEUE_TREE)

    def note_start(self, attempt: LiveAttempt) -> None:
        """It was placed just now, and is charged for that at once where the past counts."""
        if self._history.at:
            shape = attempt.shape
            start(self._started, (attempt.queue, shape.project, shape.user or ""), attempt.charges)

    def note_more(self, attempt: LiveAttempt, charges: tuple[Charge, ...]) -> None:
        """The same of members that joined it."""
        if self._history.at:
            shape = attempt.shape
            start(self._started, (attempt.queue, shape.project, shape.user or ""), charges)

    # --- devices -----------------------------------------------------------------------------------
    def flags_on(self, *object_ids: int | None) -> dict[DeviceFlag, LiveFlag]:
        """The flags that stand on a device, its node and its parent; the innermost one of each kind."""
        found: dict[DeviceFlag, LiveFlag] = {}
        for object_id in object_ids:
            for kind, flag in self.flags.get(object_id or 0, {}).items():
                found.setdefault(kind, flag)
        return found

    def touch(self, device_id: int) -> LiveDevice:
        """A device that is about to change."""
        device = self.devices[device_id]
        self._dirty.add(device.node_id)
        return device

    def touch_node(self, node_id: int) -> None:
        """A node or its membership changed."""
        self._dirty.add(node_id)
        self._flavors_stale = True
        self.inventory_changes += 1

    def flavors(self) -> dict[str, FlavorView]:
        """The flavors by name; the same object until one of them changes, since much is kept by it."""
        if self._flavors_stale:
            found, self._flavors_stale = flavors_of(self.devices.values()), False
            if found != self._flavors:
                self._flavors = found
        return self._flavors

    def _group(self, key: str, items: list[tuple[int, int, PendingItem]]) -> ShapeGroup:
        before, gone = self._fronts.pop(key, (None, 0))
        if before is not None and before.count == len(before.heads) == len(items) + gone:
            return before.without_first(gone)
        return ShapeGroup(self._shapes[key], tuple(item for _, _, item in items[:MAX_HEADS]), len(items))

    def snapshot(self) -> Snapshot:
        """The immutable view that `decide` works on."""
        self._fleet = self._fleet.with_({node: node_view(self.nodes[node]) for node in self._dirty})
        self._dirty.clear()
        changed = {attempt: self._running[attempt] for attempt in self._ran if attempt in self._running}
        self._runs = self._runs.with_(changed, self._ran - changed.keys())
        self._ran.clear()
        for key in self._waiting.keys() - self._groups.keys():
            self._groups[key] = self._group(key, self._waiting[key])
        return Snapshot(
            nodes=self._fleet,
            flavors=self.flavors(),
            clusters=dict(self.clusters),
            pools=self.pools,
            trees=self.trees,
            usage={name: dict(usage) for name, usage in self.usage.items()},
            pending=tuple(self._groups.values()),
            running=self._runs,
            growing=frozenset(self._growing),
            holds=dict(self.holds),
            history=self.history,
            evicted=dict(self.evicted),
            prices=self.prices,
            run_times=self.run_times,
            last_looked=dict(self.last_looked),
            basis=self.basis,
            plans=self._plans,
        )
