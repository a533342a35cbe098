"""Which of the models that would do a workload starts on, where the policy goes by advantage.

Waiting attempts of one queue, one priority and one size whose shapes know their speeds are assigned together
to what is free (`advantage.assign`): each starts on the model that it was given, and who was given none is
set aside until those who were have started. Then what is left over is assigned anew, a few times, and at last
everybody takes what there is. So nothing stays free for the sake of a better use, and nobody is passed for
longer than the cycle lasts. The order between queues and priorities is not touched.

A shape's `speeds` name only models on which it was verified that it runs; one that is not named is not taken
while the assignment holds. A time limit gives short work a slight weight: one over its fifth root.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from steelyard.model.policy import ModelOrder, QueueingStrategy
from steelyard.model.units import SECOND
from steelyard.model.workloads import Shape
from steelyard.scheduling.advantage import MOST_CLAIMS, assign
from steelyard.scheduling.context import Context
from steelyard.scheduling.order import Waiting
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.views import PendingItem

#: Assignments of one class of work in a cycle.
MOST_ROUNDS = 3
#: How long work is taken to run of which nobody said it.
UNKNOWN_LENGTH = 24 * 3600 * SECOND
_WEIGHT = 1_000_000
_Class = tuple[str, int, int]  # queue, priority, milli-devices


@dataclass(slots=True)
class _Assigned:
    """What one class of work was given: by shape, flavors with how many of it may still start on each."""

    given: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """True while somebody has yet to start on what it was given."""
        return any(count > 0 for flavors in self.given.values() for count in flavors.values())


class Alternatives:
    """Of one cycle."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_on = context.policy.models is ModelOrder.ADVANTAGE
        self._assigned: dict[_Class, _Assigned] = {}
        self._failed: set[tuple[str, str]] = set()  # (shape, flavor) that found no place after all
        self._aside: list[tuple[Shape, PendingItem]] = []
        self._gone: set[int] = set()  # attempts looked at already
        self._narrow: ShapePlan | None = None  # of the attempt in hand, on the flavor that it was given
        self._weights: dict[str, int] = {}  # by shape
        self._rounds = 1

    def sets_aside(self, shape: Shape, item: PendingItem) -> bool:
        """True when the attempt is to wait until those have started that gain more from what is free."""
        self._narrow = None
        if not self._is_on or not shape.speeds or item.standby or item.guaranteed:
            return False
        plan = self._context.plan(shape)
        strategy = self._context.rules.of(shape.queue).strategy
        if not plan.roles or strategy is QueueingStrategy.STRICT_FIFO:
            return False
        assigned = self._class(shape, plan)
        given = assigned.given.get(shape.key, {})
        for flavor in sorted(given, key=lambda name: (-self._speed(shape, name), name)):
            narrow = _on(plan, flavor)
            if given[flavor] > 0 and self._fits(narrow):
                given[flavor] -= 1
                self._gone.add(item.attempt_id)
                self._narrow = narrow
                return False
            if given.pop(flavor) > 0:
                self._failed.add((shape.key, flavor))
        if not assigned.is_open:
            self._gone.add(item.attempt_id)
            return False
        self._aside.append((shape, item))
        return True

    def narrowed(self, plan: ShapePlan) -> ShapePlan:
        """The plan of the attempt that was just let through, on the flavor that it was given."""
        if self._narrow is None or self._narrow.lead.flavors[0] not in plan.lead.flavors:
            return plan
        return self._narrow

    def resume(self, waiting: Waiting) -> bool:
        """Puts back those set aside, once the others have been looked at; False when there are none."""
        back, self._aside = self._aside, []
        for shape, item in back:
            waiting.put_back(shape, item)
        self._assigned.clear()
        self._rounds += 1
        self._is_on = self._rounds <= MOST_ROUNDS
        return bool(back)

    # --- the assignment ----------------------------------------------------------------------------
    def _fits(self, narrow: ShapePlan) -> bool:
        found = self._context.placer.place(narrow)
        if found is None:
            return False
        self._context.board.change_members(found.members, 1)
        return True

    def _class(self, shape: Shape, plan: ShapePlan) -> _Assigned:
        key = (shape.queue, shape.priority, plan.lead.count * plan.lead.need.amount)
        known = self._assigned.get(key)
        if known is None:
            known = self._assigned[key] = self._assign(key)
        return known

    def _assign(self, key: _Class) -> _Assigned:
        claims = self._claims(key)
        shapes = {shape.key: shape for shape, _ in claims}
        leads = [self._context.plan(shape).lead for shape in shapes.values()]
        flavors = sorted({name for lead in leads for name in lead.flavors})
        room = [self._room(key, name) for name in flavors]
        values = {shape.key: [self._value(shape, name) for name in flavors] for shape in shapes.values()}
        taken = assign([values[shape.key] for shape, _ in claims], room)
        found = _Assigned()
        for (shape, _), kind in zip(claims, taken, strict=True):
            if kind is not None:
                given = found.given.setdefault(shape.key, {})
                given[flavors[kind]] = given.get(flavors[kind], 0) + 1
        return found

    def _claims(self, key: _Class) -> list[tuple[Shape, PendingItem]]:
        context = self._context
        queue, priority, size = key
        found: list[tuple[Shape, PendingItem]] = []
        for group in context.snapshot.pending:
            shape = group.shape
            if shape.queue != queue or shape.priority != priority or not shape.speeds:
                continue
            plan = context.plan(shape)
            if not plan.roles or plan.lead.count * plan.lead.need.amount != size or context.is_barred(shape):
                continue
            found += [(shape, item) for item in group.heads if self._waits(item)]
        found.sort(key=lambda entry: (context.turns.key(*entry), entry[0].key))
        return found[:MOST_CLAIMS]

    def _waits(self, item: PendingItem) -> bool:
        context = self._context
        return (
            max(item.not_before, item.eligible_at) <= context.now
            and not item.standby
            and not item.guaranteed
            and item.attempt_id not in self._gone
            and item.attempt_id not in context.holds
        )

    def _room(self, key: _Class, flavor: str) -> int:
        """How many of the class what is free could hold, were it all together."""
        return self._context.board.free(flavor) // max(1, key[2])

    def _speed(self, shape: Shape, flavor: str) -> int:
        model = self._context.board.flavors[flavor].model
        return next((speed for name, speed in shape.speeds if name == model), 0)

    def _value(self, shape: Shape, flavor: str) -> int:
        if (shape.key, flavor) in self._failed or flavor not in self._context.plan(shape).lead.flavors:
            return 0
        speed = self._speed(shape, flavor)
        return max(1, speed * _WEIGHT // self._root(shape)) if speed > 0 else 0

    def _root(self, shape: Shape) -> int:
        known = self._weights.get(shape.key)
        if known is None:
            known = self._weights[shape.key] = fifth_root(shape.time_limit or UNKNOWN_LENGTH)
        return known


def fifth_root(length: int) -> int:
    """A thousand times the fifth root of a length in seconds, rounded down; at least 1."""
    wanted = max(0, length) * 1000**5 // SECOND
    low, high = 0, 1
    while high**5 <= wanted:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**5 <= wanted else (low, middle)
    return max(1, low)


def _on(plan: ShapePlan, flavor: str) -> ShapePlan:
    lead = replace(plan.lead, flavors=(flavor,))
    return replace(plan, roles=(lead, *plan.roles[1:]))
