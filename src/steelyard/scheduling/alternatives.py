"""Which of the models that would do a workload starts on, where the policy goes by advantage.

Waiting attempts of one queue, one priority and one size whose shapes know their speeds are assigned together
to what is free (`advantage.assign`): each starts on the model that it was given, and who was given none is
set aside until those who were have started. Then what is left over is assigned anew, a few times, and at last
everybody takes what there is. So nothing stays free for the sake of a better use, and nobody is passed for
longer than the cycle lasts. The order between queues and priorities is not touched.

The speeds that a shape declares name only models on which it was verified that it runs. Of one that declares
none they are learned from finished runs, where there were enough; then a model of which nothing is known is
taken in the end, once the assignment is over. A time limit gives short work a slight weight: one over its
fifth root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from steelyard.model.policy import ModelOrder, QueueingStrategy
from steelyard.model.units import SECOND
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.advantage import MOST_CLAIMS, assign
from steelyard.scheduling.context import Context
from steelyard.scheduling.decisions import Placement
from steelyard.scheduling.model_choice import ModelChoice, ModelOption, ModelSpeed, options_of, speeds_of
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
    rooms: dict[str, int] = field(default_factory=dict)  # by flavor, how many what was free could hold
    counts: dict[str, int] = field(default_factory=dict)  # by flavor, how many it was given to

    @property
    def is_open(self) -> bool:
        """True while somebody has yet to start on what it was given."""
        return any(count > 0 for flavors in self.given.values() for count in flavors.values())


class Alternatives:
    """Of one cycle."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_meant = context.policy.models is ModelOrder.ADVANTAGE
        self._is_on = self._is_meant
        self._speeds: dict[str, tuple[ModelSpeed, ...]] = {}  # by shape
        self._looked: dict[int, tuple[Shape, _Assigned | None, bool]] = {}  # by attempt: given?
        self._last: dict[_Class, _Assigned] = {}
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
        if not self._is_meant or item.standby or item.guaranteed or not self.speeds(shape):
            return False
        plan = self._context.plan(shape)
        last = self._last.get(_class_of(shape, plan)) if plan.roles else None
        self._looked[item.attempt_id] = shape, last, False
        if not self._is_on:
            return False
        strategy = self._context.rules.of(shape.queue).strategy
        if not plan.roles or strategy is QueueingStrategy.STRICT_FIFO:
            return False
        assigned = self._class(shape, plan)
        self._looked[item.attempt_id] = shape, assigned, False
        given = assigned.given.get(shape.key, {})
        for flavor in sorted(given, key=lambda name: (-self._speed(shape, name), name)):
            narrow = _on(plan, flavor)
            if given[flavor] > 0 and self._fits(narrow):
                given[flavor] -= 1
                self._gone.add(item.attempt_id)
                self._narrow = narrow
                self._looked[item.attempt_id] = shape, assigned, True
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

    def speeds(self, shape: Shape) -> tuple[ModelSpeed, ...]:
        """How fast it is on each model, as far as that is known."""
        known = self._speeds.get(shape.key)
        if known is None:
            known = self._speeds[shape.key] = speeds_of(shape, self._context.snapshot.run_times)
        return known

    def choices(self, placements: Iterable[Placement]) -> tuple[ModelChoice, ...]:
        """Of those that were placed while their speeds counted: what they took, and beside what."""
        found = []
        for placed in placements:
            looked = self._looked.get(placed.attempt_id)
            if looked is not None:
                shape, assigned, is_given = looked
                options = self._options(shape, assigned)
                flavor = lead_flavor(placed.members, {each.flavor for each in options if each.flavor})
                found.append(ModelChoice(placed.workload_id, placed.attempt_id, flavor, is_given, options))
        return tuple(found)

    def open_to(self, shape: Shape, item: PendingItem) -> ModelChoice | None:
        """What one that waits could take, as things stand at the end of the cycle; None: nothing is known."""
        plan = self._context.plan(shape)
        if not plan.roles or not self.speeds(shape):
            return None
        key = _class_of(shape, plan)
        rooms = {name: self._room(key, name) for name in plan.lead.flavors}
        looked = self._looked.get(item.attempt_id)
        counts = looked[1].counts if looked is not None and looked[1] is not None else {}
        options = self._options(shape, _Assigned(rooms=rooms, counts=counts))
        return ModelChoice(item.workload_id, item.attempt_id, None, False, options)

    def _options(self, shape: Shape, assigned: _Assigned | None) -> tuple[ModelOption, ...]:
        plan, flavors = self._context.plan(shape), self._context.board.flavors
        models = {name: flavors[name].model for name in plan.lead.flavors}
        found = assigned or _Assigned()
        return options_of(self.speeds(shape), models, found.rooms, found.counts)

    # --- the assignment ----------------------------------------------------------------------------
    def _fits(self, narrow: ShapePlan) -> bool:
        found = self._context.placer.place(narrow)
        if found is None:
            return False
        self._context.board.change_members(found.members, 1)
        return True

    def _class(self, shape: Shape, plan: ShapePlan) -> _Assigned:
        key = _class_of(shape, plan)
        known = self._assigned.get(key)
        if known is None:
            known = self._assigned[key] = self._last[key] = self._assign(key)
        return known

    def _assign(self, key: _Class) -> _Assigned:
        claims = self._claims(key)
        shapes = {shape.key: shape for shape, _ in claims}
        leads = [self._context.plan(shape).lead for shape in shapes.values()]
        flavors = sorted({name for lead in leads for name in lead.flavors})
        room = [self._room(key, name) for name in flavors]
        values = {shape.key: [self._value(shape, name) for name in flavors] for shape in shapes.values()}
        taken = assign([values[shape.key] for shape, _ in claims], room)
        found = _Assigned(rooms=dict(zip(flavors, room, strict=True)), counts=dict.fromkeys(flavors, 0))
        for (shape, _), kind in zip(claims, taken, strict=True):
            if kind is not None:
                given = found.given.setdefault(shape.key, {})
                given[flavors[kind]] = given.get(flavors[kind], 0) + 1
                found.counts[flavors[kind]] += 1
        return found

    def _claims(self, key: _Class) -> list[tuple[Shape, PendingItem]]:
        context = self._context
        queue, priority, _ = key
        found: list[tuple[Shape, PendingItem]] = []
        for group in context.snapshot.pending:
            shape = group.shape
            if shape.queue != queue or shape.priority != priority or not self.speeds(shape):
                continue
            plan = context.plan(shape)
            if not plan.roles or _class_of(shape, plan) != key or context.is_barred(shape):
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
        for each in self.speeds(shape):
            if each.model == model:
                return each.speed
        return 0

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


def lead_flavor(members: Iterable[MemberPlan], among: Collection[str]) -> str | None:
    """The flavor that its members have of those its lead role could take."""
    return next((a.flavor for member in members for a in member.allocations if a.flavor in among), None)


def _class_of(shape: Shape, plan: ShapePlan) -> _Class:
    return shape.queue, shape.priority, plan.lead.count * plan.lead.need.amount


def _on(plan: ShapePlan, flavor: str) -> ShapePlan:
    lead = replace(plan.lead, flavors=(flavor,))
    return replace(plan, roles=(lead, *plan.roles[1:]))
