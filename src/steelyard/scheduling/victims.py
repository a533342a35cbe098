"""Which of those that may be stopped are: as few as will do, together, of the least that is lost.

A search goes on working copies. First the cheap no, by counting: would it be enough if all candidates left?
Then sets are tried, the first that fits and is lawful is taken: by domain (`domains`), else in order (lower
tier, then newest) the smallest prefix that makes room.

Whoever may stay after all, stays ("fill back"), and only the set that is left is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import allocation_room
from steelyard.scheduling.context import Context
from steelyard.scheduling.domains import Domains, order_of
from steelyard.scheduling.placement import Plan, ShapePlan, allocations_of
from steelyard.scheduling.reclaim import Loss, Reach, Verdict
from steelyard.scheduling.runs import STOPS
from steelyard.scheduling.views import HoldView, PendingItem, RunningView

#: Candidates looked at, as a multiple of the victims allowed.
CANDIDATES_PER_VICTIM = 16
#: Those beside them where one device is enough for each member.
FEW = 64
#: Attempts of a queue that are gone through for candidates, as a multiple of these.
SCANNED = 8
#: Sets by domain that are tried before the order alone decides.
MAX_PROPOSALS = 4
#: Candidates that are taken in order, as a multiple of the victims allowed.
IN_ORDER = 4


@dataclass(frozen=True, slots=True)
class Pool:
    """Who could make room: those that stop anyway, and those that would have to be asked to."""

    stopping: tuple[RunningView, ...]
    losses: tuple[Loss, ...]  # in the order in which they are to go
    is_cut: bool  # there are more than were looked at
    reach: Mapping[str, int]  # by flavor, what all of them hold together


class Pools:
    """Who may make room for whom, in one cycle."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._borrowers: dict[str, tuple[str, ...]] = {}
        self._stopping: dict[str, list[RunningView]] | None = None

    def of(self, plan: ShapePlan, item: PendingItem) -> tuple[Reach, Pool | None]:
        """What an attempt may take, and from whom; None when nobody may make room for it."""
        reach = Reach(self.context, plan, item)
        return reach, self._pool(reach, [reach.queue, *self._others(reach)])

    def _stops(self, queue: str) -> list[RunningView]:
        """What stops in a queue, since before this cycle or by it."""
        if self._stopping is None:
            self._stopping = {}
            for _, view in self.context.runs.at(*STOPS):
                self._stopping.setdefault(view.queue, []).append(view)
        made = [one for one in self.context.evictions.values() if one.queue == queue]
        evicted = [view for one in made for view in self.context.stops_by(one)]
        known = [*self._stopping.get(queue, ()), *evicted]
        return sorted(known, key=lambda view: view.attempt_id)

    def _pool(self, reach: Reach, queues: list[str]) -> Pool | None:
        context, most = self.context, _most_candidates(self.context, reach)
        stopping = [view for queue in queues for view in self._stops(queue)]
        losses = [loss for queue in queues for loss in _losses(context, reach, queue, most)]
        held = [loss for loss in (_held(reach, hold) for hold in _kept(context)) if loss is not None]
        if not losses and not held and all(reach.loss(view) is None for view in stopping):
            return None
        losses.sort(key=order_of)
        looked_at = (*held, *_whole(losses[:most]))
        stopping += _victims_of(context, held, stopping)
        of_flavor: dict[str, int] = {}
        for view in (*stopping, *(loss.view for loss in looked_at)):
            for flavor, amount in view.held.items():
                of_flavor[flavor] = of_flavor.get(flavor, 0) + amount
        return Pool(tuple(stopping), looked_at, len(losses) > most, of_flavor)

    def _others(self, reach: Reach) -> list[str]:
        """Other queues from which something may be taken. Who borrows is looked up once a cycle: what a cycle
        places only adds to it, and can't be a victim of the same cycle."""
        if reach.item.guaranteed:
            return [name for name in self.context.queues() if name != reach.queue]
        found = {name for subject in reach.contended for name in self._borrowing(subject)}
        return [name for name in sorted(found) if name != reach.queue and reach.tie(name) is not None]

    def _borrowing(self, subject: str) -> tuple[str, ...]:
        known = self._borrowers.get(subject)
        if known is None:
            context = self.context
            tree, usage = context.snapshot.trees[QUEUE_TREE], context.ledger.worlds[-1][QUEUE_TREE]
            names = {*context.queues(), *(hold.shape.queue for hold in context.holds.values())}
            known = tuple(
                name
                for name in sorted(names)
                if name in tree.nodes and usage.get((name, subject), 0) > tree.subtree(name, subject)
            )
            self._borrowers[subject] = known
        return known


def _losses(context: Context, reach: Reach, queue: str, most: int) -> list[Loss]:
    """A queue's possible victims in order: one more than will be looked at shows that there are more."""
    found: list[Loss] = []
    lower_only = queue == reach.queue or reach.item.guaranteed
    for view in islice(context.running_in(queue), SCANNED * most):
        if len(found) > most or (lower_only and view.priority >= reach.priority):
            break
        if not context.is_stopping(view) and (losses := reach.losses(view)) and _answers(context, view):
            found += losses
    return found


def _whole(losses: list[Loss]) -> list[Loss]:
    """Those of a list that is cut with whom all are in it that must go with them."""
    if not any(loss.after for loss in losses):
        return losses
    known = {loss.view.attempt_id for loss in losses}
    return [loss for loss in losses if known.issuperset(loss.after)]


def _most_candidates(context: Context, reach: Reach) -> int:
    """Where a member needs one device at most, whoever has one will do, and few have to be weighed."""
    lead = reach.plan.lead
    most = CANDIDATES_PER_VICTIM * context.policy.max_victims
    return most if lead.need.amount > WHOLE_DEVICE else min(most, FEW + CANDIDATES_PER_VICTIM * lead.count)


def _answers(context: Context, view: RunningView) -> bool:
    return not view.members or view.members[0].cluster in context.answering  # it stays in one cluster


def _kept(context: Context) -> list[HoldView]:
    """Holds of earlier cycles that may be taken over; a service's headroom may not."""
    new = {hold.attempt_id for hold in context.new_holds}
    return [
        context.holds[key]
        for key in sorted(context.holds)
        if key not in new and not context.holds[key].item.standby and not context.holds[key].item.guaranteed
    ]


def _held(reach: Reach, hold: HoldView) -> Loss | None:
    shape = hold.shape
    view = RunningView(
        hold.attempt_id, hold.workload_id, shape.key, shape.queue, shape.project, shape.priority, hold.since,
        hold.members, hold.charges,
    )
    return reach.loss(view, is_hold=True)


def _victims_of(
    context: Context, held: Iterable[Loss], known: Iterable[RunningView]
) -> list[RunningView]:
    """Those that stop for holds which may be taken over, as far as they are not known yet."""
    seen = {view.attempt_id for view in known}
    found = []
    for loss in held:
        for victim in context.holds[loss.view.attempt_id].victims:
            view = context.endable.get(victim)
            if view is not None and victim not in seen and context.is_stopping(view):
                seen.add(victim)
                found.append(view)
    return found


# --- the search -------------------------------------------------------------------------------------------
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
