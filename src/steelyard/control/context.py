"""What the loops share: the live state, the meter, the agents, and the one way to commit.

What was seen to end is written together with what is decided next: the unit of the ends is carried over to
the cycle of the same pass, so that a place that becomes free and is given away costs one commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from steelyard.control.agents import Agent
from steelyard.engines.port import ReleaseProbe
from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, Transition
from steelyard.evidence.usage import Meter
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase, check_transition
from steelyard.model.orghistory import OrgHistory
from steelyard.scheduling import Charge
from steelyard.services.live import LiveState
from steelyard.services.live_records import LiveAttempt
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.store import Store
from steelyard.store.unit import Unit

ACTOR = ActorRef("control", "control")


@dataclass(slots=True)
class Context:
    """Owned by the control thread. After a failed commit it is thrown away and loaded anew."""

    store: Store
    state: LiveState
    meter: Meter
    org: OrgHistory
    agents: dict[str, Agent]
    fence: int
    next_seq: int  # the first leaf not yet looked at
    last_hash: bytes | None = None  # of the leaf before it
    org_version: int = 0
    own: deque[tuple[int, int]] = field(default_factory=deque)  # ranges of leaves that we wrote
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    probes: dict[int, dict[str, ReleaseProbe]] = field(default_factory=dict)  # by attempt and cluster
    last_now: int = 0
    restored_at: int = 0  # when the newest restore from a backup was (µs); 0: never
    _charges: dict[tuple[str, str, str], int] = field(default_factory=dict)
    changed: bool = True  # something happened that may let work start
    moved: set[int] = field(default_factory=set)  # workloads with a leaf in the unit that is being made
    _carried: Unit | None = None

    def now(self) -> int:
        """Instants of the loop grow strictly, also when the clock steps back."""
        self.last_now = max(self.store.now(), self.last_now + 1, self.meter.latest + 1)
        return self.last_now

    def unit(self) -> Unit:
        """A unit of the control plane, fenced by the lease's epoch. What was carried is written first."""
        self.settle()
        return Unit(ACTOR, fence=self.fence)

    def going_on(self) -> Unit:
        """The unit that was carried over, to be added to; else a fresh one. No workload may get a second leaf
        in it: see `moved`."""
        carried, self._carried = self._carried, None
        return self.unit() if carried is None else carried

    def carry(self, unit: Unit) -> None:
        """Let the unit be written later in this pass, with what follows from it."""
        self._settle_charges(unit)
        self._carried = unit

    def settle(self) -> None:
        """Write what was carried over."""
        if self._carried is not None:
            self.commit(self.going_on(), self.last_now)

    def commit(self, unit: Unit, now: int) -> None:
        """Write the unit with what the meter has to say, and only then act on engines."""
        self.moved.clear()
        self._settle_charges(unit)
        flushed = self.meter.flush(now)
        for row in flushed.capacity_rows:
            unit.insert(t.capacity_segment, **row)
        for row in flushed.unheld_rows:
            unit.insert(t.unheld_segment, **row)
        for row in flushed.meter_rows:
            unit.upsert(t.device_meter, ("device_id",), **row)
        for device_id in flushed.retired:
            unit.delete(t.device_meter, device_id=device_id)
        if unit.writes or unit.drafts or unit.usage:
            self.store.writer.write(unit)
            self._note_own(unit)
        acts, self.after_commit = self.after_commit, []
        for act in acts:
            act()

    def _note_own(self, unit: Unit) -> None:
        """Leaves of ours that follow on what is known need not be read back from the log."""
        if not unit.drafts:
            return
        end = unit.first_seq + len(unit.drafts)
        if unit.first_seq == self.next_seq:
            self.next_seq, self.last_hash = end, unit.last_hash
        else:
            self.own.append((unit.first_seq, end))

    def charge(self, charges: tuple[Charge, ...], sign: int) -> None:
        """Charge (1) or discharge (−1). Summed up to the commit: charges at one node are linear, so many
        attempts of a unit walk each path of the trees once."""
        pending = self._charges
        for item in charges:
            key = (item.tree, item.node, item.subject)
            pending[key] = pending.get(key, 0) + sign * item.quantity

    def _settle_charges(self, unit: Unit) -> None:
        net = tuple(Charge(*key, quantity) for key, quantity in self._charges.items() if quantity)
        self._charges.clear()
        for tree, node, subject, delta in self.state.charge(net, 1):
            unit.charge(tree, node, subject, delta)

    def move(
        self,
        unit: Unit,
        attempt: LiveAttempt,
        phase: Phase,
        attempt_values: Row,
        workload_values: Row | None = None,
    ) -> Row:
        """Both rows of an attempt move to a phase; returns the workload's row, which carries its head."""
        if attempt.phase is not phase:
            check_transition(attempt.phase, phase)
        carrier = unit.update(
            t.workload,
            {"id": attempt.workload_id, "version": attempt.version},
            phase=phase.value,
            version=attempt.version + 1,
            **(workload_values or {}),
        )
        unit.update(
            t.attempt,
            {"id": attempt.attempt_id, "version": attempt.attempt_version},
            phase=phase.value,
            version=attempt.attempt_version + 1,
            **attempt_values,
        )
        attempt.version += 1
        attempt.attempt_version += 1
        self.state.change_phase(attempt, phase)
        return carrier

    def leaf(
        self,
        unit: Unit,
        attempt: LiveAttempt,
        carrier: Row,
        action: str,
        transitions: tuple[Transition, ...],
        detail: Row | None = None,
        reason: str | None = None,
    ) -> None:
        """The one leaf of this workload in this unit."""
        clusters = attempt.clusters
        self.moved.add(attempt.workload_id)
        draft = LeafDraft(
            action=action,
            object_kind="workload",
            object_id=render("workload", attempt.workload_id),
            version_before=attempt.version - 1,
            version_after=attempt.version,
            reason_code=reason,
            rule_version=self.state.policy.version,
            transitions=transitions,
            project=attempt.project,
            cluster=min(clusters) if clusters else None,
            extra={
                "attempt": attempt.number,
                "attempt_id": render("attempt", attempt.attempt_id),
                **(detail or {}),
            },
        )

        def keep(head: Head) -> None:
            attempt.head = head

        unit.leaf(draft, carrier, attempt.head, keep)


def step(before: Phase | None, after: str, at: int, sub: str | None = None) -> Transition:
    """A transition as it stands in a leaf."""
    return Transition(at=at, from_=None if before is None else before.value, to=after, sub=sub)
