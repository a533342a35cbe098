"""Members for running gangs that started with fewer than they asked for, or gave some up.

Growth stands behind all who wait: a gang gets members on what is free only where nobody who still waits
after the cycle could go to the same devices, or is charged where the same limits count. So it puts nobody
back, and a member that was taken does not come back at the cost of whom it left for. It may borrow; what it
got so is given up again first (`bundles`). Only a gang whose program takes new members gets any
(`Shape.grows`), on the flavor, in the cluster and in the domain of those that it has, the highest priority
first, then the oldest.

A gang that was asked for members gets none for the policy's window after that (as a stabilization window of
Kubernetes' HorizontalPodAutoscaler holds a change back): each time that members come and go costs work, and
so that happens once a window at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.context import Context
from steelyard.scheduling.placement import Plan, RoleNeed, ShapePlan, allocations_of, counted
from steelyard.scheduling.topology import Outside
from steelyard.scheduling.views import RunningView, ShapeGroup

#: Members that join in one cycle.
MAX_GROWN = 64


@dataclass(slots=True)
class _Wanted:
    """What those who still wait could use: flavors, and (tree, its root, subject) of limits on them."""

    flavors: set[str] = field(default_factory=set)
    limits: set[tuple[str, str, str]] = field(default_factory=set)


def grow(context: Context, groups: Iterable[ShapeGroup]) -> None:
    """Decides who gets members; `groups` are all that waited when the cycle began."""
    growing, running = context.snapshot.growing, context.snapshot.running
    candidates = [
        run for key in growing
        if (run := running.get(key)) is not None and not context.is_stopping(run) and _rested(context, run)
    ]  # fmt: skip
    if not candidates:
        return
    wanted = _wanted(context, _still_waiting(context, groups))
    candidates.sort(key=lambda run: (-run.priority, run.placed_at, run.attempt_id))
    left = MAX_GROWN
    for run in candidates:
        if left <= 0:
            return
        left -= _grow(context, run, wanted, left)


def _rested(context: Context, run: RunningView) -> bool:
    """Whether the window after it was last asked for members is over; else there is a cycle when it is."""
    until = 0 if run.shrunk_at is None else run.shrunk_at + context.policy.growth_window
    if until > context.now:
        context.wake(until)
    return until <= context.now


def _still_waiting(context: Context, groups: Iterable[ShapeGroup]) -> list[Shape]:
    """Shapes of which somebody waits after the cycle, now or once a pause is over."""
    gone = Counter(placed.shape_key for placed in context.placements if not placed.from_hold)
    gone.update(hold.shape.key for hold in context.new_holds)
    left: dict[str, Shape] = {}
    count: Counter[str] = Counter()
    for group in groups:
        left[group.shape.key] = group.shape
        count[group.shape.key] += group.count
    back = {dropped.attempt_id for dropped in context.taken_over}
    shapes = [shape for key, shape in left.items() if count[key] > gone[key]]
    held = context.snapshot.holds
    return [*shapes, *(held[number].shape for number in sorted(back) if number in held)]


def _wanted(context: Context, waiting: Iterable[Shape]) -> _Wanted:
    wanted = _Wanted()
    for shape in waiting:
        plan = context.plan(shape)
        for role in plan.roles:
            wanted.flavors.update(role.flavors, role.silent)
        wanted.limits.update(
            (ask.tree, context.snapshot.trees[ask.tree].path(ask.node)[-1], ask.subject)
            for ask in plan.class_asks
        )
    return wanted


def _grow(context: Context, run: RunningView, wanted: _Wanted, most: int) -> int:
    shape = run.grows
    if shape is None or context.is_barred(shape):
        return 0
    if any(member.cluster not in context.answering for member in run.members):
        return 0
    plan = context.plan(shape)
    members: list[MemberPlan] = []
    for role in sorted(plan.roles, key=lambda role: role.index):
        own = [member for member in run.members if member.role == role.name]
        missing = shape.roles[role.index][1] - len(own) if role.name in shape.grows else 0
        for number in range(len(own), len(own) + missing):
            found = _one_more(context, run, plan, role, own, wanted) if len(members) < most else None
            if found is None:
                break
            members.append(found.members[0].at(number))
    if members:
        allocations = (item for _, item in allocations_of(members))
        context.commit_growth(run, shape, tuple(members), plan.counting.charges_of(shape, allocations))
    return len(members)


def _one_more(
    context: Context, run: RunningView, plan: ShapePlan, role: RoleNeed, own: list[MemberPlan],
    wanted: _Wanted,
) -> Plan | None:  # fmt: skip
    """A place for one member beside those of its role, charged, or None."""
    flavor = next(
        (a.flavor for _, a in allocations_of(own) if a.device_class is role.need.primary), None
    )  # fmt: skip
    if flavor is None or flavor not in role.flavors or flavor in wanted.flavors:
        return None
    alone = replace(plan.shape, topology=None)
    one = counted(alone, (replace(role, count=1, most=1),), plan.nodes, plan.counting)
    if any(_limit(context, ask.tree, ask.node, ask.subject) in wanted.limits for ask in one.class_asks):
        return None
    if not context.ledger.fits(one.class_asks):
        return None
    found = context.placer.place_with(one, flavor, True, avoid=_elsewhere(context, run, plan.shape))
    if found is None:
        return None
    flavors = {a.flavor for _, a in allocations_of(found.members)}
    if flavors & wanted.flavors or not context.reservations.admits(one, found):
        context.board.change_members(found.members, 1)
        return None
    context.take_growth(found)
    return found


def _limit(context: Context, tree: str, node: str, subject: str) -> tuple[str, str, str]:
    return tree, context.snapshot.trees[tree].path(node)[-1], subject


def _elsewhere(context: Context, run: RunningView, shape: Shape) -> Collection[int]:
    """The nodes outside the domain in which all members have to be."""
    level = shape.topology.required if shape.topology is not None else None
    if level is None:
        return ()
    node = context.snapshot.nodes.get(run.members[0].node_id)
    value = node.labels.get(level) if node is not None else None
    return Outside(context.placer.levels, ((level, value or ""),), ())
