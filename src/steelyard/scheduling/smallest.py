"""The smallest change that would start a waiting workload now, of each kind, found by trying.

Candidates come from the working state at the workload's turn; each that is told was then applied to the
snapshot and *decided*: the next cycle would start the workload. Within a kind nothing smaller does. The
search is bounded by counts; where a bound was met, the remedy says `approximate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.resources import DeviceClass
from steelyard.model.units import DAY, SECOND
from steelyard.model.workloads import Shape
from steelyard.scheduling.board import need_of
from steelyard.scheduling.explain import ORDER
from steelyard.scheduling.near import near
from steelyard.scheduling.own_turn import Turn, equals_before, start_or_turn, starts, turn_of
from steelyard.scheduling.placement import matching_flavors
from steelyard.scheduling.quota import shortfalls, shown
from steelyard.scheduling.remedies import (
    Elsewhere,
    Raise,
    Remedy,
    RemedyKind,
    World,
    applied,
    world_of,
)
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem
from steelyard.scheduling.waits_for import holders_to_wait_for

#: Decisions made for one kind of remedy.
MAX_TRIES = 24
#: Other flavors, and other queues, that are tried.
MAX_OTHERS = 8
#: Sizes that are tried one after the other where a smaller size need not fit just because a larger one does.
LINEAR = 16
#: Times that limits are raised anew because others went first.
MAX_RAISES = 16
#: The longest time limit that is thought of (µs).
HORIZON = 30 * DAY
#: What helps others, too.
_FOR_ALL = frozenset({RemedyKind.WAIT_FOR, RemedyKind.RAISE_LIMIT})
_By: TypeAlias = dict[tuple[str, str, str, str], int]  # (tree, node, subject, field) → by how much
_What: TypeAlias = Callable[[Snapshot, _By], _By]


def smallest(
    snapshot: Snapshot,
    policy: Policy,
    now: int,
    shape: Shape,
    item: PendingItem,
    elsewhere: Sequence[Elsewhere] = (),
    *,
    waits: bool = False,
) -> tuple[Remedy, ...]:
    """The remedies for a workload that waits, in the order of `RemedyKind`; of each kind the smallest.

    Empty for one that starts anyhow, has a hold or is not eligible yet, and where no single change would do.
    `elsewhere`: other queues to which the project's routes lead.
    `waits`: it is known already, by `explain`, that it does not start.
    """
    later = max(item.not_before, item.eligible_at) > now
    if later or item.standby or item.attempt_id in snapshot.holds:
        return ()
    around, is_cut = near(snapshot, shape, now)
    world = world_of(around, shape, item)
    trial = Trial(world, policy, now)
    if not waits and trial.now_starts(world):
        return ()
    finders: Sequence[Callable[[], Iterable[Remedy]]] = (
        lambda: _other_flavor(trial),
        lambda: _other_queue(trial, elsewhere),
        lambda: _shorter(trial),
        lambda: _fewer_members(trial),
        lambda: _fewer_devices(trial),
        lambda: holders_to_wait_for(trial),
        lambda: _raises(trial, shape),
    )
    found = [remedy for find in finders for remedy in find()]
    # others who wait might go first by what is raised or given back, and not all of them were looked at
    return tuple(
        replace(remedy, approximate=remedy.approximate or is_cut) if remedy.kind in _FOR_ALL else remedy
        for remedy in found
    )


class Trial:
    """Tries changes on one world; counts what it tried."""

    def __init__(self, world: World, policy: Policy, now: int) -> None:
        self.world = world
        self.policy = policy
        self.now = now
        self.tries = 0
        self._turn: tuple[Turn | None] | None = None

    @property
    def turn(self) -> Turn | None:
        """The working state at the workload's turn, nothing being changed."""
        if self._turn is None:
            self._turn = (turn_of(self.world, self.policy, self.now),)
        return self._turn[0]

    def now_starts(self, world: World) -> bool:
        """Decides."""
        self.tries += 1
        return starts(world, self.policy, self.now)

    def now_starts_or_turn(self, world: World) -> tuple[bool, Turn | None]:
        """Decides; where it does not start, the working state at its turn."""
        self.tries += 1
        return start_or_turn(world, self.policy, self.now)

    def starts_with(self, remedy: Remedy) -> bool:
        """Decides with the change made; what can't even be placed at its turn need not be decided."""
        world = applied(self.world, remedy)
        return self._may_fit(world, remedy) and self.now_starts(world)

    def _may_fit(self, world: World, remedy: Remedy) -> bool:
        """False only where a changed request surely finds no place: at the turn of a cycle in which nothing
        went before it, what is free is all there is, whenever its turn comes."""
        turn = self.turn
        if remedy.kind in _FOR_ALL or turn is None or turn.moved or world.shape.least:
            return True
        plan = turn.context.plan(world.shape)
        found = turn.context.placer.place(plan, fresh=True)
        if found is not None:
            turn.context.board.change_members(found.members, 1)
        return found is not None or turn.context.placer.cut_short


