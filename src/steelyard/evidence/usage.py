"""Usage records: holding segments from allocations, wait slices from reasons, and their roll-up.

Pure functions from what the ledger knows to rows of the usage tables. Times are µs UTC, half-open;
quantities in milli-devices, milli-cores or MiB; products are Python integers of any size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from steelyard.evidence.meter import Meter, MeterWrites
from steelyard.evidence.meter_state import MeterDevice, MeterError, Row
from steelyard.model.ids import render
from steelyard.model.lifecycle import holding_tiles
from steelyard.model.organisation import OrgPlace
from steelyard.model.orghistory import OrgHistory
from steelyard.model.reasons import WAIT_SLICE
from steelyard.model.resources import DIMENSION, DeviceClass, ShareKind

__all__ = [
    "AttemptFacts",
    "EndFacts",
    "Held",
    "Meter",
    "MeterDevice",
    "MeterError",
    "MeterWrites",
    "holding_rows",
    "usage_rows",
    "wait_rows",
]

SOURCE = "ledger"
ATTRIBUTED, UNATTRIBUTED = "attributed", "unattributed"
HELD_BY_USER, STANDBY = "held-by-user", "standby"
NOT_EVALUATED = "evaluation"


class AttemptFacts(NamedTuple):
    """Who holds: as of the attempt's placement. `project` is the workload's own, for what has no place."""

    workload_id: int
    attempt_id: int
    kind: str
    queue: str
    priority: int
    submitter: str
    namespace: str
    project: str
    simulated: bool


class EndFacts(NamedTuple):
    """How it ended. An attempt that still runs has `OPEN`."""

    end_reason: str = "open"  # the outcome
    failure_stage: str | None = None
    failure_code: str | None = None
    release: str = "open"  # confirmed | quarantined | not-observable: the receipt's state


OPEN = EndFacts()


class Held(Protocol):
    """An allocation, as the ledger or the live state holds it."""

    @property
    def id(self) -> int: ...
    @property
    def device_id(self) -> int | None: ...
    @property
    def cluster(self) -> str: ...
    @property
    def flavor(self) -> str: ...
    @property
    def device_class(self) -> DeviceClass: ...
    @property
    def quantity(self) -> int: ...
    @property
    def share_kind(self) -> ShareKind: ...
    @property
    def t0(self) -> int: ...
    @property
    def org_version(self) -> int: ...
    @property
    def policy_version(self) -> int: ...
    @property
    def quota_basis(self) -> str: ...
    @property
    def lender(self) -> str | None: ...


def holding_rows(
    facts: AttemptFacts,
    allocations: Iterable[Held],
    times: dict[str, int | None],
    until: int,
    org: OrgHistory,
    end: EndFacts = OPEN,
) -> list[Row]:
    """Rows of `holding_segment`: the attempt's tiles up to `until`, cut where its organisation changed.

    An allocation with an attribute `t1` that is set ends there. Record ids are made of what is recorded,
    so that making the rows twice makes the same rows.
    """
    tiles = holding_tiles(times, until)
    if not tiles:
        return []
    pieces = _placed_tiles(tiles, facts.namespace, org)
    common = {
        "workload_id": facts.workload_id,
        "attempt_id": facts.attempt_id,
        "kind": facts.kind,
        "queue": facts.queue,
        "priority": facts.priority,
        "submitter": facts.submitter,
        "simulated": facts.simulated,
        "end_reason": end.end_reason,
        "failure_stage": end.failure_stage,
        "failure_code": end.failure_code,
        "release": end.release,
    }
    rows: list[Row] = []
    for allocation in allocations:
        first, last = allocation.t0, getattr(allocation, "t1", None)
        own = _allocation_columns(allocation)
        own.update(common)
        prefix = record_prefix(allocation.cluster, allocation.id)
        for state, t0, t1, place in pieces:
            if t0 < first:
                t0 = first
            if last is not None and t1 > last:
                t1 = last
            if t0 < t1:
                row = own.copy()
                row["record_id"] = sha256(f'{prefix}"{state}",{t0}]'.encode()).digest()[:16]
                row["state"], row["t0"], row["t1"] = state, t0, t1
                row.update(place or _nowhere(facts, allocation.org_version))
                rows.append(row)
    return rows


def record_prefix(cluster: str, allocation_id: int) -> str:
    """The beginning of the canonical JSON `["ledger", cluster, allocation, state, t0]` of a record id."""
    return f'["{SOURCE}","{cluster}","{render("allocation", allocation_id)}",'


def _allocation_columns(allocation: Held) -> Row:
    device_class = DeviceClass(allocation.device_class)
    return {
        "device_id": allocation.device_id,
        "allocation_id": allocation.id,
        "cluster": allocation.cluster,
        "device_class": device_class.value,
        "dimension": DIMENSION[device_class].value,
        "flavor": allocation.flavor,
        "share_kind": ShareKind(allocation.share_kind).value,
        "quantity": allocation.quantity,
        "policy_version": allocation.policy_version,
        "quota_basis": allocation.quota_basis,
        "lender": allocation.lender,
    }


def _placed_tiles(
    tiles: Sequence[tuple[str, int, int]], namespace: str, org: OrgHistory
) -> list[tuple[str, int, int, Row | None]]:
    """Tiles with the columns of where the namespace stood, None where it stood nowhere."""
    since, place = org.steady(namespace)
    if tiles[0][1] >= since:
        columns = _place_columns(place)
        return [(state, t0, t1, columns) for state, t0, t1 in tiles]
    return [
        (state, a, b, _place_columns(there))
        for state, t0, t1 in tiles
        for a, b, there in org.pieces(namespace, t0, t1)
    ]


def _place_columns(place: OrgPlace | None) -> Row | None:
    if place is None:
        return None
    return {
        "namespace": place.namespace,
        "project": place.project,
        "team": place.team,
        "environment": place.environment,
        "cost_centre": place.cost_centre,
        "org_version": place.version,
        "attribution": ATTRIBUTED,
    }


def _nowhere(facts: AttemptFacts, org_version: int) -> Row:
    """Used while its namespace had no place: said, not guessed; scope stays with the workload's project."""
    return {
        "namespace": facts.namespace,
        "project": facts.project,
        "team": None,
        "environment": None,
        "cost_centre": None,
        "org_version": org_version,
        "attribution": UNATTRIBUTED,
    }


