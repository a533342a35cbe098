"""Why things wait, over time: the reasons of each shape as intervals, and the wait slices made of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steelyard.control.context import Context
from steelyard.evidence.usage import wait_rows
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.scheduling import ShapeReasons
from steelyard.services.live_records import LiveAttempt
from steelyard.services.shapes import shape_id
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
_codes = msgspec.json.Decoder(list[Reason]).decode

Interval = tuple[int, int | None, str]


class Waiting:
    """The reasons that stand by shape, and the intervals since the oldest that still waits."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[str, tuple[int, str]] = {}  # shape key → (t0, reasons JSON)
        self._past: dict[str, list[Interval]] = {}
        with context.store.read() as connection:
            for row in rows.open_shape_reasons(connection):
                self._open[f"#{row.shape_id}"] = (row.t0, row.reasons_json)

    def note(self, unit: Unit, cycle_id: int, now: int, found: Mapping[str, ShapeReasons]) -> int:
        """Write the reasons that changed; how many did."""
        changed = 0
        for key in sorted(found):
            body = _encode(found[key].reasons).decode()
            before = self._current(key)
            if before is not None and before[1] == body:
                continue
            self._close(unit, key, now)
            self._open[key] = (now, body)
            unit.insert(
                t.shape_reason,
                shape_id=shape_id(key),
                t0=now,
                t1=None,
                cycle_id=cycle_id,
                reasons_json=body,
                approximate=found[key].approximate,
            )
            changed += 1
        return changed

    def settle(self, unit: Unit, now: int) -> None:
        """Close the reasons of shapes of which nothing waits any more."""
        waiting = self._context.state.waiting_shapes()
        for key in [key for key in self._open if not key.startswith("#") and key not in waiting]:
            self._close(unit, key, now)
            self._past.pop(key, None)

    def current(self, key: str) -> list[Reason]:
        """The reasons that stand for a shape; empty when none were made yet."""
        before = self._current(key)
        return [] if before is None else _codes(before[1])

    def slices(self, unit: Unit, attempt: LiveAttempt, now: int) -> None:
        """Wait slices that tile submitted → now for an attempt that stops waiting."""
        submitted = attempt.times["submitted"] or now
        eligible = attempt.times.get("eligible")
        held = [(submitted, eligible)] if eligible is not None and eligible > submitted else []
        reasons = [(t0, t1 or now, code) for t0, t1, code in self._history(attempt, submitted, now)]
        for row in wait_rows(attempt.attempt_id, submitted, now, reasons, held):
            unit.insert(t.wait_slice, **row)

    def _history(self, attempt: LiveAttempt, since: int, now: int) -> list[Interval]:
        key = attempt.shape.key
        found = self._past.get(key, [])
        current = self._current(key)
        last = [(current[0], now, _code(current[1]))] if current is not None else []
        if (found and found[0][0] <= since) or (current is not None and current[0] <= since):
            return [*found, *last]
        if current is None and not found:
            return []
        return [*found, *last]

    def _current(self, key: str) -> tuple[int, str] | None:
        stored = f"#{shape_id(key)}"
        if stored in self._open:
            self._open[key] = self._open.pop(stored)
        return self._open.get(key)

    def _close(self, unit: Unit, key: str, now: int) -> None:
        before = self._current(key)
        if before is None:
            return
        del self._open[key]
        self._past.setdefault(key, []).append((before[0], now, _code(before[1])))
        unit.update(t.shape_reason, {"shape_id": shape_id(key), "t0": before[0]}, null=("t1",), t1=now)


def _code(body: str) -> str:
    reasons = _codes(body)
    return reasons[0].code if reasons else ReasonCode.PENDING_EVALUATION
