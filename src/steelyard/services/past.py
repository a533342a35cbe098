"""The snapshot that a stored cycle worked on, made anew from the log and from intervals.

What others wrote was known to the loop up to the cycle's `log_size`; what the loop wrote itself, all of it
(`written`). So the phase of every workload, the availability of every node and the version of every
declared object are read from the newest leaf of its stream that was known then; what has intervals
(allocations, quarantine, pools, availability of devices) is read as of the cycle's instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from steelyard.model.errors import NotFoundError
from steelyard.model.ids import render
from steelyard.model.lifecycle import HOLDING_PHASES, Phase
from steelyard.model.organisation import Scope
from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.resources import Availability, DeviceClass, ShareKind
from steelyard.model.units import HOUR
from steelyard.model.workloads import Shape, WorkloadSpec
from steelyard.scheduling import HoldView, PendingItem, RunningView, ShapeGroup, Snapshot, total_usage
from steelyard.scheduling.bundles import may_grow, split
from steelyard.scheduling.snapshot import least_of, limited
from steelyard.scheduling.subjects import Counting
from steelyard.services.basis import Basis, read_basis
from steelyard.services.derived import COUNTERS, ORG_VERSION, POLICY_VERSION, POOL_VERSION
from steelyard.services.documents import Document, stored_document
from steelyard.services.learned import run_times_at
from steelyard.services.live import MAX_HEADS, LiveState
from steelyard.services.live_records import Condition, LiveDevice, LiveNode
from steelyard.services.past_members import Had, had_at
from steelyard.services.policy import Since, policy_of, trees_of
from steelyard.services.pool_rules import pools_of, with_state
from steelyard.services.price_lists import prices_at
from steelyard.services.shapes import read_shape, shape_id
from steelyard.services.use_history import history_at
from steelyard.store import past as rows
from steelyard.store.cycles import get_cycle
from steelyard.store.database import View
from steelyard.store.declared import limits_before
from steelyard.store.evictions import evicted_between
from steelyard.store.unit import NO_HEAD

_DECIDING = {ORG_VERSION, POLICY_VERSION, POOL_VERSION}
#: What a device is called may change; its facts tell what it was.
_FACTS = ("family", "model", "memory")
_KINDS = frozenset(kind.value for kind, moved in COUNTERS.items() if _DECIDING & {*moved})
_spec = msgspec.json.Decoder(WorkloadSpec).decode
#: Leaves by which a workload begins to wait.
_WAITS = frozenset({"workload.submit", "workload.retry", "workload.requeue", "workload.release"})


class _Decided(msgspec.Struct):
    holds: tuple[HoldView, ...] = ()


class _Actor(msgspec.Struct):
    id: str
    kind: str


class _Object(msgspec.Struct):
    version_after: int | None


class _Stream(msgspec.Struct):
    name: str
    prev_seq: int | None


class _Moved(msgspec.Struct):
    at: int
    to: str


class _Leaf(msgspec.Struct):
    """What is asked of a leaf here."""

    seq: int
    action: str
    actor: _Actor
    object: _Object
    streams: tuple[_Stream, ...]
    transitions: tuple[_Moved, ...]
    detail: dict[str, Any] | None


_leaf = msgspec.json.Decoder(_Leaf).decode
_decided = msgspec.json.Decoder(_Decided).decode
_nodes = msgspec.json.Decoder(tuple[int, ...]).decode


@dataclass(frozen=True, slots=True)
class _Then:
    """A cycle's view of the world: its instant, and which leaves it knew."""

    view: View
    at: int
    log_size: int
    basis: Basis

    def knew(self, leaf: _Leaf) -> bool:
        """True when the loop had taken the leaf in, or had written it."""
        own = (leaf.actor.id, leaf.actor.kind) == ("control", "control")
        return leaf.seq < (self.basis.written if own else self.log_size)


