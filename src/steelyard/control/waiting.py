"""Why things wait, over time: the reasons of each shape as intervals, and the wait slices made of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steelyard.control.context import Context
from steelyard.evidence.usage import STANDBY, wait_rows
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
    """The reasons that stand by shape id, and the intervals since the oldest that still waits."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._past: dict[int, list[Interval]] = {}
        self._loaded: set[int] = set()
        self._looks: dict[int, int] = {}  # by shape id, how often what stands was found
        with context.store.read() as connection:
            self._open: dict[int, tuple[int, str]] = {}
            for row in rows.open_shape_reasons(connection):
                self._open[row.shape_id] = (row.t0, row.reasons_json)
                self._looks[row.shape_id] = row.looks

    def note(self, unit: Unit, cycle_id: int, now: int, found: Mapping[str, ShapeReasons]) -> int:
        """Write the reasons that changed; how many did."""
        changed = 0
        for key in sorted(found):
            shape, body = shape_id(key), _encode(found[key].reasons).decode()
            before = self._open.get(shape)
            if before is not None and before[1] == body:
                self._again(unit, shape, before[0])
                continue
            self._close(unit, shape, now)
            self._open[shape] = (now, body)
            self._looks[shape] = 1
            unit.insert(
                t.shape_reason,
                shape_id=shape,
                t0=now,
                t1=None,
                cycle_id=cycle_id,
                reasons_json=body,
                approximate=found[key].approximate,
                looks=1,
            )
            changed += 1
        return changed

    def _again(self, unit: Unit, shape: int, since: int) -> None:
        """The same was found once more: one row, and its count. It is written when it has doubled, and with
        the end of the row, so that waiting long costs little."""
        looks = self._looks[shape] = self._looks.get(shape, 1) + 1
        if looks & (looks - 1) == 0:
            unit.update(t.shape_reason, {"shape_id": shape, "t0": since}, looks=looks)

    def settle(self, unit: Unit, now: int) -> None:
        """Close the reasons of shapes of which nothing waits any more."""
        state = self._context.state
        shapes = state.waiting_shapes()
        for key in state.last_looked.keys() - shapes.keys():
            del state.last_looked[key]  # whatever waits there next is looked at afresh
        waiting = {shape_id(key) for key in shapes}
        for shape in self._open.keys() - waiting:
            self._close(unit, shape, now)
        for shape in self._past.keys() - waiting:
            del self._past[shape]
            self._loaded.discard(shape)

    def current(self, key: str) -> list[Reason]:
        """The reasons that stand for a shape; empty when none were made yet."""
        before = self._open.get(shape_id(key))
        return [] if before is None else _codes(before[1])

    def slices(self, unit: Unit, attempt: LiveAttempt, now: int) -> None:
        """Wait slices that tile submitted → now for an attempt that stops waiting."""
        since = attempt.sliced_until or attempt.times["submitted"] or now
        reasons = [(t0, t1 or now, code) for t0, t1, code in self._history(attempt, since, now)]
        stood = [(since, attempt.activated_at or now)] if attempt.standby and attempt.number == 1 else []
        for row in wait_rows(attempt.attempt_id, since, now, reasons, stood, STANDBY):
            unit.insert(t.wait_slice, **row)

    def _history(self, attempt: LiveAttempt, since: int, now: int) -> list[Interval]:
        """The shape's reasons from `since` on; what an earlier life of the loop wrote is read once."""
        shape = attempt.shape_id
        current = self._open.get(shape)
        past = self._past.get(shape, [])
        first = past[0][0] if past else now if current is None else current[0]
        if first > since and shape not in self._loaded:
            self._loaded.add(shape)
            past = self._past[shape] = self._read(shape, since, first)
        last = [] if current is None else [(current[0], now, _code(current[1]))]
        return [*past, *last]

    def _read(self, shape: int, since: int, until: int) -> list[Interval]:
        with self._context.store.read() as connection:
            stored = rows.shape_history(connection, shape, since)
        older = [(t0, t1, _code(body)) for t0, t1, body in stored if t1 is not None and t1 <= until]
        return [*older, *self._past.get(shape, [])]

    def _close(self, unit: Unit, shape: int, now: int) -> None:
        before = self._open.pop(shape, None)
        if before is None:
            return
        self._past.setdefault(shape, []).append((before[0], now, _code(before[1])))
        looks = self._looks.pop(shape, 1)
        unit.update(
            t.shape_reason, {"shape_id": shape, "t0": before[0]}, null=("t1",), t1=now, looks=looks
        )


def _code(body: str) -> str:
    reasons = _codes(body)
    return reasons[0].code if reasons else ReasonCode.PENDING_EVALUATION