# --- the request elsewhere -------------------------------------------------------------------------------
def _other_flavor(trial: Trial) -> Iterable[Remedy]:
    """A flavor of the same class that the request excludes; the fewer constraints it gives up, the better."""
    shape, snapshot = trial.world.shape, trial.world.snapshot
    if not shape.roles:
        return
    needs = [need_of(request) for _, _, request in shape.roles]
    lead = next((need for need in needs if need.is_accelerated), needs[0])
    allowed = matching_flavors(snapshot.flavors, lead)
    real = any(not snapshot.flavors[name].simulated for name in allowed)
    others = []
    for name in sorted(snapshot.flavors):
        flavor = snapshot.flavors[name]
        if flavor.device_class is not lead.primary or name in allowed or (real and flavor.simulated):
            continue
        request = lead.request
        given_up = [bool(request.flavors) and name not in request.flavors]
        given_up.append(bool(request.models) and flavor.model not in request.models)
        given_up.append(bool(request.clusters) and flavor.cluster not in request.clusters)
        others.append((sum(given_up), name))
    others.sort()
    for _, name in others[:MAX_OTHERS]:
        remedy = Remedy(RemedyKind.OTHER_FLAVOR, resource=lead.primary.value, flavor=name)
        if trial.starts_with(remedy):
            yield remedy
            return


def _other_queue(trial: Trial, elsewhere: Sequence[Elsewhere]) -> Iterable[Remedy]:
    others = [to for to in elsewhere if to.queue != trial.world.shape.queue]
    for to in others[:MAX_OTHERS]:
        remedy = Remedy(RemedyKind.OTHER_QUEUE, to=to)
        if trial.starts_with(remedy):
            yield remedy
            return


# --- less of it ------------------------------------------------------------------------------------------
def _shorter(trial: Trial) -> Iterable[Remedy]:
    """The longest time limit, in whole seconds, with which it starts: it goes before somebody's reserved
    time."""
    before = trial.world.shape.time_limit
    seconds = (HORIZON if before is None else before) // SECOND

    def remedy(given_up: int) -> Remedy:
        after = (seconds - given_up) * SECOND
        return Remedy(RemedyKind.SHORTER_TIME_LIMIT, before=before, after=after)

    first = 0 if before is None or before % SECOND else 1
    yield from _least(trial, remedy, first, seconds - 1, is_monotone=True)


def _fewer_members(trial: Trial) -> Iterable[Remedy]:
    shape = trial.world.shape
    found = []
    for name, count, _ in shape.roles:

        def remedy(given_up: int, role: str = name, before: int = count) -> Remedy:
            return Remedy(RemedyKind.FEWER_MEMBERS, role, before=before, after=before - given_up)

        found += list(_least(trial, remedy, 1, count - 1, is_monotone=len(shape.roles) == 1))
    found.sort(key=lambda remedy: (remedy.before or 0) - (remedy.after or 0))
    yield from found[:1]


def _fewer_devices(trial: Trial) -> Iterable[Remedy]:
    """Less of one class for each member of one role: whole units where whole ones are asked for."""
    shape = trial.world.shape
    for device_class in ORDER:
        found = []
        for name, _, request in shape.roles:
            before = request.amount(device_class)
            if before <= 1:
                continue
            unit = _unit(device_class, before)

            def remedy(
                given_up: int, role: str = name, all_of_it: int = before, step: int = unit,
                resource: str = device_class.value,
            ) -> Remedy:  # fmt: skip
                after = all_of_it - given_up * step
                return Remedy(RemedyKind.FEWER_DEVICES, role, resource, all_of_it, after)

            most = (before - 1) // unit
            found += list(_least(trial, remedy, 1, most, is_monotone=len(shape.roles) == 1))
        if found:
            yield min(found, key=lambda remedy: (remedy.before or 0) - (remedy.after or 0))
            return


def _unit(device_class: DeviceClass, amount: int) -> int:
    """The step in which less is thought of: a device, a core or a GiB where the request is of whole ones."""
    whole = 1024 if device_class is DeviceClass.MEMORY else 1000
    return 1 if amount % whole else whole


def _least(
    trial: Trial, remedy: Callable[[int], Remedy], first: int, last: int, is_monotone: bool
) -> Iterable[Remedy]:
    """The remedy that gives up the least, of first … last steps; none where even all of it does not do.

    Where more given up helps at least as much, by halving. Else one after the other as far as `LINEAR`;
    beyond that by halving, which may pass over a smaller one.
    """
    if last < first:
        return
    if not is_monotone:
        for given_up in range(first, min(last, first + LINEAR - 1) + 1):
            if trial.starts_with(remedy(given_up)):
                yield remedy(given_up)
                return
        first += LINEAR
        if last < first:
            return
    if not trial.starts_with(remedy(last)):
        return
    low, high = first - 1, last  # `low` does not do, or is not asked for; `high` does
    while high - low > 1:
        middle = (low + high) // 2
        if trial.starts_with(remedy(middle)):
            high = middle
        else:
            low = middle
    yield replace(remedy(high), approximate=not is_monotone)


