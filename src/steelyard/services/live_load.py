"""Load what is live from the store, and the snapshots that need no live state.

`SnapshotSource.full` is what the next cycle would see; `for_submit` has only quota and capacity, which
seldom change and are kept by their version counters.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from steelyard.evidence.leaf import Head
from steelyard.model.availability import OFFERED, closed_state
from steelyard.model.health import DeviceFlag, OnDeviceFailure
from steelyard.model.ids import render
from steelyard.model.lifecycle import STAGE_TIMES, Outcome, Phase
from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.resources import Availability, DeviceClass, ShareKind
from steelyard.model.units import HOUR, parse_duration
from steelyard.model.workloads import Shape, WorkloadSpec
from steelyard.scheduling import ClusterView, HoldView, Snapshot
from steelyard.services.conditions import place_of, read_condition
from steelyard.services.learned import load_run_times
from steelyard.services.live import LiveState
from steelyard.services.live_records import (
    LiveAllocation,
    LiveAttempt,
    LiveDevice,
    LiveFlag,
    LiveMember,
    LiveNode,
    LiveRelease,
)
from steelyard.services.past import as_of
from steelyard.services.policy import load_policy, quota_trees
from steelyard.services.pool_rules import load_pools
from steelyard.services.present import Present
from steelyard.services.price_lists import load_prices
from steelyard.services.use_history import load_history
from steelyard.store import live as rows
from steelyard.store import releases
from steelyard.store.database import View
from steelyard.store.evictions import evicted_between
from steelyard.store.evictions import newest as newest_eviction

_spec = msgspec.json.Decoder(WorkloadSpec).decode
#: Those that wait for the same thing share it: one record, read once.
_shape = lru_cache(maxsize=10_000)(msgspec.json.Decoder(Shape).decode)
_hold = msgspec.json.Decoder(HoldView).decode
_nodes = msgspec.json.Decoder(tuple[int, ...]).decode


def load_state(connection: View) -> LiveState:
    """Everything live, as committed in this read view."""
    state = LiveState()
    load_policy_into(state, connection)
    load_devices_into(state, connection)
    members = load_members(connection)
    left = rows.members_left(connection)
    for row in rows.live_workloads(connection):
        read = live_attempt(row, members.get(row.attempt_id, []))
        read.shrunk_at, read.left_at = left.get(read.attempt_id, (None, 0))
        state.add(read)
    for row in rows.holds(connection):
        hold, attempt = _hold(row.plan_json), state.attempts.get(row.attempt_id)
        # one that left while it was reserved: the next cycle drops its hold
        item = hold.item if attempt is None else attempt.item()
        charges = state.counting().charges_at(hold.shape, hold.members)
        state.holds[row.attempt_id] = replace(hold, item=item, alive=attempt is not None, charges=charges)
    for tree, usage in rows.usage_counters(connection).items():
        state.usage[tree] = usage
    load_releases_into(state, connection)
    queues = state.trees.get(QUEUE_TREE)
    state.history = load_history(connection, state.policy.fairness, queues)
    state.prices = load_prices(connection)
    state.run_times = load_run_times(connection)
    state.evicted = evicted_between(connection, newest_eviction(connection) - HOUR)
    return state


def load_releases_into(state: LiveState, connection: View) -> None:
    """Unproven releases that are open, with what they keep in quarantine."""
    for row in releases.open_releases(connection):
        state.releases[row.attempt_id] = live_release(row)
    for row in rows.quarantines(connection):
        if row.attempt_id in state.releases:
            state.releases[row.attempt_id].quantities.append((row.device_id, row.quantity))


def live_release(row: Any) -> LiveRelease:
    """A row of `store.releases` as a live record; its quantities are not in it."""
    return LiveRelease(
        row.attempt_id,
        row.workload_id,
        row.project,
        tuple(msgspec.json.decode(row.clusters_json, type=list[str])),
        row.quarantined_at,
        row.seen_json,
        row.version,
        Head(row.head_n, row.head_seq, bytes(row.head_hash or b"")),
        asked=row.asked,
        asked_by=row.asked_by,
        asked_reason=row.asked_reason,
        asked_at=row.asked_at,
        fenced_at=row.fenced_at,
    )


def load_policy_into(state: LiveState, connection: View) -> None:
    """Trees, policy and cluster views, anew."""
    state.policy = load_policy(connection)
    state.trees = dict(quota_trees(connection))
    state.pools = load_pools(connection)
    declared = rows.declared_current(connection, "Cluster")
    state.release_within = _release_within(declared)
    state.stops_on_failure = {name for name, body in declared.items() if _stops(body)}
    state.clusters = {
        row.cluster: ClusterView(row.cluster, row.as_of, row.reachable)
        for row in rows.observations(connection)
    }


def _stops(body: str) -> bool:
    return bool(msgspec.json.decode(body).get("onDeviceFailure") == OnDeviceFailure.STOP)


def _release_within(clusters: dict[str, str]) -> dict[str, int]:
    specs = {name: msgspec.json.decode(body) for name, body in clusters.items()}
    given = {name: spec["releaseWithin"] for name, spec in specs.items() if "releaseWithin" in spec}
    return {name: parse_duration(value) for name, value in given.items()}


def load_devices_into(state: LiveState, connection: View) -> None:
    """Nodes and devices with what is held and quarantined of them, their flags and what is said of them."""
    for row in rows.flags(connection):
        state.flags.setdefault(row.object_id, {})[DeviceFlag(row.flag)] = live_flag(row)
    versions = rows.node_versions(connection)
    for row in rows.nodes(connection):
        state.nodes[row.id] = _live_node(row, versions.get(row.id, 0))
        state.touch_node(row.id)
    uids: dict[int, str] = {}
    for row in rows.devices(connection):
        device = _live_device(row, uids.get(row.parent_id or 0))
        uids[row.id] = row.uid
        state.devices[row.id] = device
        state.nodes[row.node_id].devices.append(device)
    for row in rows.open_allocations(connection):
        device = state.devices[row.device_id]
        device.held += row.quantity
        device.share_kind = ShareKind(row.share_kind)
    for row in rows.quarantines(connection):
        state.devices[row.device_id].quarantined += row.quantity
    for row in rows.conditions(connection):
        device = state.devices[row.device_id]
        device.condition, device.condition_version = read_condition(row), row.version
    _place_devices(state)


def _live_node(row: Any, state_version: int) -> LiveNode:
    labels = msgspec.json.decode(row.labels_json, type=dict[str, str])
    head = Head(row.head_n, row.head_seq, bytes(row.head_hash or b""))
    return LiveNode(
        row.id, row.cluster, row.name, labels, Availability(row.availability), row.reason, row.simulated,
        row.version, head, text=row.reason_text, state_version=state_version,
    )  # fmt: skip


def _live_device(row: Any, parent_uid: str | None) -> LiveDevice:
    return LiveDevice(
        row.id, row.node_id, row.cluster, row.uid, DeviceClass(row._mapping["class"]), row.family, row.model,
        row.capacity, row.memory, Availability(row.availability), row.reason, row.simulated,
        row.has_children, row.version, row.pool, row.flavor, parent_uid, text=row.reason_text,
    )  # fmt: skip


def _place_devices(state: LiveState) -> None:
    """What the place of each makes of it, told from what is stored."""
    by_uid = {(device.cluster, device.uid): device.id for device in state.devices.values()}
    for device in state.devices.values():
        if device.reason is None:
            continue
        parent = by_uid.get((device.cluster, device.parent_uid or ""))
        flags = state.flags_on(device.id, device.node_id, parent)
        stored = (device.availability, device.reason)
        node = state.nodes[device.node_id]
        device.place = closed_state(node.availability, node.reason)[0]
        if device.place != OFFERED:
            continue
        device.place = place_of(stored, device.condition, flags, device.unowned, device.has_children)


def live_flag(row: Any) -> LiveFlag:
    """A row of the flag table as a live record."""
    return LiveFlag(
        row.id, row.kind, row.object_id, DeviceFlag(row.flag), row.drain, row.set_by, row.reason,
        row.valid_from, row.version, Head(row.head_n, row.head_seq, bytes(row.head_hash or b"")),
        row.attempt_id,
    )  # fmt: skip


def load_members(connection: View) -> dict[int, list[LiveMember]]:
    """Members of live attempts by attempt id, with their open allocations."""
    allocations: dict[int, list[LiveAllocation]] = {}
    for row in rows.open_allocations(connection):
        allocations.setdefault(row.member_id, []).append(
            LiveAllocation(
                row.id,
                row.device_id,
                row.node_id,
                row.cluster,
                row.flavor,
                DeviceClass(row._mapping["class"]),
                row.quantity,
                ShareKind(row.share_kind),
                row.t0,
                row.org_version,
                row.policy_version,
                row.quota_basis,
                row.lender,
            )
        )
    members: dict[int, list[LiveMember]] = {}
    for row in rows.members_of_live(connection):
        members.setdefault(row.attempt_id, []).append(
            LiveMember(
                row.id,
                render("member", row.id),
                row.role,
                row.idx,
                row.cluster,
                row.node_id,
                row.node_name,
                row.phase,
                allocations.get(row.id, []),
                None,
                row.started_at,
                row.ended_at,
                row.exit_code,
                row.exit_signal,
                row.failure,
                row.endpoint,
                apart=bool(row.apart),
                leaving_at=row.leaving_at,
                joined_at=row.joined_at,
            )
        )
    return members


def read_avoided(text: str | None) -> tuple[int, ...]:
    """The nodes that an attempt is to avoid, as its row has them."""
    return _nodes(text) if text else ()


def live_attempt(row: Any, members: list[LiveMember]) -> LiveAttempt:
    """A row of `store.live` as a live attempt."""
    shape = _shape(row.body_json)
    times = {name: getattr(row, name) for name in STAGE_TIMES if name != "release_confirmed"}
    times["release_confirmed"] = None
    simulated = bool(row.attempt_simulated)
    return LiveAttempt(
        row.id,
        row.attempt_id,
        row.attempt,
        row.name,
        row.namespace,
        row.project,
        row.kind,
        row.queue,
        row.priority,
        row.submitter,
        shape,
        row.shape_id,
        _spec(row.spec_json),
        Phase(row.attempt_phase),
        row.sub_stage,
        row.submitted_at,
        row.version,
        row.attempt_version,
        Head(row.head_n, row.head_seq, bytes(row.head_hash or b"")),
        times,
        row.cancel_requested_at,
        row.stop_reason,
        row.not_before or 0,
        row.attempt_policy,
        row.previous_id,
        row.sliced_until,
        simulated,
        None if row.attempt_outcome is None else Outcome(row.attempt_outcome),
        members,
        avoid=read_avoided(row.avoid_json),
        group_id=row.group_id,
        group_index=row.group_index,
        guaranteed=bool(row.guaranteed),
        standby=bool(row.standby),
        activated_at=row.activated_at,
        served=int(row.served),
        starving_bound=row.starving_bound,
        joins_off=row.joins_off,
    )


#: Counters that move with what a submit is judged on.
_VERSIONS = ("policy_version", "org_version", "inventory_version", "pool_version")


class SnapshotSource:
    """Snapshots for use cases. Thread-safe; parts that seldom change are kept by version."""

    def __init__(self, present: Present | None = None) -> None:
        """`present`: the loop of this server, which knows what lives without reading it."""
        self._present = present
        self._lock = threading.Lock()
        self._key: tuple[int, ...] | None = None
        self._fixed = Snapshot()

    def for_submit(self, connection: View, _now: int) -> Snapshot:
        """Quota trees, and what an empty cluster holds; nothing that is used, runs or waits."""
        counters = rows.counters(connection)
        key = tuple(counters.get(name, 0) for name in _VERSIONS)
        with self._lock:
            if key != self._key:
                state = LiveState()
                load_policy_into(state, connection)
                load_devices_into(state, connection)
                self._fixed, self._key = state.snapshot(), key
            return self._fixed

    def as_of(self, connection: View, cycle_id: int) -> tuple[Snapshot, Policy, int]:
        """What a stored cycle worked on, its policy and its instant. Raises NotFoundError."""
        return as_of(connection, cycle_id)

    def full(self, connection: View, _now: int) -> tuple[Snapshot, Policy]:
        """What the next cycle would see: asked of the loop where this server has it, else read."""
        made = self._present.ask() if self._present is not None else None
        if made is not None:
            return made
        state = load_state(connection)
        return state.snapshot(), state.policy