def wait_rows(
    attempt_id: int,
    submitted: int,
    placed: int,
    reasons: Iterable[tuple[int, int | None, str]] = (),
    held: Iterable[tuple[int, int | None]] = (),
    held_as: str = HELD_BY_USER,
) -> list[Row]:
    """Rows of `wait_slice` that tile `[submitted, placed)` exactly; equal neighbours are one row.

    `reasons` are (t0, t1, reason code) of its shape, `held` the times it was held by its owner (or, as
    `held_as` says, stood by), which go before. `placed` is when the wait ended, also by leaving the queue.
    A moment without a reason is
    `evaluation`: nobody had looked yet.
    """
    if not reasons and not held:
        span = [(submitted, placed, NOT_EVALUATED)] if submitted < placed else []
    else:
        own = [(t0, t1, held_as) for t0, t1 in held]
        span = _tile(own, submitted, placed, lambda a, b: _by_shape(reasons, a, b))
    rows: list[Row] = []
    for t0, t1, reason in span:
        if rows and rows[-1]["reason"] == reason:
            rows[-1]["t1"] = t1
        else:
            rows.append({"attempt_id": attempt_id, "t0": t0, "t1": t1, "reason": reason})
    return rows


def _by_shape(reasons: Iterable[tuple[int, int | None, str]], t0: int, t1: int) -> list[tuple[int, int, str]]:
    known = [(a, b, WAIT_SLICE.get(code, "unknown")) for a, b, code in reasons]
    return _tile(known, t0, t1, lambda a, b: [(a, b, NOT_EVALUATED)])


def _tile(
    known: Iterable[tuple[int, int | None, str]], t0: int, t1: int, fill: Any
) -> list[tuple[int, int, str]]:
    """`[t0, t1)` covered by `known` where it reaches (the earlier goes first), by `fill(a, b)` elsewhere."""
    tiles: list[tuple[int, int, str]] = []
    at = t0
    for start, end, label in sorted(known, key=lambda item: item[0]):
        stop = t1 if end is None else min(end, t1)
        begin = max(start, at)
        if begin >= stop:
            continue
        if at < begin:
            tiles.extend(fill(at, begin))
        tiles.append((begin, stop, label))
        at = stop
    if at < t1:
        tiles.extend(fill(at, t1))
    return tiles


def usage_rows(rows: Iterable[Mapping[str, Any]], window: tuple[int, int], by: Sequence[str]) -> list[Row]:
    """Holding rows cut at the window's borders and summed by the columns `by`, in their order.

    Each: the `by` columns, `simulated`, `held` (quantity × µs) and `by_state` (the same by metering state).
    """
    start, end = window
    sums: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        length = min(row["t1"], end) - max(row["t0"], start)
        if length > 0:
            key = (*(row[name] for name in by), bool(row["simulated"]))
            sums[key][row["state"]] += length * row["quantity"]
    return [
        {
            **dict(zip((*by, "simulated"), key, strict=True)),
            "held": sum(states.values()),
            "by_state": dict(sorted(states.items())),
        }
        for key, states in sorted(sums.items(), key=lambda item: [str(part) for part in item[0]])
    ]
