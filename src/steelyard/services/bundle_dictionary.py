"""usage/dictionary.json of a bundle: what each field means and its unit, for readers of other programs."""

from __future__ import annotations

from typing import Any

_TIME = "integer, microseconds since 1970-01-01T00:00:00Z; intervals are [t0, t1)"
_QUANTITY = "integer: milli-devices (gpu, npu, other), milli-cores (cpu), MiB (memory)"
_SUM = "decimal text: quantity × microseconds"

DICTIONARY: dict[str, Any] = {
    "v": 1,
    "not_billing_data": True,
    "identity": "at each instant, of each resource: holding + idle + unavailable + unknown = capacity",
    "units": {"time": _TIME, "quantity": _QUANTITY, "sum": _SUM},
    "files": {
        "segments.jsonl": {
            "resource": "device id, never reused",
            "class": "gpu, npu, cpu, memory or other",
            "dimension": "device, cpu or memory: what is counted",
            "quantity": _QUANTITY,
            "t0": _TIME,
            "t1": _TIME,
            "kind": "holding, idle, unavailable or unknown",
            "state": "of holding: starting, running, suspended, stopping, releasing; of idle: schedulable, "
            "fragmented, blocked, reserved, draining",
            "reason": "why it was not held; of idle.reserved the attempt it was kept for",
            "record": "hex of the first 16 bytes of SHA-256 over [ledger, cluster, allocation, state, t0]",
            "attribution": "attributed, system, shared-split or unattributed",
            "org_version": "version of the organisation by which project and team were found",
            "quota_basis": "in-quota or borrowed",
            "end_reason": "outcome of the attempt, or open",
            "release": "confirmed, quarantined, not-observable, or open",
            "simulated": "true: verifies nothing about hardware",
        },
        "capacity.jsonl": {
            "capacity": _QUANTITY,
            "availability": "available, unavailable.planned, unavailable.unplanned or unknown",
        },
        "waits.jsonl": {"reason": "what the attempt waited for during [t0, t1)"},
        "receipts.jsonl": {
            "member": "who left an attempt that goes on, by role and index; null: the attempt ended",
            "state": "confirmed, quarantined or not-observable; answered later by leaves of release.*",
            "confirmed": _TIME,
            "reasons": "why something is kept back; empty where all is proven free",
        },
        "refusals.jsonl": {"leaf": "seq of its leaf in audit/leaves.jsonl", "asked": _QUANTITY},
        "coverage.jsonl": {"blind": "why the source was not observed during [t0, t1)"},
        "report.json": {"held": _SUM, "by_state": _SUM, "quantity_time": _SUM, "capacity_time": _SUM},
    },
}