def as_of(view: View, cycle_id: int) -> tuple[Snapshot, Policy, int]:
    """(snapshot, policy, instant) of a stored cycle. Raises NotFoundError."""
    row = get_cycle(view, Scope.system(), cycle_id)
    if row is None:
        raise NotFoundError("not-found", kind="cycle", id=render("cycle", cycle_id))
    then = _Then(view, row["at"], row["log_size"], read_basis(row))
    documents = _documents(then)
    state = LiveState()
    _load_devices(state, then)
    state.clusters = dict(then.basis.clusters)
    state.trees = trees_of(documents, Since(limits_before(view, then.at), then.at))
    state.pools = with_state(pools_of(documents), then.basis.shut, then.basis.verified)
    state.policy = policy_of(documents, row["policy_version"])
    counting = state.counting()
    state.holds = _holds(then, counting)
    found = _workloads(then, counting)
    running = {item.attempt_id: item for item in found if isinstance(item, RunningView)}
    snapshot = replace(
        state.snapshot(),
        pending=_groups(item for item in found if isinstance(item, tuple)),
        running=running,
        growing=frozenset(key for key, run in running.items() if run.grows is not None),
        usage=_usage(state, running),
        last_looked=_looked(then),
        history=history_at(view, then.basis.history, state.trees.get(QUEUE_TREE), then.at),
        prices=prices_at(view, then.basis.prices),
        run_times=run_times_at(view, then.basis.run_times),
        evicted=evicted_between(view, then.at - HOUR, then.at),
    )
    return snapshot, state.policy, then.at


def documents_of(view: View, cycle_id: int) -> list[Document]:
    """The declared objects that a stored cycle knew. Raises NotFoundError."""
    row = get_cycle(view, Scope.system(), cycle_id)
    if row is None:
        raise NotFoundError("not-found", kind="cycle", id=render("cycle", cycle_id))
    return _documents(_Then(view, row["at"], row["log_size"], read_basis(row)))


# --- streams -----------------------------------------------------------------------------------------------
def _walk(
    then: _Then, heads: Mapping[str, int], enough: Callable[[list[_Leaf]], bool]
) -> dict[str, list[_Leaf]]:
    """Of each stream (`object/…` → seq of its head) the leaves known then, newest first, until `enough`."""
    found: dict[str, list[_Leaf]] = {name: [] for name in heads}
    at = {name: seq for name, seq in heads.items() if seq >= 0}
    while at:
        bodies = rows.leaf_bodies(then.view, at.values())
        following: dict[str, int] = {}
        for name, seq in at.items():
            leaf = _leaf(bodies[seq])
            if then.knew(leaf):
                found[name].append(leaf)
                if enough(found[name]):
                    continue
            before = next(stream.prev_seq for stream in leaf.streams if stream.name == name)
            if before is not None:
                following[name] = before
        at = following
    return found


def _first(leaves: list[_Leaf]) -> bool:
    return bool(leaves)


# --- declared objects and resources --------------------------------------------------------------------
def _documents(then: _Then) -> list[Document]:
    newest = {(row.kind, row.name): row.head_seq for row in rows.declared_heads(then.view, _KINDS)}
    names = {f"object/{kind.lower()}/{name}": (kind, name) for kind, name in newest}
    heads = {stream: newest[key] for stream, key in names.items()}
    known = _walk(then, heads, _first)
    versions = {
        (*names[stream], leaves[0].object.version_after) for stream, leaves in known.items() if leaves
    }
    return [
        stored_document(
            row.kind, row.name, msgspec.json.decode(row.labels_json), msgspec.json.decode(row.spec_json)
        )
        for row in rows.declared_versions(then.view, _KINDS)
        if (row.kind, row.name, row.version) in versions
    ]


