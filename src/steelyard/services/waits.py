"""Wait slices of an attempt whose waiting changes by a request: it leaves, is held, or is released."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.evidence.usage import STANDBY, wait_rows
from steelyard.model.lifecycle import Phase
from steelyard.model.reasons import ReasonCode
from steelyard.services.reasons import read_reasons
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.statements import Row


def slices_until(view: View, row: Record, now: int) -> Sequence[Row]:
    """Rows that tile what is not yet sliced of submitted → now: held by its owner, or waiting by the
    binding reason of its shape. `row`: with its attempt."""
    sliced = repository.sliced_until(view, row["attempt_id"])
    since = row["attempt_submitted"] if sliced is None else sliced
    if row["phase"] == Phase.HELD:
        return wait_rows(row["attempt_id"], since, now, (), [(since, now)])
    stood = []
    if row["standby"] and row["attempt"] == 1:
        stood = [(since, row["activated_at"] or now)]
    reasons = [
        (found["t0"], now if found["t1"] is None else found["t1"], _code(found["reasons_json"]))
        for found in repository.reasons_between(view, row["shape_id"], since, now)
    ]
    return wait_rows(row["attempt_id"], since, now, reasons, stood, STANDBY)


def _code(text: str) -> str:
    reasons = read_reasons(text)
    return reasons[0].code if reasons else ReasonCode.PENDING_EVALUATION.value
