"""A recorded window under other documents: the work of then, submitted again on virtual time.

The state at the first stored cycle is made anew from the log, and so is the policy of then. What was
submitted in the window arrives again, devices come and go as they did, and work takes as long as it took.
That runs twice: under the policy as it was, and under the documents laid over it. Both are simulations of
the same kind, so that their difference is the policy's; how well the first meets what really happened is
told beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError, RefusedError, UnavailableError
from steelyard.model.organisation import Principal, Verb
from steelyard.model.orghistory import OrgHistory
from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import Shape, WorkloadKind, WorkloadSpec
from steelyard.scheduling import PendingItem, Snapshot, can_ever_fit, over_refusing_limit
from steelyard.scheduling.changes import EndAttempts, FollowNodes, FollowTrees, emptied
from steelyard.scheduling.forward import Arrival, Expected, Foreseen, Forward
from steelyard.scheduling.what_if import FollowPolicy, WhatIf, changed_by
from steelyard.services.cycles import PastSnapshots
from steelyard.services.declared import load_world
from steelyard.services.documents import Document, parse_documents
from steelyard.services.imagined import KINDS
from steelyard.services.organisation import load_history
from steelyard.services.past import documents_of
from steelyard.services.policy import Since, policy_of, route, routes_of, trees_of
from steelyard.services.preview_views import preview_view
from steelyard.services.references import check
from steelyard.services.shapes import keyed, read_shape
from steelyard.store import cycles as stored
from steelyard.store import windows
from steelyard.store import workloads as repository
from steelyard.store.accounts import account_names
from steelyard.store.database import View
from steelyard.store.declared import limits_before
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
MAX_WORKLOADS, MAX_CYCLES, MAX_INSTANTS, MAX_CAPACITY_CHANGES = 20_000, 100_000, 50_000, 64
_spec = msgspec.json.Decoder(WorkloadSpec).decode
World = dict[tuple[str, str], Document]


def policy_preview(
    store: Store,
    principal: Principal,
    snapshots: object,
    raw: object,
    since: int | None = None,
    until: int | None = None,
) -> Json:
    """The comparison. Raises ForbiddenError, InvalidError (`window-no-cycles`, `window-too-large`, …),
    UnavailableError."""
    authorise(principal, Verb.VIEW, "cycle")
    if not isinstance(snapshots, PastSnapshots):
        raise UnavailableError("replay-not-served")
    documents = parse_documents(raw)
    for document in documents:
        if document.kind not in KINDS:
            raise InvalidError("what-if-kind", kind=document.kind.value, known=", ".join(sorted(KINDS)))
    since, until = since or 0, store.now() if until is None else until
    if since >= until:
        raise InvalidError("window-empty", since=since, until=until)
    with store.read() as view:
        seen = scope(principal, Verb.VIEW, "cycle")
        cycles = stored.cycles_of(view, seen, since, until, MAX_CYCLES)
        if not cycles:
            raise InvalidError("window-no-cycles", since=since, until=until)
        window = _Window(view, snapshots, cycles, until)
        check({**load_world(view), **{d.key: d for d in documents}}, account_names(view))
        old, new = window.run([]), window.run(documents)
        return preview_view(window, old, new)


@dataclass(frozen=True, slots=True)
class Run:
    """One of both runs: what came of it, and who was refused before it came to wait."""

    future: Foreseen
    refused: Mapping[int, tuple[Reason, ...]]
    begin: Snapshot


class _Window:
    """The recorded window, ready to be run."""

    def __init__(self, view: View, snapshots: PastSnapshots, cycles: list[Record], until: int) -> None:
        self.view = view
        self.cycles = cycles
        self.snapshot, self.policy, self.since = snapshots.as_of(view, cycles[0]["id"])
        self.until = until
        self.rows = {row["id"]: row for row in self._rows()}
        self.attempts = windows.attempts_of(view, list(self.rows))
        bodies = repository.shape_bodies(view, {row["shape_id"] for row in self.rows.values()})
        self.shapes = {row["id"]: read_shape(bodies[row["shape_id"]]) for row in self.rows.values()}
        self.history: OrgHistory = load_history(view)
        self.worlds = self._worlds()
        self.lengths = {number: self._length(number) for number in self.rows}
        self.nodes, self.follows_capacity = self._capacity(snapshots)

    def _rows(self) -> list[Record]:
        found = windows.workloads_between(self.view, self.since, self.until, MAX_WORKLOADS + 1)
        if len(found) > MAX_WORKLOADS:
            raise InvalidError("window-too-large", most=MAX_WORKLOADS)
        return found

    def _worlds(self) -> list[tuple[int, World, int]]:
        """(instant, declared objects, version) at the begin and wherever the policy became another."""
        found: list[tuple[int, World, int]] = []
        known = None
        for cycle in self.cycles:
            if cycle["policy_version"] != known:
                known = cycle["policy_version"]
                world = {document.key: document for document in documents_of(self.view, cycle["id"])}
                found.append((cycle["at"], world, known))
        return found

    def _length(self, number: int) -> int | None:
        """How long all its work held devices; None where that is not known, for it has not ended."""
        done, ran = 0, False
        for attempt in self.attempts.get(number, ()):
            if attempt["placed"] is None:
                continue
            end = attempt["release_confirmed"] or attempt["ended"]
            if end is None:
                return None
            if attempt["outcome"] != "preempted":
                done, ran = done + max(0, end - attempt["placed"]), True
        return done if ran else None

    def _capacity(self, snapshots: PastSnapshots) -> tuple[list[tuple[int, FollowNodes]], bool]:
        """The nodes as they were from each change on, read at the first cycle that knew of it."""
        instants = windows.capacity_changes(self.view, self.since, self.until)
        found: dict[int, tuple[int, FollowNodes]] = {}
        later = iter(self.cycles)
        cycle = next(later, None)
        for at in instants:
            while cycle is not None and cycle["at"] < at:
                cycle = next(later, None)
            if cycle is None:
                break
            if cycle["id"] not in found:
                if len(found) == MAX_CAPACITY_CHANGES:
                    return [], False
                snapshot, _, _ = snapshots.as_of(self.view, cycle["id"])
                found[cycle["id"]] = (at, FollowNodes(emptied(snapshot)))
        return list(found.values()), True

    # --- running it -----------------------------------------------------------------------------------
    def run(self, documents: Iterable[Document]) -> Run:
        """The window with these documents laid over those of each time."""
        over = {document.key: document for document in documents}
        steps = [(at, {**world, **over}, version) for at, world, version in self.worlds]
        by_key = {shape.key: shape for shape in self.shapes.values()}
        since = Since(limits_before(self.view, self.until), self.since)  # other documents hold from the begin
        changes: list[tuple[int, tuple[WhatIf, ...]]] = [
            (at, (FollowTrees(trees_of(w.values(), since), by_key), FollowPolicy(policy_of(w.values(), v))))
            for at, w, v in steps
        ]
        changes += [(at, (change,)) for at, change in self.nodes]
        changes += [(at, (EndAttempts(frozenset({n})),)) for at, n in self._withdrawn()]
        refused: dict[int, tuple[Reason, ...]] = {}
        coming = list(self._arrivals(steps, bool(over), refused))
        ends = {
            run.attempt_id: run.placed_at + length
            for run in self.snapshot.running.values()
            if (length := self.lengths.get(run.workload_id)) is not None
        }
        expected = Expected(
            ends, lambda _shape, item: self.lengths.get(item.workload_id), 0, tuple(coming), tuple(changes),
            _judge,
        )  # fmt: skip
        begin, _ = changed_by(self.snapshot, self.policy, changes[0][1])
        forward = Forward(self.snapshot, self.policy, self.since, expected)
        future = forward.run(MAX_INSTANTS, self.until - 1)
        return Run(future, {**refused, **future.refused}, begin)

    def _withdrawn(self) -> Iterable[tuple[int, int]]:
        """(instant, attempt) of what left before it was ever placed."""
        for number, row in self.rows.items():
            own = self.attempts.get(number, [])
            placed = any(attempt["placed"] is not None for attempt in own)
            if own and not placed and row["finished_at"] is not None and row["finished_at"] < self.until:
                yield max(self.since, row["finished_at"]), own[0]["id"]

    def _arrivals(
        self, steps: list[tuple[int, World, int]], other: bool, refused: dict[int, tuple[Reason, ...]]
    ) -> Iterable[Arrival]:
        """What came after the begin; under other documents it is routed by them."""
        there = set(self._there())
        routes = [(at, routes_of(world.values(), policy_of(world.values(), v))) for at, world, v in steps]
        for number, row in self.rows.items():
            own = self.attempts.get(number, [])
            at = own[0]["eligible"] if own else None
            if number in there or at is None or at >= self.until:
                continue
            shape = self.shapes[number]
            if other:
                routing = [found for since, found in routes if since <= max(at, self.since)][-1]
                try:
                    shape = self._routed(row, shape, routing)
                except RefusedError as error:
                    refused[number] = tuple(error.reasons)
                    continue
            item = PendingItem(
                number, own[0]["id"], row["submitted_at"], at, guaranteed=bool(row["guaranteed"]),
                standby=bool(row["standby"]) and row["activated_at"] is None,
            )  # fmt: skip
            yield Arrival(max(at, self.since), shape, item)

    def _there(self) -> Iterable[int]:
        """Workloads that the state at the begin has."""
        for group in self.snapshot.pending:
            yield from (head.workload_id for head in group.heads)
        yield from (run.workload_id for run in self.snapshot.running.values())
        yield from (hold.workload_id for hold in self.snapshot.holds.values())

    def _routed(self, row: Record, shape: Shape, routing: Any) -> Shape:
        spec = _spec(row["spec_json"])
        place = self.history.place(row["namespace"], row["submitted_at"])
        found = route(
            routing, shape.project, WorkloadKind(row["kind"]),
            shape.environment if place is None else place.environment, spec.queue, spec.priority_class,
        )  # fmt: skip
        same = (shape.queue, shape.priority) == (found.queue, found.priority)
        if same and found.preemptible in (None, shape.preemptible):
            return shape
        preemptible = shape.preemptible if found.preemptible is None else found.preemptible
        return keyed(
            replace(
                shape, queue=found.queue, priority=found.priority, priority_class=found.priority_class,
                preemptible=preemptible,
            )
        )  # fmt: skip

    def recorded_starts(self) -> dict[int, int]:
        """workload → when it was first placed in the window, as it happened."""
        found: dict[int, int] = {}
        for number, own in self.attempts.items():
            placed = [attempt["placed"] for attempt in own if attempt["placed"] is not None]
            within = [at for at in placed if self.since <= at < self.until]
            if within:
                found[number] = min(within)
        return found


def _judge(snapshot: Snapshot, policy: Policy, shape: Shape) -> tuple[Reason, ...]:
    """As at a submit."""
    return can_ever_fit(snapshot, policy, shape) or over_refusing_limit(snapshot, shape)