def _load_devices(state: LiveState, then: _Then) -> None:
    nodes = {f"object/node/{render('node', row.id)}": row for row in rows.nodes(then.view)}
    known = _walk(then, {name: row.head_seq for name, row in nodes.items()}, _first)
    for name, row in nodes.items():
        if known[name]:
            detail = known[name][0].detail or {}
            available = Availability(detail["availability"])
            node = LiveNode(
                row.id, row.cluster, row.name, detail["labels"], available, None, row.simulated, 0, NO_HEAD
            )
            state.nodes[node.id] = node
            state.touch_node(node.id)
    found = rows.devices(then.view, then.at)
    parents = {row.parent_id for row in found}
    uids = {row.id: row.uid for row in found}
    past, taken = rows.capacity(then.view, then.at), rows.occupied(then.view, then.at)
    other = rows.replaced_facts(then.view, then.at, _FACTS)
    for row in found:
        availability, reason, capacity = past.get(row.id, (row.availability, row.reason, row.capacity))
        family, model, memory = (
            msgspec.json.decode(other[row.id, key]) if (row.id, key) in other else getattr(row, key)
            for key in _FACTS
        )
        device = LiveDevice(
            row.id, row.node_id, row.cluster, row.uid, DeviceClass(row._mapping["class"]), family, model,
            capacity, memory, Availability(availability), reason, row.simulated, row.id in parents, 0,
            row.pool, row.flavor, parent_uid=uids.get(row.parent_id or 0),
        )  # fmt: skip
        if row.id in taken:
            device.condition = Condition(occupied=taken[row.id])
        state.devices[device.id] = device
        state.nodes[device.node_id].devices.append(device)
    for row in rows.allocations(then.view, then.at):
        state.devices[row.device_id].held += row.quantity
        state.devices[row.device_id].share_kind = ShareKind(row.share_kind)
    for row in rows.quarantined(then.view, then.at):
        state.devices[row.device_id].quarantined += row.quantity


# --- workloads -------------------------------------------------------------------------------------------
def _holds(then: _Then, counting: Counting) -> dict[int, HoldView]:
    """Places that were kept, as the cycles that made them decided, charged by the policy of the instant."""
    stood = {attempt: (since, alive) for attempt, since, alive in then.basis.holds}
    made = rows.decisions_at(then.view, {since for since, _ in stood.values()})
    wanted = frozenset(then.basis.activated)
    return {
        hold.attempt_id: replace(
            hold,
            item=replace(hold.item, standby=hold.item.standby and hold.attempt_id not in wanted),
            alive=stood[hold.attempt_id][1],
            charges=counting.charges_at(hold.shape, hold.members),
        )
        for body in made
        for hold in _decided(body).holds
        if stood.get(hold.attempt_id, (None,))[0] == hold.since
    }


@dataclass(slots=True)
class _Known:
    """What was known of a workload: its phase, which attempt it was at, since when it waited."""

    phase: Phase | None = None
    number: int | None = None
    eligible: int | None = None

    @classmethod
    def of(cls, leaves: list[_Leaf]) -> _Known:
        """From its leaves, newest first."""
        known = cls()
        for leaf in leaves:
            if known.phase is None and leaf.transitions:
                known.phase = Phase(leaf.transitions[-1].to)
            if known.number is None:
                first = 1 if leaf.action == "workload.submit" else None
                known.number = (leaf.detail or {}).get("attempt", first)
            if known.eligible is None and leaf.action in _WAITS:
                known.eligible = leaf.transitions[-1].at
        return known

    @property
    def whole(self) -> bool:
        """True when older leaves say nothing more."""
        waits = self.phase is Phase.QUEUED and self.eligible is None
        return self.phase is not None and self.number is not None and not waits


_Waits = tuple[Shape, PendingItem]


def _workloads(then: _Then, counting: Counting) -> list[RunningView | _Waits]:
    """What held devices, and what waited."""
    found = rows.workloads(then.view, then.log_size)
    streams = {
        row.id: f"object/workload/{render('workload', row.id)}"
        for row in found
        if row.head_seq >= then.log_size
    }
    heads = {streams[row.id]: row.head_seq for row in found if row.id in streams}
    walked = _walk(then, heads, lambda leaves: _Known.of(leaves).whole)
    known: dict[int, _Known] = {}
    for row in found:
        leaves = walked[streams[row.id]] if row.id in streams else None
        known[row.id] = _Known(Phase(row.phase), row.attempt) if leaves is None else _Known.of(leaves)
    live = [row for row in found if known[row.id].phase in HOLDING_PHASES | {Phase.QUEUED}]
    attempts = rows.attempts(then.view, {(row.id, known[row.id].number or 0) for row in live})
    shapes = {key: read_shape(body) for key, body in _shape_bodies(then.view, live).items()}
    holding = [attempts[row.id].id for row in live if known[row.id].phase in HOLDING_PHASES]
    members = had_at(then.view, then.at, holding)
    made: list[RunningView | _Waits] = []
    for row in live:
        attempt, shape = attempts[row.id], shapes[row.shape_id]
        if known[row.id].phase is Phase.QUEUED:
            made.append(_waits(row, known[row.id], attempt, shape, then.at))
        else:
            made += _runs(row, known[row.id], attempt, shape, counting, members[attempt.id], then.at)
    return made


