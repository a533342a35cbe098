"""One attempt's turn in a cycle: the working state just before it is tried, and whether it then starts.

What comes after its turn can't change its fate, so the cycle is run no further. Nothing is explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from steelyard.model.policy import Policy, Precedence
from steelyard.model.workloads import Shape
from steelyard.scheduling.context import Context
from steelyard.scheduling.decide import Cycle
from steelyard.scheduling.preemption import Pools
from steelyard.scheduling.remedies import World
from steelyard.scheduling.views import PendingItem


class _Reached(Exception):
    """The turn has come."""


class _Until(Cycle):
    """A cycle that stops before it tries one attempt."""

    def __init__(self, world: World, policy: Policy, now: int) -> None:
        super().__init__(world.waiting(), policy, now)
        self._wanted = world.item.attempt_id
        self.at: tuple[Pools, Shape, PendingItem] | None = None

    def _settle(self, pools: Pools, shape: Shape, item: PendingItem) -> bool:
        if item.attempt_id == self._wanted and self.at is None:
            self.at = (pools, shape, item)
            raise _Reached
        return super()._settle(pools, shape, item)

    def reach(self) -> bool:
        """Runs up to the turn; False where it does not come."""
        try:
            self.run()
        except _Reached:
            return True
        return False

    def try_it(self) -> bool:
        """Goes on by this one attempt; True if it is placed."""
        assert self.at is not None
        before = len(self.context.placements)
        super()._settle(*self.at)
        return len(self.context.placements) > before


@dataclass(frozen=True, slots=True)
class Turn:
    """`context` as it was when the turn came; `moved`: something was decided before it."""

    context: Context
    shape: Shape
    moved: bool


def turn_of(world: World, policy: Policy, now: int) -> Turn | None:
    """The turn of the world's workload; None where it does not come in this cycle.

    Places that are planned for others are given back in it: what does not fit then does not fit at all.
    """
    cycle = _Until(world, policy, now)
    if not cycle.reach():
        return None
    context = cycle.context
    context.reservations.lift_all()
    moved = bool(context.placements or context.new_holds or cycle.dropped)
    return Turn(context, world.shape, moved)


def start_or_turn(world: World, policy: Policy, now: int) -> tuple[bool, Turn | None]:
    """`starts`, and where it does not, `turn_of`: mostly by one run of the cycle."""
    cycle = _Until(world, policy, now)
    if not cycle.reach():
        return any(found.attempt_id == world.item.attempt_id for found in cycle.context.placements), None
    context = cycle.context
    moved = bool(context.placements or context.new_holds or cycle.dropped)
    if cycle.try_it():
        return True, None
    if world.item.attempt_id in context.holds:
        return False, turn_of(world, policy, now)  # what it holds now was free at its turn
    context.reservations.lift_all()
    return False, Turn(context, world.shape, moved)


def starts(world: World, policy: Policy, now: int) -> bool:
    """Whether the next cycle would start the world's workload."""
    cycle = _Until(world, policy, now)
    if not cycle.reach():
        return any(found.attempt_id == world.item.attempt_id for found in cycle.context.placements)
    return cycle.try_it()


def equals_before(turn: Turn, shape: Shape, item: PendingItem, most: int) -> int:
    """How many of the same shape (as it is known in the snapshot) surely come before the attempt and have not
    started at its turn; `most` where there are as many or more."""
    turns, now = turn.context.turns, turn.context.now
    if turns.precedence(shape.queue) is not Precedence.FIRST_COME or turns.is_due(shape.queue, item):
        return 0
    if item.guaranteed:
        return 0
    started = {placement.attempt_id for placement in turn.context.placements}
    before = (
        head
        for group in turn.context.snapshot.pending
        if group.shape.key == shape.key
        for head in group.heads
        if (head.submitted, head.workload_id) < (item.submitted, item.workload_id)
        and max(head.not_before, head.eligible_at) <= now
        and head.attempt_id not in started
    )
    return sum(1 for _ in islice(before, most))
