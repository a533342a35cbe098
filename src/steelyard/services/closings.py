"""Closing and opening pools: rows and leaves, for operators and for the control loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from steelyard.evidence.leaf import Head, LeafDraft, Origin
from steelyard.model.ids import render
from steelyard.model.pools import ClosingCause, DriftOf
from steelyard.services.derived import POOL_VERSION
from steelyard.services.pool_drift import Drift
from steelyard.store import tables as t
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit

Json = dict[str, Any]
NOUN = "closing"
MOST_SAID = 20
MAX_FINDINGS = 200
_encode = msgspec.json.Encoder(order="deterministic").encode


def findings_body(findings: Iterable[Drift]) -> str:
    """What differs as it stands in a row: sorted, at most `MAX_FINDINGS`."""
    listed = sorted(findings, key=lambda entry: (entry.what.value, entry.where))[:MAX_FINDINGS]
    return _encode([list(entry) for entry in listed]).decode()


def read_findings(body: str) -> list[Drift]:
    """The findings of a row."""
    raw = msgspec.json.decode(body)
    return [Drift(DriftOf(what), where, declared, detected) for what, where, declared, detected in raw]


def close_row(
    unit: Unit,
    closing_id: int,
    pool: str,
    cause: ClosingCause,
    findings: str,
    who: str,
    reason: str | None,
    now: int,
    origin: Origin | None = None,
) -> None:
    """A new closing with its leaf."""
    row = unit.insert(
        t.pool_closing,
        id=closing_id,
        pool=pool,
        cause=cause.value,
        findings_json=findings,
        closed_at=now,
        closed_by=who,
        close_reason=reason,
        opened_at=None,
        opened_by=None,
        open_reason=None,
        version=1,
    )
    unit.leaf(_draft("pool.close", closing_id, pool, cause, findings, reason, None, 1, origin), row)
    move_pools(unit)


def change_findings(unit: Unit, row: Record, findings: str) -> None:
    """A drift that goes on with other values."""
    carrier = unit.update(
        t.pool_closing,
        {"id": row["id"], "version": row["version"]},
        findings_json=findings,
        version=row["version"] + 1,
    )
    cause, version = ClosingCause(row["cause"]), row["version"]
    draft = _draft("pool.drift", row["id"], row["pool"], cause, findings, None, version, version + 1, None)
    unit.leaf(draft, carrier, head_of(row))
    move_pools(unit)


def open_row(
    unit: Unit, row: Record, who: str, reason: str | None, now: int, origin: Origin | None = None
) -> None:
    """The end of a closing, with its leaf."""
    carrier = unit.update(
        t.pool_closing,
        {"id": row["id"], "version": row["version"]},
        opened_at=now,
        opened_by=who,
        open_reason=reason,
        version=row["version"] + 1,
    )
    cause, version = ClosingCause(row["cause"]), row["version"]
    draft = _draft(
        "pool.open", row["id"], row["pool"], cause, row["findings_json"], reason, version, version + 1, origin
    )
    unit.leaf(draft, carrier, head_of(row))
    move_pools(unit)


def head_of(row: Record) -> Head:
    """Where the object's own stream stands."""
    return Head(row["head_n"], row["head_seq"], bytes(row["head_hash"] or b""))


def move_pools(unit: Unit) -> None:
    """What pools let in changed."""
    unit.upsert(t.counter, ("name",), add=("value",), name=POOL_VERSION, value=1)


def _draft(
    action: str,
    closing_id: int,
    pool: str,
    cause: ClosingCause,
    findings: str,
    reason: str | None,
    before: int | None,
    after: int,
    origin: Origin | None,
) -> LeafDraft:
    listed = read_findings(findings)
    return LeafDraft(
        action=action,
        object_kind=NOUN,
        object_id=render(NOUN, closing_id),
        version_before=before,
        version_after=after,
        reason_code=cause.value,
        origin=origin,
        extra={
            "pool": pool,
            "cause": cause.value,
            "reason": reason,
            "findings": [drift_view(entry) for entry in listed[:MOST_SAID]],
            "count": len(listed),
        },
    )


def drift_view(entry: Drift) -> Json:
    """A difference as shown."""
    return {
        "what": entry.what.value, "where": entry.where, "declared": entry.declared, "detected": entry.detected
    }  # fmt: skip


def shut_params(rows: Sequence[Record], names: Mapping[str, str]) -> dict[str, str | int | None]:
    """Why a pool is closed, as parameters of the reason, of all closings that stand."""
    found: dict[str, str | int | None] = {}
    for row in rows:
        if row["cause"] == ClosingCause.OPERATOR:
            found |= {"by": names.get(row["closed_by"], row["closed_by"]), "reason": row["close_reason"]}
        elif listed := read_findings(row["findings_json"]):
            found |= {**drift_view(listed[0]), "count": len(listed)}
    return found
