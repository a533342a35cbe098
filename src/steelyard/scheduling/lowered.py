"""What becomes of work above a limit that was lowered: as the limit says, and in which order.

A node is above its limit when what is charged to it, without what stops already and without places that are
only kept, is more than it owns and may borrow. Nothing new starts below it then, whatever the limit says
(`quota.available`). What runs goes on under `StopNew`; under `Reclaim` as much of it as is above leaves at
once, under `Drain` once `drain_for` is over, counted from the change of the limit. Both keep to the minimum
run time of the work's queue and to the node's evictions of an hour; what may not be preempted, and so
whatever a service is guaranteed, stays.

Who leaves: whoever may first; of those the lower priority, then the newest that have no more than what is
above, then the smallest of the others. Whoever may stay after all, stays. In a queue tree nobody leaves whose
queue, with every cohort below the node, has no more than it owns; there is always somebody who has.

Which limit says it: that of the node itself, else (a cohort that is above because its queues own less) the
nearest to the work that says anything. Pure; the work is bounded by `MAX_SEEN`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from steelyard.model.policy import QUEUE_TREE, Limit, OnLowered, Policy
from steelyard.model.units import HOUR
from steelyard.scheduling.bundles import surplus_of
from steelyard.scheduling.context import Context
from steelyard.scheduling.decisions import LOWERED, Eviction, Leaving, PassedLimit
from steelyard.scheduling.quota import UNBOUNDED_ROOT, Ceiling, QuotaTree, Usage, charge
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.runs import STOPS, Entry, Runs, as_runs
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.subjects import Counting
from steelyard.scheduling.views import Charge, RunningView

#: Attempts below one node that are looked at for who has to leave, in the order of victims.
MAX_SEEN = 4096
#: Instants at which somebody leaves, of what is foreseen.
MAX_INSTANTS = 256
_STRONGEST = (OnLowered.RECLAIM, OnLowered.DRAIN)


@dataclass(frozen=True, slots=True)
class Departure:
    """Somebody who has to leave, and from when on (µs) that may be asked of it."""

    view: RunningView
    at: int
    effect: OnLowered
    gain: int  # by how much the node has less without it
    members: tuple[Leaving, ...] = ()  # only these of a gang that goes on; empty: all of it


@dataclass(frozen=True, slots=True)
class Passed:
    """A node above its limit. `leaving` in the order in which they are asked; `stays` is what is above when
    all of them have left, until more ends by itself."""

    limit: PassedLimit
    effect: OnLowered  # as it says; where it says nothing, what comes of that (`effect_of`)
    over: int  # without what stops already
    leaving: tuple[Departure, ...]
    stays: int


def enforce(context: Context) -> None:
    """Asks those to stop that have to leave now, and notes when the next may be asked."""
    trees = context.snapshot.trees
    if not any(tree.watched for tree in trees.values()):
        return
    lowering = Lowering(trees, context.ledger.worlds[0], context.runs, context.rules, context.surplus)
    watched = {name: tree.watched for name, tree in trees.items()}
    for passed in lowering.passed(watched, context.now, lambda view: _answers(context, view)):
        leaving = passed.leaving[: max(0, _allowed(context, passed.limit.node))]
        context.evict(_eviction(each, passed.limit) for each in leaving)
    if lowering.later:
        context.wake(min(lowering.later))


def foreseen(snapshot: Snapshot, policy: Policy, now: int) -> tuple[Passed, ...]:
    """Every limit that is passed, who will leave for it and when, if nothing ends by itself before."""
    rules = Rules(policy, snapshot.trees.get(QUEUE_TREE))
    counting = Counting(snapshot.trees, snapshot.flavors, policy)
    runs = as_runs(snapshot.running)
    lowering = Lowering(
        snapshot.trees, snapshot.usage, runs, rules, lambda view: surplus_of(view, counting)
    )  # fmt: skip
    for hold in snapshot.holds.values():
        lowering.charge(hold.charges, -1)
    ceilings = {name: tree.ceilings for name, tree in snapshot.trees.items()}
    found: dict[tuple[str, str, str], Passed] = {}
    at: int | None = now
    for _ in range(MAX_INSTANTS):
        if at is None:
            break
        lowering.later.clear()
        for passed in lowering.passed(ceilings, at, lambda _: True):
            _merge(found, passed)
        at = min(lowering.later, default=None)
    settled = [replace(each, stays=max(0, lowering.over(each.limit))) for each in found.values()]
    return tuple(
        _within_budget(each, rules, snapshot.evicted, now)
        for each in settled
        if each.leaving or each.stays  # else it is within its limit when others have left for theirs
    )


def _merge(found: dict[tuple[str, str, str], Passed], passed: Passed) -> None:
    """Who leaves for a limit at one instant, beside those who leave for it before."""
    key = (passed.limit.tree, passed.limit.node, passed.limit.subject)
    known = found.get(key)
    if known is not None:
        effect = known.effect if known.leaving else passed.effect
        leaving = (*known.leaving, *passed.leaving)
        passed = Passed(known.limit, effect, known.over, leaving, passed.stays)
    found[key] = passed


def _answers(context: Context, view: RunningView) -> bool:
    return all(member.cluster in context.answering for member in view.members)


def _within_budget(
    passed: Passed, rules: Rules, evicted: Mapping[str, tuple[int, ...]], now: int
) -> Passed:
    """Those above the budget of an hour leave in a later one; none where it is 0."""
    node = passed.limit.node
    per_hour = rules.of(node).preemption.per_hour
    lately = sum(1 for at in evicted.get(node, ()) if at > now - HOUR)
    if per_hour is None:
        return passed
    if per_hour == 0:
        return replace(passed, leaving=(), stays=passed.over)
    late = [
        replace(leaving, at=max(leaving.at, now + HOUR * ((number + lately) // per_hour)))
        for number, leaving in enumerate(passed.leaving)
    ]
    return replace(passed, leaving=tuple(late))


def _allowed(context: Context, node: str) -> int:
    """How many more may be asked in this cycle, and in this hour for the node."""
    most = context.policy.max_victims - len(context.evictions)
    budget = context.rules.of(node).preemption.per_hour
    if budget is None:
        return most
    lately = [at for at in context.snapshot.evicted.get(node, ()) if at > context.now - HOUR]
    spent = sum(1 for made in context.evictions.values() if made.preemptor_queue == node)
    left = budget - len(lately) - spent
    if lately and left < most:
        context.wake(min(lately) + HOUR)
    return min(most, left)


def _eviction(leaving: Departure, limit: PassedLimit) -> Eviction:
    view = leaving.view
    return Eviction(
        view.workload_id, view.attempt_id, view.queue, view.priority, None, None, None, LOWERED, limit.node,
        members=leaving.members, limit=limit,
    )


class _Overlay(Mapping[tuple[str, str], int]):
    """A usage with changes of its own laid over it."""

    def __init__(self, below: Usage) -> None:
        self._below = below
        self.own: dict[tuple[str, str], int] = {}

    def __getitem__(self, key: tuple[str, str]) -> int:
        found = self.own.get(key)
        return self._below[key] if found is None else found

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter({*self._below, *self.own})

    def __len__(self) -> int:
        return len({*self._below, *self.own})


class Lowering:
    """Who has to leave, on a picture of the usage that nobody else sees."""

    def __init__(
        self, trees: Mapping[str, QuotaTree], usage: Mapping[str, Usage], runs: Runs, rules: Rules,
        surplus: Callable[[RunningView], Sequence[Leaving]],
    ) -> None:  # fmt: skip
        self.trees = trees
        self._surplus = surplus  # the members that a gang could lose, in the order in which they leave
        self.runs = runs
        self.rules = rules
        self.later: set[int] = set()  # instants at which somebody may be asked who may not be asked yet
        self._usage = {name: _Overlay(usage.get(name, {})) for name in trees}
        self._gone: set[int] = set()  # attempts that are taken off

    def charge(self, charges: Iterable[Charge], sign: int) -> None:
        """Adds what an attempt is charged, or with sign −1 takes it off."""
        for item in charges:
            tree = self.trees.get(item.tree)
            if tree is None or item.node not in tree.nodes:
                continue
            usage = self._usage[item.tree]
            for node, subject, delta in charge(tree, usage, item.node, item.subject, sign * item.quantity):
                usage.own[node, subject] = usage.get((node, subject), 0) + delta

    def passed(
        self, ceilings: Mapping[str, Iterable[Ceiling]], now: int, may_stop: Callable[[RunningView], bool]
    ) -> Iterator[Passed]:
        """Those of the limits that are passed, by tree and from below, and who leaves for each at that
        instant: who leaves for one is gone for the next. `over` is what is above before anybody leaves."""
        above = [
            PassedLimit(name, node, subject, ceiling, used)
            for name, known in sorted(ceilings.items())
            for (node, subject), ceiling in known
            if (used := self._usage[name].get((node, subject), 0)) > ceiling
        ]
        for _, view in self.runs.at(*STOPS) if above else ():
            if view.attempt_id not in self._gone:
                self._take_off(view)
        chosen: list[tuple[PassedLimit, int, list[Departure]]] = []
        for limit in above:
            over = self.over(limit)
            if over > 0:
                chosen.append((limit, over, self._chosen(limit, now, may_stop)))
        for _, _, taken in reversed(chosen):  # who left for one may have to no longer, for who left since
            taken[:] = self._fill_back(above, taken)
        for limit, over, taken in chosen:
            yield self._told(limit, over, taken)

    def _chosen(
        self, limit: PassedLimit, now: int, may_stop: Callable[[RunningView], bool]
    ) -> list[Departure]:
        candidates = [each for each in self._candidates(limit) if may_stop(each.view)]
        may = [replace(each, at=now) for each in candidates if each.at <= now]
        taken: list[Departure] = []
        for _, level in groupby(may, key=lambda each: each.view.priority):  # in the order of victims
            taken += self._of_level(limit, list(level))
        if self.over(limit) > 0 and (later := [each.at for each in candidates if each.at > now]):
            self.later.add(min(later))
        return self._fill_back([limit], taken)

    def _told(self, limit: PassedLimit, over: int, taken: Sequence[Departure]) -> Passed:
        own = effect_of(self.trees[limit.tree], limit.node, limit.subject, limit.node)
        effects = {each.effect for each in taken} if own is None else {own.on_lowered}
        effect = next((each for each in _STRONGEST if each in effects), OnLowered.STOP_NEW)
        return Passed(limit, effect, over, tuple(taken), max(0, self.over(limit)))

    def _of_level(self, limit: PassedLimit, level: Sequence[Departure]) -> list[Departure]:
        taken: list[Departure] = []
        larger: list[Departure] = []
        for each in level:
            over = self.over(limit)
            if over <= 0:
                return taken
            gain = self._gain(limit, each.view)
            if 0 < gain <= over:
                taken.append(replace(each, gain=gain))
                self._take_off(each.view)
            elif gain > 0:
                larger.append(replace(each, gain=gain))
        larger.sort(key=lambda each: each.gain)
        for each in larger:
            if self.over(limit) <= 0:
                break
            if self._gain(limit, each.view) > 0:
                taken.append(each)
                self._take_off(each.view)
        return taken

    def _fill_back(self, limits: Sequence[PassedLimit], taken: Sequence[Departure]) -> list[Departure]:
        """Whoever may stay after all, stays: who left last is tried first. A limit that is passed all the
        same asks for everybody who left for it."""
        bound = {limit: max(0, self.over(limit)) for limit in limits}
        kept: list[Departure] = []
        for each in reversed(taken):
            self._put_back(each)
            if any(self.over(limit) > most for limit, most in bound.items()):
                kept.append(self._as_few_as_do(each, bound))
        return kept[::-1]

    def _as_few_as_do(self, each: Departure, bound: Mapping[PassedLimit, int]) -> Departure:
        """Takes it off: of an elastic gang only members, the highest first, where that is enough."""
        gone: list[Leaving] = []
        for one in self._surplus(each.view) if each.view.ids and not each.members else ():
            gone.append(one)
            self.charge(one.charges, -1)
            if all(self.over(limit) <= most for limit, most in bound.items()):
                self._gone.add(each.view.attempt_id)
                return replace(each, members=tuple(gone))
        for one in gone:
            self.charge(one.charges, 1)
        if each.members:
            self._gone.add(each.view.attempt_id)
            for one in each.members:
                self.charge(one.charges, -1)
        else:
            self._take_off(each.view)
        return each

    # --- one attempt ----------------------------------------------------------------------------------------
    def _candidates(self, limit: PassedLimit) -> Iterator[Departure]:
        tree = self.trees[limit.tree]
        lists: list[Sequence[Entry]] = [self.runs.at(limit.tree, node) for node in _below(tree, limit.node)]
        changed: int | None = None
        for _, view in islice(heapq.merge(*lists), MAX_SEEN):
            at_node = _charged_at(view, limit.tree, limit.subject)
            if view.stopping or not view.preemptible or at_node is None or view.attempt_id in self._gone:
                continue
            said = effect_of(tree, limit.node, limit.subject, at_node)
            if said is None or said.on_lowered in (None, OnLowered.STOP_NEW):
                continue
            may = view.placed_at + self.rules.of(view.queue).preemption.min_runtime
            if said.on_lowered is OnLowered.DRAIN:
                changed = changed_at(tree, limit.node, limit.subject) if changed is None else changed
                may = max(may, changed + said.drain_for)
            yield Departure(view, may, said.on_lowered, 0)

    def _gain(self, limit: PassedLimit, view: RunningView) -> int:
        """By how much the node has less without it; 0 where it may not be asked: its side owns all it has."""
        tree, usage = self.trees[limit.tree], self._usage[limit.tree]
        gain = 0
        for item in view.charges:
            if item.tree != limit.tree or item.subject != limit.subject or item.node not in tree.nodes:
                continue
            for node in tree.path(item.node):
                if node == limit.node:
                    break
                if usage.get((node, limit.subject), 0) <= tree.subtree(node, limit.subject):
                    return 0
            deltas = charge(tree, usage, item.node, limit.subject, -item.quantity)
            gain -= sum(delta for node, _, delta in deltas if node == limit.node)
        return gain

    def over(self, limit: PassedLimit) -> int:
        """What a node has above its limit now; negative where it is within."""
        return self._usage[limit.tree].get((limit.node, limit.subject), 0) - limit.limit

    def _take_off(self, view: RunningView) -> None:
        self._gone.add(view.attempt_id)
        self.charge(view.charges, -1)

    def _put_back(self, each: Departure) -> None:
        self._gone.discard(each.view.attempt_id)
        if not each.members:
            self.charge(each.view.charges, 1)
        for one in each.members:
            self.charge(one.charges, 1)


def effect_of(tree: QuotaTree, node: str, subject: str, at: str) -> Limit | None:
    """The limit that says what becomes of work charged at `at` while `node` is above its own: that one, else
    the nearest to the work that says anything; None: nobody says anything."""
    own = tree.limits.get((node, subject))
    if own is not None and own.on_lowered is not None:
        return own
    for name in tree.path(at):
        if name == node:
            break
        limit = tree.limits.get((name, subject))
        if limit is not None and limit.on_lowered is not None:
            return limit
    return None


def changed_at(tree: QuotaTree, node: str, subject: str) -> int:
    """When the limit of a node on a subject last changed (µs), be it by what those below it own."""
    hard = tree.nodes[tree.path(node)[-1]].kind == UNBOUNDED_ROOT  # nobody owns anything below it
    names = [node] if hard else _below(tree, node)
    found = (tree.limits.get((name, subject)) for name in names)
    return max((limit.since for limit in found if limit is not None), default=0)


def _below(tree: QuotaTree, node: str) -> list[str]:
    """The node and all below it."""
    found = [node]
    for name in found:
        found += tree.children(name)
    return found


def _charged_at(view: RunningView, tree: str, subject: str) -> str | None:
    charged = (item for item in view.charges if item.tree == tree and item.subject == subject)
    return next((item.node for item in charged if item.quantity), None)
