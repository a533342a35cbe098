"""Axes: where an instant or a quantity lies, and which marks a person can read.

Floats appear here and only here: they are places on paper, never amounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from steelyard.model.units import DAY, HOUR, MILLISECOND, MINUTE, SECOND

#: Half the width of a time label.
_LABEL_HALF = 26
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_STEPS = (
    *(n * MILLISECOND for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 30, 90, 180, 365)),
)


def clock(at: int | None, *, step: int = SECOND) -> str:
    """An instant (µs UTC) as finely as the step needs; a dash where it is not known."""
    if at is None:
        return "–"
    moment = _EPOCH + timedelta(microseconds=at)
    if step >= DAY:
        return moment.strftime("%Y-%m-%d")
    if step >= HOUR:
        return moment.strftime("%m-%d %H:%M")
    if step >= MINUTE:
        return moment.strftime("%H:%M")
    return moment.strftime("%H:%M:%S") if step >= SECOND else moment.strftime("%H:%M:%S.%f")[:-3]


def date_and_time(at: int | None) -> str:
    """An instant with its date and zone, to the second."""
    if at is None:
        return "–"
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """`[t0, t1)` in µs laid on `left … right`. Labels are UTC, `offset` µs later for another zone's clock."""

    t0: int
    t1: int
    left: float
    right: float
    offset: int = 0

    def x(self, at: int) -> float:
        """Where an instant lies; what is outside lies on the border."""
        if self.t1 <= self.t0:
            return self.left
        inside = min(max(at, self.t0), self.t1) - self.t0
        return self.left + (self.right - self.left) * inside / (self.t1 - self.t0)

    def anchor(self, at: int) -> str:
        """How a label has to stand at an instant so that it stays within the picture: `mid` or `end`."""
        return "end" if self.right - self.x(at) < _LABEL_HALF else "mid"

    def _covers(self, before: int, last: int) -> bool:
        """A label that stands at the end of its mark reaches back by its whole width."""
        return self.anchor(last) == "end" and self.x(last) - self.x(before) < 3 * _LABEL_HALF

    def ticks(self, most: int = 8) -> list[tuple[int, str]]:
        """At most `most` round instants with their labels, none of which covers another."""
        span = max(1, self.t1 - self.t0)
        # a label with milliseconds is wider
        step = next(
            (step for step in _TIME_STEPS if span // step < (most if step >= SECOND else most - 3)),
            _TIME_STEPS[-1],
        )
        first = -(-(self.t0 + self.offset) // step) * step - self.offset
        found = list(range(first, self.t1 + 1, step))
        if len(found) > 1 and self._covers(*found[-2:]):
            found.pop()
        return [(at, clock(at + self.offset, step=step)) for at in found]


@dataclass(frozen=True, slots=True)
class AmountAxis:
    """`0 … top` laid on `bottom … ceiling`; `step` between two marks."""

    top: int
    step: int
    bottom: float
    ceiling: float

    @staticmethod
    def over(greatest: int, bottom: float, ceiling: float, most: int = 5, unit: int = 1) -> AmountAxis:
        """An axis of round steps that holds the greatest amount; steps are multiples of `unit`."""
        greatest = max(1, -(-greatest // unit))
        step, power = 1, 1
        while greatest > step * most:
            for factor in (1, 2, 5):
                step = factor * power
                if greatest <= step * most:
                    break
            power *= 10
        return AmountAxis(-(-greatest // step) * step * unit, step * unit, bottom, ceiling)

    def y(self, amount: int) -> float:
        """Where an amount lies."""
        return self.bottom - (self.bottom - self.ceiling) * amount / self.top

    def ticks(self) -> list[int]:
        """The marks from 0 to the top."""
        return list(range(0, self.top + 1, self.step))
