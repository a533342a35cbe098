"""Why things wait, over time: the reasons of each shape as intervals, and the wait slices made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

_NONE = "[]"

#: (from, until, code)
Interval = tuple[int, int, str]


@dataclass(slots=True)
class _Standing:
    """What stands of a shape: since when, its reasons as they are written, the first one's code, and how
    often it was found."""

    since: int
    body: str
    code: str
    looks: int


class Waiting:
    """The reasons that stand by shape id, and the intervals since the oldest that still waits. Of these only
    the code is kept, and neighbours with the same one are one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._began = context.now()  # what happened later is in memory
        self._past: dict[int, list[Interval]] = {}
        self._loaded: set[int] = set()
        with context.store.read() as connection:
            self._open = {
                row.shape_id: _Standing(row.t0, row.reasons_json, _code(row.reasons_json), row.looks)
                for row in rows.open_shape_reasons(connection)
            }

    def note(self, unit: Unit, cycle_id: int, now: int, found: Mapping[str, ShapeReasons]) -> int:
        """Write the reasons that changed; how many did."""
        changed = 0
        for key in sorted(found):
            shape, reasons = shape_id(key), found[key].reasons
            body, before = _encode(reasons).decode(), self._open.get(shape)
            if before is not None and before.body == body:
                self._again(unit, shape, before)
                continue
            self._close(unit, shape, now)
            self._open[shape] = _Standing(now, body, _first(reasons), 1)
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

    def _again(self, unit: Unit, shape: int, standing: _Standing) -> None:
        """The same was found once more: one row, and its count. It is written when it has doubled, and with
        the end of the row, so that waiting long costs little."""
        standing.looks = looks = standing.looks + 1
        if looks & (looks - 1) == 0:
            unit.update(t.shape_reason, {"shape_id": shape, "t0": standing.since}, looks=looks)

    def settle(self, unit: Unit, now: int) -> None:
        """Close the reasons of shapes of which nothing waits any more."""
        state = self._context.state
        shapes = state.waiting_shapes()
        for key in state.last_looked.keys() - shapes.keys():
            del state.last_looked[key]  # whatever waits there next is looked at afresh
        waiting = {shape_id(key) for key in shapes}
        for shape in self._open.keys() - waiting:
            self._close(unit, shape, now)
        held = {state.attempts[each].shape_id for each in state.holds if each in state.attempts}
        for shape in self._past.keys() - waiting - held:
            del self._past[shape]
            self._loaded.discard(shape)

    def current(self, key: str) -> str | None:
        """The code of the first of the reasons that stand for a shape; None when there are none."""
        standing = self._open.get(shape_id(key))
        return None if standing is None or standing.body == _NONE else standing.code

    def slices(self, unit: Unit, attempt: LiveAttempt, now: int) -> None:
        """Wait slices that tile submitted → now for an attempt that stops waiting."""
        since = attempt.sliced_until or attempt.times["submitted"] or now
        reasons = self._history(attempt.shape_id, since, now)
        stood = [(since, attempt.activated_at or now)] if attempt.standby and attempt.number == 1 else []
        for row in wait_rows(attempt.attempt_id, since, now, reasons, stood, STANDBY):
            unit.insert(t.wait_slice, **row)

    def _history(self, shape: int, since: int, now: int) -> list[Interval]:
        """The shape's reasons from `since` on; what an earlier life of the loop wrote is read once."""
        standing, past = self._open.get(shape), self._past.get(shape, [])
        first = past[0][0] if past else now if standing is None else standing.since
        if since < min(first, self._began) and shape not in self._loaded:
            self._loaded.add(shape)
            past = self._past[shape] = [*self._read(shape, since, first), *past]
        at = len(past)
        while at and past[at - 1][1] > since:
            at -= 1
        found = past[at:]
        if standing is not None:
            found.append((standing.since, now, standing.code))
        return found

    def _read(self, shape: int, since: int, until: int) -> list[Interval]:
        with self._context.store.read() as connection:
            stored = rows.shape_history(connection, shape, since)
        return [(t0, t1, _code(body)) for t0, t1, body in stored if t1 is not None and t1 <= until]

    def _close(self, unit: Unit, shape: int, now: int) -> None:
        before = self._open.pop(shape, None)
        if before is None:
            return
        past = self._past.setdefault(shape, [])
        if past and past[-1][1:] == (before.since, before.code):
            past[-1] = (past[-1][0], now, before.code)
        else:
            past.append((before.since, now, before.code))
        where = {"shape_id": shape, "t0": before.since}
        unit.update(t.shape_reason, where, null=("t1",), t1=now, looks=before.looks)


def _code(body: str) -> str:
    return _first(_codes(body))


def _first(reasons: Sequence[Reason]) -> str:
    return reasons[0].code if reasons else ReasonCode.PENDING_EVALUATION.value