def _shape_bodies(view: View, live: Iterable[rows.PastRow]) -> dict[int, str]:
    return rows.shapes(view, {row.shape_id for row in live})


def _waits(
    row: rows.PastRow, known: _Known, attempt: rows.PastRow, shape: Shape, at: int
) -> _Waits:
    eligible = attempt.eligible if known.eligible is None else known.eligible
    return shape, PendingItem(
        row.id, attempt.id, row.submitted_at, eligible or row.submitted_at, attempt.not_before or 0,
        avoid=_nodes(attempt.avoid_json) if attempt.avoid_json else (),
        guaranteed=bool(row.guaranteed),
        standby=bool(row.standby) and (row.activated_at is None or row.activated_at > at),
        served=int(attempt.served),
    )  # fmt: skip


def _runs(
    row: rows.PastRow,
    known: _Known,
    attempt: rows.PastRow,
    shape: Shape,
    counting: Counting,
    had: Had,
    at: int,
) -> list[RunningView]:
    off = attempt.joins_off is not None and attempt.joins_off < at
    steady = known.phase is Phase.RUNNING and not had.leaving and not off
    grows = steady and bool(shape.grows) and may_grow(shape, had.plans)
    started = None if known.phase is Phase.STARTING else attempt.started  # what is in its row came later
    whole = RunningView(
        attempt.id, row.id, shape.key, row.queue, row.project, row.priority, attempt.placed, tuple(had.plans),
        counting.charges_of(shape, had.held), _spec(row.spec_json).preemptible and not row.guaranteed,
        known.phase in (Phase.STOPPING, Phase.RELEASING), row.name, row.submitter, row.kind, started,
        limited(started or attempt.placed, shape.time_limit), least_of(shape), template=shape.template,
        ids=tuple(had.ids) if any(had.ids) else (), grows=shape if grows else None, shrunk_at=had.shrunk_at,
    )  # fmt: skip
    return split(whole, had.leaving, counting)


def _groups(waiting: Iterable[_Waits]) -> tuple[ShapeGroup, ...]:
    items: dict[str, list[PendingItem]] = {}
    shapes: dict[str, Shape] = {}
    for shape, item in waiting:
        shapes[shape.key] = shape
        items.setdefault(shape.key, []).append(item)
    groups = []
    for key, shape in shapes.items():
        ordered = sorted(items[key], key=lambda item: (item.submitted, item.workload_id))
        groups.append(ShapeGroup(shape, tuple(ordered[:MAX_HEADS]), len(ordered)))
    return tuple(groups)


def _usage(state: LiveState, running: Mapping[int, RunningView]) -> dict[str, dict[tuple[str, str], int]]:
    charged: list[RunningView | HoldView] = [*running.values(), *state.holds.values()]
    charges = [item for holder in charged for item in holder.charges]
    return {
        name: total_usage(tree, [(c.node, c.subject, c.quantity) for c in charges if c.tree == name])
        for name, tree in state.trees.items()
    }


def _looked(then: _Then) -> dict[str, int]:
    at = {number: instant for instant, ids in then.basis.looked for number in ids}
    bodies = rows.shapes(then.view, at)
    shapes = [read_shape(body) for body in bodies.values()]
    return {shape.key: at[shape_id(shape.key)] for shape in shapes}
