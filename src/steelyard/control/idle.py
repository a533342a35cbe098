"""Experiments that use nothing for as long as they may: reclaimed, and told so.

Use is what the engine measured between two samples that follow each other. Time without samples, or of which
something that has to be known is not, is neither idle nor busy: it is not counted. One interval of use
begins the count anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard.control.commands import stop_attempt
from steelyard.control.context import Context
from steelyard.engines.port import Sample
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.resources import ACCELERATORS
from steelyard.model.units import SECOND
from steelyard.model.workloads import IdleLimit
from steelyard.services.live_records import LiveAttempt
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.unit import Unit

#: Samples further apart than this don't follow each other.
LONGEST_STEP = 10 * SECOND
WRITE_EVERY = 10 * SECOND
IDLE = "idle"


@dataclass(slots=True)
class Use:
    """What is known of an attempt's use. `cpu` in milli-cores and `device` in thousandths: the most of any
    member in the last interval, None where it is not known."""

    idle_for: int = 0
    known: int = 0  # µs covered by samples
    cpu: int | None = None
    device: int | None = None
    sampled_at: int | None = None
    written_at: int = 0
    last: dict[str, Sample] = field(default_factory=dict)  # by member


class Idleness:
    """Collects samples of the attempts that have a limit, and stops those that reached it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._uses: dict[int, Use] = {}
        with context.store.read() as connection:
            for row in rows.uses(connection):
                self._uses[row.attempt_id] = Use(
                    row.idle_for, row.known, row.cpu, row.device, row.sampled_at, row.sampled_at or 0
                )

    def limited(self) -> list[tuple[LiveAttempt, IdleLimit]]:
        """The running attempts that have a limit."""
        return [
            (attempt, attempt.spec.idle_limit)
            for attempt in self._context.state.in_phase(Phase.RUNNING)
            if attempt.spec.idle_limit is not None
        ]

    def clusters(self) -> set[str]:
        """Where samples are wanted."""
        return {cluster for attempt, _ in self.limited() for cluster in attempt.clusters}

    def take(self, samples: Iterable[Sample]) -> None:
        """Take in what an engine measured."""
        by_member = {sample.member_id: sample for sample in samples}
        for attempt, limit in self.limited():
            own = [by_member.get(member.text_id) for member in attempt.staying]
            if any(sample is not None for sample in own):
                self._measure(attempt, limit, [sample for sample in own if sample is not None])

    def _measure(self, attempt: LiveAttempt, limit: IdleLimit, samples: list[Sample]) -> None:
        use = self._uses.setdefault(attempt.attempt_id, Use())
        before, use.last = use.last, {sample.member_id: sample for sample in samples}
        use.sampled_at = max(sample.at for sample in samples)
        found = [_step(before.get(sample.member_id), sample) for sample in samples]
        steps = [step for step in found if step is not None]
        if len(steps) < len(attempt.staying):
            use.cpu = use.device = None
            return
        use.cpu = max(cpu for _, cpu in steps)
        devices = [sample.device_permille for sample in samples]
        seen = [value for value in devices if value is not None]
        use.device = max(seen) if len(seen) == len(devices) else None
        busy = use.cpu >= limit.cpu or any(value >= limit.device for value in seen)
        if busy:
            use.idle_for = 0
        elif use.device is None and _has_devices(attempt):
            return  # what its devices do is not known: not idle
        length = min(length for length, _ in steps)
        use.known += length
        if not busy:
            use.idle_for += length

    def run(self) -> None:
        """Stop what reached its limit, and note what is known now and then."""
        context, now = self._context, self._context.now()
        limited = self.limited()
        if not limited and not self._uses:
            return
        unit = context.unit()
        for attempt, limit in limited:
            use = self._uses.get(attempt.attempt_id)
            if use is None or use.sampled_at is None:
                continue
            reached = use.idle_for >= limit.after
            if reached or use.sampled_at - use.written_at >= WRITE_EVERY:
                self._note(unit, attempt.attempt_id, use)
            if reached:
                detail: dict[str, object] = {
                    "idle_for": use.idle_for, "limit": limit.after, "below_cpu": limit.cpu,
                    "below_device": limit.device, "cpu": use.cpu, "device": use.device,
                    "attempt": render("attempt", attempt.attempt_id),
                }  # fmt: skip
                stop_attempt(context, unit, attempt, now, IDLE, "workload.stop", detail)
        for attempt_id in self._uses.keys() - context.state.attempts.keys():
            del self._uses[attempt_id]
        context.commit(unit, now)

    def _note(self, unit: Unit, attempt_id: int, use: Use) -> None:
        use.written_at = use.sampled_at or 0
        unit.upsert(
            t.use, ("attempt_id",), attempt_id=attempt_id, sampled_at=use.sampled_at, idle_for=use.idle_for,
            known=use.known, cpu=use.cpu, device=use.device,
        )  # fmt: skip


def _step(before: Sample | None, now: Sample) -> tuple[int, int] | None:
    """(µs between, milli-cores in the mean) of two samples that follow each other; None where not known."""
    if before is None or before.cpu_micros is None or now.cpu_micros is None:
        return None
    length, used = now.at - before.at, now.cpu_micros - before.cpu_micros
    if not 0 < length <= LONGEST_STEP or used < 0:
        return None
    return length, used * 1000 // length


def _has_devices(attempt: LiveAttempt) -> bool:
    return any(a.device_class in ACCELERATORS for member in attempt.members for a in member.allocations)
