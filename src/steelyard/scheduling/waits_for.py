"""Whose end would start a workload: one that runs, else several in the order in which they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from steelyard.model.ids import render
from steelyard.model.policy import Policy
from steelyard.model.reasons import Holder
from steelyard.scheduling.context import Context
from steelyard.scheduling.own_turn import Turn
from steelyard.scheduling.placement import ShapePlan, allocations_of
from steelyard.scheduling.remedies import Remedy, RemedyKind, World
from steelyard.scheduling.views import RunningView

#: Who may be waited for: those that end first.
MAX_CANDIDATES = 128
#: Of those whose end alone makes room, how many are decided on, because others may go first.
MAX_SINGLES = 16
_NEVER = 2**62


class Tries(Protocol):
    """What of `smallest.Trial` is used here."""

    world: World
    policy: Policy
    now: int

    @property
    def turn(self) -> Turn | None:
        """The working state at the workload's turn."""
        ...

    def starts_with(self, remedy: Remedy) -> bool:
        """Decides with the change made."""
        ...


def holders_to_wait_for(trial: Tries) -> Iterable[Remedy]:
    """The one whose end starts it, of several the one that ends first; else the fewest that end one after the
    other until it starts."""
    turn = trial.turn
    context = turn.context if turn is not None else Context(trial.world.waiting(), trial.policy, trial.now)
    shape = trial.world.shape
    if context.is_barred(shape):
        return
    plan = context.plan(shape)
    # behind a head that is not passed, that one may be helped by anything; and where others are placed before
    # it, they may then go elsewhere
    anything = turn is None or turn.moved
    ordered = sorted(
        (run for run in trial.world.snapshot.running.values() if anything or _concerns(plan, run)),
        key=lambda run: _ends(run, trial.now),
    )
    cut = len(ordered) > MAX_CANDIDATES
    candidates = ordered[:MAX_CANDIDATES]
    alone = candidates if anything else [run for run in candidates if _makes_room(context, plan, [run])]
    for run in alone[:MAX_SINGLES]:
        remedy = _remedy(plan, [run], cut)
        if trial.starts_with(remedy):
            yield remedy
            return
    yield from _several(trial, context, plan, candidates, cut or len(alone) > MAX_SINGLES)


def _several(
    trial: Tries, context: Context, plan: ShapePlan, candidates: list[RunningView], cut: bool
) -> Iterable[Remedy]:
    """The shortest run of those that end first that starts it, by halving; without those whose end it does
    not take."""
    low, high = 1, len(candidates)
    if high < 2 or (plan.roles and not plan.shape.least and not _could(context, plan, candidates)):
        return
    if not trial.starts_with(_remedy(plan, candidates, cut)):
        return
    while high - low > 1:
        middle = (low + high) // 2
        if trial.starts_with(_remedy(plan, candidates[:middle], cut)):
            high = middle
        else:
            low = middle
    needed = _needed(trial, plan, candidates[:high], cut)
    yield _remedy(plan, needed, cut or len(needed) > MAX_SINGLES)


def _needed(trial: Tries, plan: ShapePlan, ended: list[RunningView], cut: bool) -> list[RunningView]:
    """Leaves out whoever may stay: first all that give nothing of the lead role's class, then one by one."""
    giving = [run for run in ended if _holder(plan, run).amount]
    if giving and len(giving) < len(ended) and trial.starts_with(_remedy(plan, giving, cut)):
        ended = giving
    for run in list(ended)[:MAX_SINGLES]:
        rest = [other for other in ended if other is not run]
        if rest and trial.starts_with(_remedy(plan, rest, cut)):
            ended = rest
    return ended


def _ends(run: RunningView, now: int) -> tuple[bool, int, int, int, int]:
    """Who ends first: what stops already, then by the latest end, then whoever makes room most easily."""
    by = max(now, run.ends_by) if run.ends_by is not None else _NEVER
    return (not run.stopping, by, run.priority, -run.placed_at, -run.attempt_id)


def _concerns(plan: ShapePlan, run: RunningView) -> bool:
    """It holds a device that some role could use, or is charged for something that the workload asks for."""
    flavors = {name for role in plan.roles for name in role.flavors}
    if any(allocation.flavor in flavors for _, allocation in allocations_of(run.members)):
        return True
    trees = {name for name, _ in plan.nodes}
    asked = {cls.value for cls in plan.amounts}
    return any(charge.tree in trees and charge.subject in asked for charge in run.charges)


def _makes_room(context: Context, plan: ShapePlan, ended: list[RunningView]) -> bool:
    """Whether the workload would find a place at its turn without these; nothing is left changed."""
    if not _could(context, plan, ended):
        return False
    for run in ended:
        context.board.change_members(run.members, 1)
        context.ledger.remove(run)
    found = context.placer.place(plan, fresh=True)
    if found is not None:
        context.board.change_members(found.members, 1)
    for run in ended:
        context.board.change_members(run.members, -1)
        context.ledger.reinstate(run)
    return found is not None


def _could(context: Context, plan: ShapePlan, ended: list[RunningView]) -> bool:
    """A cheap necessary test: what is free on some flavor and what these have of it suffice in sum."""
    given: dict[str, int] = {}
    for run in ended:
        for _, allocation in allocations_of(run.members):
            given[allocation.flavor] = given.get(allocation.flavor, 0) + allocation.quantity
    lead = plan.lead if plan.roles else None
    if lead is None:
        return False
    wanted = lead.count * lead.need.amount
    return any(context.board.free(name) + given.get(name, 0) >= wanted for name in lead.flavors)


def _remedy(plan: ShapePlan, ended: list[RunningView], cut: bool) -> Remedy:
    last = ended[-1]
    known = all(run.ends_by is not None or run.stopping for run in ended)
    at = last.ends_by if known and not last.stopping else None
    holders = tuple(_holder(plan, run) for run in ended)
    return Remedy(
        RemedyKind.WAIT_FOR, resource=plan.lead.need.primary.value if plan.roles else None, holders=holders,
        attempts=tuple(run.attempt_id for run in ended), at=at, approximate=cut,
    )  # fmt: skip


def _holder(plan: ShapePlan, run: RunningView) -> Holder:
    """What it has of the lead role's class."""
    primary = plan.lead.need.primary if plan.roles else None
    amount = sum(
        allocation.quantity
        for _, allocation in allocations_of(run.members)
        if allocation.device_class is primary
    )
    shown = render("workload", run.workload_id)
    return Holder("workload", shown, amount, run.name, run.project, run.queue, run.placed_at)
