"""Which of those that may be stopped are: as few as will do, together, of the least that is lost.

A search goes on working copies. First the cheap no, by counting: would it be enough if all candidates left?
Then sets are tried, the first that fits and is lawful is taken: by domain (`domains`), else in order (lower
tier, then newest) the smallest prefix that makes room.

Whoever may stay after all, stays ("fill back"), and only the set that is left is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE
from steelyard.scheduling.board import allocation_room
from steelyard.scheduling.context import Context
from steelyard.scheduling.domains import Domains
from steelyard.scheduling.placement import Plan, ShapePlan, allocations_of
from steelyard.scheduling.pools import Pool
from steelyard.scheduling.proportion import excess_of
from steelyard.scheduling.reclaim import Loss, Reach, Verdict
from steelyard.scheduling.views import RunningView

#: Sets by domain that are tried before the order alone decides.
MAX_PROPOSALS = 4
#: Candidates that are taken in order, as a multiple of the victims allowed.
IN_ORDER = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """Victims, each with the rule by which it goes, and the place that they make room for."""

    found: Plan
    losses: tuple[tuple[Loss, Verdict], ...]


def choose(context: Context, plan: ShapePlan, reach: Reach, pool: Pool, allowed: int) -> Choice | None:
    """The victims, at most `allowed` that run; None where none will do. Leaves the working copies as they
    were."""
    simulation = Simulation(context, plan)
    simulation.off(pool.stopping)
    try:
        found = simulation.attempt()
        if found is not None:
            return Choice(found, ())
        return _sets(simulation, reach, pool, allowed) if _may_suffice(context, plan, pool.losses) else None
    finally:
        simulation.restore()


def _may_suffice(context: Context, plan: ShapePlan, losses: Sequence[Loss]) -> bool:
    """A cheap necessary test of the limits: what is left and what all of them are charged must suffice."""
    back: dict[tuple[str, str], int] = {}
    for loss in losses:
        for item in loss.view.charges:
            key = (item.tree, item.subject)
            back[key] = back.get(key, 0) + item.quantity
    return bool(losses) and all(
        ask.quantity
        <= context.ledger.available(ask.tree, ask.node, ask.subject) + back.get((ask.tree, ask.subject), 0)
        for ask in plan.class_asks
    )


def _sets(simulation: Simulation, reach: Reach, pool: Pool, allowed: int) -> Choice | None:
    banned: set[int] = set()
    for _ in range(MAX_PROPOSALS):
        proposal = Domains(simulation.context, simulation.plan, pool.losses, banned).best()
        if proposal is None and not banned:
            return None  # it would have no place if all of them left
        losses, nodes = proposal or ([], set())
        if not losses:
            break
        _take_lawful(simulation, reach, losses)
        choice = _settled(simulation, reach, allowed)
        simulation.give_back()
        if choice is not None:
            return choice
        banned |= nodes
    taken = _take_lawful(simulation, reach, pool.losses[: IN_ORDER * max(1, allowed)])
    if simulation.attempt() is None:
        return None
    _shorten(simulation, taken)
    return _settled(simulation, reach, allowed)


def _take_lawful(simulation: Simulation, reach: Reach, losses: Iterable[Loss]) -> list[Loss]:
    """One after the other, each only while its side may lose it."""
    simulation.give_back()
    taken = []
    for loss in losses:
        if simulation.has_taken(loss.after) and reach.may_lose(loss):
            simulation.take([loss])
            taken.append(loss)
    return taken


def _shorten(simulation: Simulation, taken: Sequence[Loss]) -> None:
    """To the smallest prefix that makes room, by halving: all of them do."""
    low, high = 0, len(taken)
    while high - low > 1:
        middle = (low + high) // 2
        simulation.give_back()
        simulation.take(taken[:middle])
        if simulation.attempt() is None:
            low = middle
        else:
            high = middle
    simulation.give_back()
    simulation.take(taken[:high])


def _settled(simulation: Simulation, reach: Reach, allowed: int) -> Choice | None:
    """What is taken now, less whoever may stay, if it makes room and is lawful."""
    found = simulation.attempt()
    if found is None:
        return None
    found = _fill_back(simulation, found)
    losses = simulation.taken
    if len({loss.attempt_id for loss in losses if not loss.is_hold}) > allowed:
        return None
    context, stopped = simulation.context, [loss.view for loss in losses if not loss.is_hold]
    excess = excess_of(simulation.plan, reach.item, stopped, context.policy.max_evicted)
    if excess is not None:
        context.excess.setdefault(simulation.plan.shape.key, excess)
        return None
    judged: dict[int, Verdict] = {}
    for loss, its in _units(losses):
        verdict = reach.judge(loss, simulation.short_with(its, found), found.charges)
        if verdict is None:
            return None
        judged.setdefault(loss.attempt_id, verdict)
    return Choice(found, tuple((loss, judged[loss.attempt_id]) for loss in losses))


def _units(losses: Sequence[Loss]) -> list[tuple[Loss, list[Loss]]]:
    """What is judged with it alone back, and of which losses that is made: each attempt, of one that goes on
    the members that could come back first."""
    found: list[tuple[Loss, list[Loss]]] = []
    ends = {loss.attempt_id for loss in losses if loss.gang is not None and not loss.is_part}
    needed = {number for loss in losses for number in loss.after}
    for loss in losses:
        if loss.gang is None:
            found.append((loss, [loss]))
        elif not loss.is_part:
            its = [one for one in losses if one.attempt_id == loss.attempt_id]
            found.append((replace(loss, view=loss.gang), its))
        elif loss.attempt_id not in ends and loss.view.attempt_id not in needed:
            found.append((loss, [loss]))
    return found


def _fill_back(simulation: Simulation, found: Plan) -> Plan:
    """Puts back whoever may stay; the place that is left."""
    nodes = {member.node_id for member in found.members}
    apart = [v for v in simulation.taken if not any(member.node_id in nodes for member in v.view.members)]
    if apart:
        apart = _loose(apart, [loss for loss in simulation.taken if loss not in apart])
    found = simulation.without(apart, found) if apart else found
    if len(simulation.taken) > 2 * simulation.context.policy.max_victims:
        return found
    for loss in reversed(simulation.taken):
        if _loose([loss], simulation.taken):
            found = simulation.without([loss], found)
    return found


def _loose(losses: list[Loss], gone: Sequence[Loss]) -> list[Loss]:
    """Those of the losses that may stay while these are gone."""
    needed = {number for loss in gone for number in loss.after}
    return [loss for loss in losses if loss.view.attempt_id not in needed] if needed else losses


class Simulation:
    """Takes attempts off the working copies and puts them back."""

    def __init__(self, context: Context, plan: ShapePlan) -> None:
        self.context = context
        self.plan = plan
        self._off: list[RunningView] = []
        self._taken: dict[int, Loss] = {}  # by attempt, in the order in which they were taken

    @property
    def taken(self) -> tuple[Loss, ...]:
        """Who is off now, beside those that stop anyway."""
        return tuple(self._taken.values())

    def has_taken(self, numbers: Iterable[int]) -> bool:
        """Whether all of these, by the ids of their views, are off now."""
        return all(number in self._taken for number in numbers)

    def off(self, views: Iterable[RunningView]) -> None:
        """Those that stop anyway."""
        for view in views:
            self._off.append(view)
            self.context.board.change_members(view.members, 1)
            self.context.ledger.remove(view)

    def take(self, losses: Iterable[Loss]) -> None:
        """These are gone."""
        for loss in losses:
            self._taken[loss.view.attempt_id] = loss
            self._change(loss, 1)

    def give_back(self, losses: Iterable[Loss] | None = None) -> None:
        """These, or all that were taken, are there again."""
        for loss in list(self._taken.values()) if losses is None else list(losses):
            del self._taken[loss.view.attempt_id]
            self._change(loss, -1)

    def without(self, losses: Sequence[Loss], found: Plan) -> Plan:
        """Puts these back if the attempt still has a place, and says which; else changes nothing."""
        self.give_back(losses)
        place = found if self.stands(found) else self.attempt()
        if place is None:
            self.take(losses)
            return found
        return place

    def stands(self, found: Plan) -> bool:
        """Whether a place is free and within the limits as it was found."""
        if not self.context.ledger.may_charge(found.charges):
            return False
        free = self.context.board.take_if_free(found.members)
        if free:
            self.context.board.change_members(found.members, 1)
        return free

    def short_with(self, losses: Sequence[Loss], found: Plan) -> list[str]:
        """The subjects of which there is too little for the attempt with these back: of quota, and of the
        very devices where it is to go. A limit of the organisation is no subject of a queue's."""
        self.give_back(losses)
        board, ledger = self.context.board, self.context.ledger
        short = {
            charge.subject
            for charge in found.charges
            if charge.tree == QUEUE_TREE
            and charge.quantity > ledger.available(QUEUE_TREE, charge.node, charge.subject)
        }
        board.change_members(found.members, -1)
        for member, allocation in allocations_of(found.members):
            if allocation_room(board.state(member.node_id), allocation) < 0:
                short |= {allocation.device_class.value, f"{FLAVOR_PREFIX}{allocation.flavor}"}
        board.change_members(found.members, 1)
        self.take(losses)
        return sorted(short)

    def _change(self, loss: Loss, sign: int) -> None:
        view, ledger = loss.view, self.context.ledger
        self.context.board.change_members(view.members, sign)
        if loss.is_hold:
            ledger.drop(self.context.holds[view.attempt_id], -sign)
        elif sign > 0:
            ledger.remove(view)
        else:
            ledger.reinstate(view)

    def attempt(self) -> Plan | None:
        """Where the preemptor would go; nothing stays taken."""
        found = self.context.placer.place(self.plan, fresh=True)
        if found is not None:
            self.context.board.change_members(found.members, 1)
        return found

    def restore(self) -> None:
        """As it was."""
        self.give_back()
        for view in self._off:
            self.context.board.change_members(view.members, -1)
            self.context.ledger.reinstate(view)
        self._off.clear()