# --- higher limits ---------------------------------------------------------------------------------------
def _raises(trial: Trial, shape: Shape) -> Iterable[Remedy]:
    """Higher limits, those that bind on one of the flavors, each by exactly what it is short; the fewest,
    then the least. None where so many equal ones come before it (`shape` is theirs) that each raise would
    go to another of them."""
    turn = trial.turn
    if turn is None or equals_before(turn, shape, trial.world.item, MAX_RAISES) >= MAX_RAISES:
        return
    plan = turn.context.plan(trial.world.shape)
    flavors: Sequence[str] = plan.lead.flavors if plan.roles else ()
    starts: list[tuple[tuple[int, int], str, _What]] = []
    for flavor in flavors[:MAX_OTHERS]:
        short = _short(turn, flavor)
        for what in WAYS if short else ():
            by = what(trial.world.snapshot, short or {})
            starts.append(((len(by), sum(by.values())), flavor, what))
    best: Remedy | None = None
    for least, flavor, what in sorted(starts, key=lambda entry: entry[0]):
        if best is not None and _cost(best) <= least:
            break  # the rest would need more from the start
        remedy = _raise_on(trial, flavor, what)
        if remedy is not None and (best is None or _cost(remedy) < _cost(best)):
            best = remedy
    if best is not None:
        is_cut = len(flavors) > MAX_OTHERS
        yield replace(best, approximate=is_cut or (turn.moved and _is_too_much(trial, best)))


def _is_too_much(trial: Trial, remedy: Remedy) -> bool:
    """Whether less would do: where a queue owns more, its share is less, so it may come before others, who
    then take nothing of it."""
    raises = remedy.raises
    less = (
        (*raises[:at], replace(each, by=each.by - 1), *raises[at + 1 :]) for at, each in enumerate(raises)
    )
    return any(trial.now_starts(applied(trial.world, replace(remedy, raises=each))) for each in less)


def _cost(remedy: Remedy) -> tuple[int, int]:
    return len(remedy.raises), sum(each.by for each in remedy.raises)


def _raise_on(trial: Trial, flavor: str, what: _What) -> Remedy | None:
    """Raises what binds and decides; where others go first by it, raises again by what is then short."""
    by: _By = {}
    turn = trial.turn
    for _ in range(MAX_RAISES):
        short = _short(turn, flavor) if turn is not None else None
        if not short:
            return None
        for key, quantity in what(trial.world.snapshot, short).items():
            by[key] = by.get(key, 0) + quantity
        remedy = Remedy(RemedyKind.RAISE_LIMIT, raises=_as_raises(trial.world.snapshot, by))
        has_started, turn = trial.now_starts_or_turn(applied(trial.world, remedy))
        if has_started:
            return remedy
    return None


def _each(snapshot: Snapshot, short: _By) -> _By:
    """Each limit for itself: what its node may use beyond what it owns, or what a root owns."""
    del snapshot
    return short


def _owned(snapshot: Snapshot, short: _By) -> _By:
    """In the queue tree one quota for all above it: what the lowest of them owns counts for those above,
    too. Organisation limits own nothing, so each stands for itself."""
    by: _By = {}
    for (tree, node, subject, field), quantity in short.items():
        if tree != QUEUE_TREE:
            by[tree, node, subject, field] = quantity
            continue
        below = [
            other for name, other, of, _ in short
            if (name, of) == (tree, subject) and node in snapshot.trees[tree].path(other)
        ]  # fmt: skip
        lowest = max(below, key=lambda other: len(snapshot.trees[tree].path(other)))
        key = (tree, lowest, subject, "nominal")
        by[key] = max(by.get(key, 0), quantity)
    return by


#: How a set of limits may be raised.
WAYS: tuple[_What, ...] = (_each, _owned)


def _short(turn: Turn, flavor: str) -> _By | None:
    """What each limit is short at the turn, with places on a flavor; None where there is no room on it
    whatever the limits are."""
    context = turn.context
    plan = context.plan(turn.shape)
    if context.is_barred(turn.shape):
        return None
    found = context.placer.place_with(plan, flavor, fresh=True, check_quota=False)
    if found is None:
        return None
    context.board.change_members(found.members, 1)
    short: _By = {}
    for charge in found.charges:
        tree = context.snapshot.trees[charge.tree]
        for world in context.ledger.worlds:
            for each in shortfalls(tree, world[charge.tree], charge.node, charge.subject, charge.quantity):
                (term, *_) = tree.terms(each.node, charge.subject)
                field = "nominal" if term.is_root else "borrowing_limit"
                key = (charge.tree, each.node, charge.subject, field)
                short[key] = max(short.get(key, 0), each.short_by)
    return short


def _as_raises(snapshot: Snapshot, by: _By) -> tuple[Raise, ...]:
    raises = []
    for (name, node, subject, field), quantity in sorted(by.items()):
        tree = snapshot.trees[name]
        (term, *_) = tree.terms(node, subject)
        before = None if term.ceiling is None else shown(term.ceiling)
        raises.append(Raise(name, node, tree.nodes[node].kind, subject, field, before, quantity))
    return tuple(raises)
