"""The first estimate of every attempt that waits is kept, so that it can be held against its start.

The look ahead is made an instant at a time, one in a pass of the loop that has nothing better to do; it is
bounded by counts, and left out while very much waits. What is kept is no state: nothing is decided on it.
"""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.model.lifecycle import Phase
from steelyard.model.units import MINUTE, SECOND
from steelyard.scheduling.estimates import Estimator, Known
from steelyard.scheduling.run_times import RunTimes
from steelyard.services.run_times import learn
from steelyard.store import estimates as rows
from steelyard.store import tables as t

#: How soon after a look ahead the next one begins; how often it is looked whether somebody needs one.
EVERY, LOOK_EVERY = 5 * SECOND, SECOND
LEARN_EVERY = 5 * MINUTE
#: Attempts that get their estimate at once, and instants looked at for them in each future.
MOST, MAX_INSTANTS = 200, 128
#: While more than this waits nothing is looked ahead.
MAX_WAITING = 1_000


class Estimating:
    """One look ahead after the other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._under_way: tuple[int, Estimator] | None = None
        self._known: set[int] = set()  # attempts that wait and have an estimate
        self._times = RunTimes()
        self._next = self._learn_at = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a look ahead is to go on."""
        return self._under_way is not None

    def run(self) -> bool:
        """Begins, goes on, or keeps what was found; True while a look ahead is under way."""
        if self._under_way is None:
            self._begin()
        else:
            made_at, estimator = self._under_way
            if not estimator.step():
                self._keep(made_at, estimator)
                self._under_way = None
        return self.is_under_way

    def _begin(self) -> None:
        context, state = self._context, self._context.state
        now = context.store.now()
        if now < self._next or state.waiting_count > MAX_WAITING:
            return
        self._next = now + LOOK_EVERY
        waiting = state.in_phase(Phase.QUEUED, Phase.RESERVED)
        self._known &= {attempt.attempt_id for attempt in waiting}
        fresh = [attempt for attempt in waiting if attempt.attempt_id not in self._known][:MOST]
        if not fresh:
            return
        with context.store.read() as view:
            self._known |= rows.estimated(view, [attempt.attempt_id for attempt in fresh])
            if now >= self._learn_at:
                self._times, self._learn_at = learn(view), now + LEARN_EVERY
        wanted = [each.workload_id for each in fresh if each.attempt_id not in self._known]
        if wanted:
            known = Known(self._times)
            estimator = Estimator(state.snapshot(), state.policy, now, known, wanted, MAX_INSTANTS)
            self._under_way, self._next = (now, estimator), now + EVERY

    def _keep(self, made_at: int, estimator: Estimator) -> None:
        """Also of those that have started meanwhile: what was told before counts."""
        context = self._context
        unit = context.unit()
        for found in estimator.estimates().values():
            if found.attempt_id in context.state.attempts:
                unit.upsert(
                    t.start_estimate, ("attempt_id",), attempt_id=found.attempt_id, made_at=made_at,
                    earliest=found.earliest, latest=found.latest,
                    why=None if found.why is None else found.why.value,
                )  # fmt: skip
                self._known.add(found.attempt_id)
        if unit.writes:
            context.store.writer.write(unit)
