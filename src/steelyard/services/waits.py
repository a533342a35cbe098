"""Wait slices of an attempt that leaves without having been placed."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.evidence.usage import wait_rows
from steelyard.model.reasons import ReasonCode
from steelyard.services.reasons import read_reasons
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.statements import Row


def slices_until(view: View, row: Record, now: int) -> Sequence[Row]:
    """Rows that tile submitted → now by the binding reason of the shape. `row`: with its attempt."""
    since, eligible = row["attempt_submitted"], row["eligible"]
    reasons = [
        (found["t0"], now if found["t1"] is None else found["t1"], _code(found["reasons_json"]))
        for found in repository.reasons_between(view, row["shape_id"], since, now)
    ]
    held = []
    if eligible is None:
        held.append((since, now))
    elif eligible > since:
        held.append((since, min(eligible, now)))
    return wait_rows(row["attempt_id"], since, now, reasons, held)


def _code(text: str) -> str:
    reasons = read_reasons(text)
    return reasons[0].code if reasons else ReasonCode.PENDING_EVALUATION.value
