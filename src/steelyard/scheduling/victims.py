"""Which of those that may be stopped are: as few as will do, together, of the least that is lost.

A search goes on working copies. First the cheap no: with all candidates off, does the attempt fit at all?
Then sets are tried, the first that fits and is lawful is taken:

- by domain: where the attempt's members could go with the fewest evictions, one node before several (a
  domain of its topology, where it asks for one), the lowest priority first, no gang of many devices for a
  few that are needed, of equals the least work lost;
- else in order (lower tier, then newest), the smallest prefix that makes room.

Whoever may stay after all, stays ("fill back"), and only the set that is left is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.model.policy import QUEUE_TREE
from steelyard.scheduling.board import NodeState, allocation_room, flavor_free, matches
from steelyard.scheduling.context import Context
from steelyard.scheduling.ledger import Ask
from steelyard.scheduling.placement import Plan, ShapePlan, allocations_of
from steelyard.scheduling.reclaim import Loss, Reach, Verdict
from steelyard.scheduling.views import Charge, HoldView, PendingItem, RunningView

#: Candidates looked at, as a multiple of the victims allowed.
CANDIDATES_PER_VICTIM = 16
#: Sets by domain that are tried before the order alone decides.
MAX_PROPOSALS = 4


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

    def of(self, plan: ShapePlan, item: PendingItem) -> tuple[Reach, Pool | None]:
        """What an attempt may take, and from whom; None when nobody may make room for it."""
        reach = Reach(self.context, plan, item)
        return reach, _pool(self.context, reach, self._others(reach))

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


def _pool(context: Context, reach: Reach, others: Iterable[str]) -> Pool | None:
    stopping: list[RunningView] = []
    losses: list[Loss] = []
    waits = False  # somebody stops who would have been a victim
    for queue in (reach.queue, *others):
        for view in context.running_in(queue):
            loss = reach.loss(view)
            if context.is_stopping(view):
                stopping.append(view)
                waits = waits or loss is not None
            elif loss is not None and _answers(context, view):
                losses.append(loss)
    held = [loss for loss in (_held(reach, hold) for hold in _kept(context)) if loss is not None]
    if not losses and not held and not waits:
        return None
    losses.sort(key=_order)
    most = CANDIDATES_PER_VICTIM * context.policy.max_victims
    looked_at = (*held, *losses[:most])
    stopping += _victims_of(context, held, stopping)
    of_flavor: dict[str, int] = {}
    for view in (*stopping, *(loss.view for loss in looked_at)):
        for _, allocation in allocations_of(view.members):
            of_flavor[allocation.flavor] = of_flavor.get(allocation.flavor, 0) + allocation.quantity
    return Pool(tuple(stopping), looked_at, len(losses) > most, of_flavor)


def _order(loss: Loss) -> tuple[tuple[int, int], int, int]:
    return (loss.tier, -loss.view.placed_at, -loss.view.attempt_id)


def _answers(context: Context, view: RunningView) -> bool:
    return all(member.cluster in context.answering for member in view.members)


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
            view = context.snapshot.running.get(victim)
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
        if not pool.losses:
            return None
        simulation.take(pool.losses)
        fits = simulation.attempt() is not None
        simulation.give_back()
        return _sets(simulation, reach, pool, allowed) if fits else None
    finally:
        simulation.restore()


def _sets(simulation: Simulation, reach: Reach, pool: Pool, allowed: int) -> Choice | None:
    banned: set[int] = set()
    for _ in range(MAX_PROPOSALS):
        proposal, nodes = _Domains(simulation, pool.losses, banned).best()
        if not proposal:
            break
        _take_lawful(simulation, reach, proposal)
        choice = _settled(simulation, reach, allowed)
        if choice is not None:
            return choice
        banned |= nodes
    taken = _take_lawful(simulation, reach, pool.losses)
    if simulation.attempt() is None:
        return None
    _shorten(simulation, taken)
    return _settled(simulation, reach, allowed)


def _take_lawful(simulation: Simulation, reach: Reach, losses: Iterable[Loss]) -> list[Loss]:
    """One after the other, each only while its side may lose it."""
    simulation.give_back()
    taken = []
    for loss in losses:
        if reach.may_lose(loss):
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
    if sum(not loss.is_hold for loss in losses) > allowed:
        return None
    judged = []
    for loss in losses:
        verdict = reach.judge(loss, simulation.short_with(loss, found), found.charges)
        if verdict is None:
            return None
        judged.append((loss, verdict))
    return Choice(found, tuple(judged))


def _fill_back(simulation: Simulation, found: Plan) -> Plan:
    """Puts back whoever may stay; the place that is left."""
    nodes = {member.node_id for member in found.members}
    apart = [v for v in simulation.taken if not any(member.node_id in nodes for member in v.view.members)]
    found = simulation.without(apart, found) if apart else found
    if len(simulation.taken) > 2 * simulation.context.policy.max_victims:
        return found
    for loss in reversed(simulation.taken):
        found = simulation.without([loss], found)
    return found


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
        if not self.fits(found.charges):
            return False
        free = self.context.board.take_if_free(found.members)
        if free:
            self.context.board.change_members(found.members, 1)
        return free

    def fits(self, charges: Sequence[Charge]) -> bool:
        """Whether all limits let it be charged."""
        trees = self.context.snapshot.trees
        return self.context.ledger.fits(
            Ask(charge.tree, charge.node, charge.subject, charge.quantity)
            for charge in charges
            if trees[charge.tree].governs(charge.subject)
        )

    def short_with(self, loss: Loss, found: Plan) -> list[str]:
        """The subjects of which there is too little for the attempt with this one back: of quota, and of the
        very devices where it is to go. A limit of the organisation is no subject of a queue's."""
        self.give_back([loss])
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
                short |= {allocation.device_class.value, f"flavor/{allocation.flavor}"}
        board.change_members(found.members, 1)
        self.take([loss])
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


# --- by domain --------------------------------------------------------------------------------------------
#: (tier of the worst, evicted in multiples of twice what is asked, how many, device-µs lost, how much, ids)
_Cost = tuple[tuple[int, int], int, int, int, int, tuple[int, ...]]


@dataclass(slots=True)
class _Node:
    """A node that could take members: how much of the flavor is free, and who would leave more of it."""

    id: int
    domain: str | int
    free: int
    holders: list[tuple[Loss, int]] = field(default_factory=list)  # with what each has here


class _Domains:
    """Sets of victims by domain, by counting alone; whether they do is for the simulation to say."""

    def __init__(self, simulation: Simulation, losses: Sequence[Loss], banned: set[int]) -> None:
        self.context = simulation.context
        self.plan = simulation.plan
        self.losses = losses
        self.banned = banned
        lead = self.plan.lead
        self.need, self.count = max(1, lead.need.amount), lead.count
        self.wanted = self.need * self.count
        topology = self.plan.shape.topology
        self.level = topology.required or topology.preferred if topology else None

    def best(self) -> tuple[list[Loss], set[int]]:
        """The cheapest set over all flavors and domains, and the nodes it frees; nothing where none is needed
        or none suffices."""
        found: list[tuple[_Cost, int, list[Loss], set[int]]] = []
        for rank, flavor in enumerate(self.plan.lead.flavors):
            domains: dict[str | int, list[_Node]] = {}
            for node in self._nodes(flavor):
                domains.setdefault(node.domain, []).append(node)
            for nodes in domains.values():
                chosen, freed = self._assemble(nodes)
                if chosen:
                    found.append((self._cost(chosen), rank, chosen, freed))
        if not found:
            return [], set()
        _, _, chosen, freed = min(found, key=lambda entry: entry[:2])
        return sorted(chosen, key=_order), freed

    def _nodes(self, flavor: str) -> list[_Node]:
        """Those that count: for a single member only where somebody could leave, for it fits nowhere now."""
        board, need = self.context.board, self.plan.lead.need
        ids: Iterable[int] = board.order(flavor)[: self.context.policy.max_nodes]
        if self.count == 1:
            held = {member.node_id for loss in self.losses for member in loss.view.members}
            ids = [node_id for node_id in ids if node_id in held]
        found: dict[int, _Node] = {}
        for node_id in ids:
            state = board.state(node_id)
            if node_id not in self.banned and matches(state.view, need):
                domain = state.view.labels.get(self.level, node_id) if self.level else ""
                found[node_id] = _Node(node_id, domain, self._free(state, flavor))
        for loss in self.losses:
            here: dict[int, int] = {}
            for member, allocation in allocations_of(loss.view.members):
                if allocation.flavor == flavor and member.node_id in found:
                    here[member.node_id] = here.get(member.node_id, 0) + allocation.quantity
            for node_id, amount in here.items():
                found[node_id].holders.append((loss, amount))
        return list(found.values())

    def _free(self, state: NodeState, flavor: str) -> int:
        devices = state.devices.get(flavor)
        if devices is not None and self.need % 1000 == 0:
            return len(devices.whole) * 1000
        return flavor_free(state, flavor)

    def _assemble(self, nodes: list[_Node]) -> tuple[list[Loss], set[int]]:
        """Member by member onto the node where it costs least."""
        missing = self.count - sum(node.free // self.need for node in nodes)
        by_id = {node.id: node for node in nodes if node.holders}
        chosen: dict[int, Loss] = {}
        freed: set[int] = set()
        options = {node_id: self._option(node, chosen) for node_id, node in by_id.items()}
        while missing > 0:
            possible = [(option[0], node_id) for node_id, option in options.items() if option is not None]
            if not possible:
                return [], set()
            best = min(possible)[1]
            option = options[best]
            assert option is not None
            members = [member for loss in option[1] for member in loss.view.members]
            touched = {member.node_id for member in members if member.node_id in by_id}
            before = sum(self._hosts(by_id[node_id], chosen) for node_id in touched)
            chosen.update((loss.view.attempt_id, loss) for loss in option[1])
            freed.add(best)
            missing -= sum(self._hosts(by_id[node_id], chosen) for node_id in touched) - before
            options.update((node_id, self._option(by_id[node_id], chosen)) for node_id in touched)
        return list(chosen.values()), freed

    def _option(self, node: _Node, chosen: Mapping[int, Loss]) -> tuple[_Cost, list[Loss]] | None:
        more = self._one_more(node, chosen)
        return (self._cost(more), more) if more else None

    def _hosts(self, node: _Node, chosen: Mapping[int, Loss]) -> int:
        return self._left(node, chosen) // self.need

    def _left(self, node: _Node, chosen: Mapping[int, Loss]) -> int:
        return node.free + sum(amount for loss, amount in node.holders if loss.view.attempt_id in chosen)

    def _one_more(self, node: _Node, chosen: Mapping[int, Loss]) -> list[Loss]:
        """Who would have to go so that the node takes one member more; empty where nobody can make it so."""
        left = self._left(node, chosen)
        target = (left // self.need + 1) * self.need
        more: list[Loss] = []
        for loss, amount in sorted(node.holders, key=lambda entry: self._preference(*entry)):
            if left >= target:
                break
            if loss.view.attempt_id not in chosen:
                more.append(loss)
                left += amount
        return more if left >= target else []

    def _preference(self, loss: Loss, amount: int) -> tuple[tuple[int, int], int, int, int, int, int]:
        """The worst tier last; no gang for a few devices; the most of it here; the least lost; the newest."""
        held = self._held(loss)
        return (
            loss.tier, held // (2 * self.wanted), -min(amount, self.need), held, self._lost(loss),
            -loss.view.attempt_id,
        )

    def _held(self, loss: Loss) -> int:
        classes = self.plan.lead.need.primary
        return sum(a.quantity for _, a in allocations_of(loss.view.members) if a.device_class is classes)

    def _lost(self, loss: Loss) -> int:
        return 0 if loss.is_hold else lost_time(loss.view, self.context.now) * self._held(loss)

    def _cost(self, losses: Iterable[Loss]) -> _Cost:
        each = list(losses)
        held = sum(self._held(loss) for loss in each)
        return (
            max(loss.tier for loss in each),
            held // (2 * self.wanted),
            len(each),
            sum(self._lost(loss) for loss in each),
            held,
            tuple(sorted(-loss.view.attempt_id for loss in each)),
        )


def lost_time(view: RunningView, now: int) -> int:
    """µs of its work that would be lost: since its last checkpoint, else since it started."""
    since = view.checkpointed_at or view.started_at or view.placed_at
    return max(0, now - since)
