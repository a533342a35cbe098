"""Who holds what is missing: holders that sum to a shortfall exactly.

Named first is who makes room most easily: lowest priority, then most recent. The last one's amount
is cut so that the sum is the shortfall; beyond sixteen the rest is folded into one of kind `others`.
What is not offered is named by why (kind `withheld`, the reason as its name); what nobody known holds after
its place: the tree's node, or kind `unavailable`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from steelyard.model.ids import render
from steelyard.model.reasons import Holder
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.decisions import Placement
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import allocations_of
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.runs import FLAVOR, NODE, as_runs, places_of, victim_order
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import Charge, HoldView, RunningView

MAX_HOLDERS = 16


@dataclass(frozen=True, slots=True)
class Live:
    """An attempt that holds something: it runs, was placed just now, or has places kept for it."""

    attempt_id: int
    workload_id: int
    queue: str
    project: str
    since: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    order: tuple[int, int, int]  # lowest priority first, then most recent
    name: str | None = None
    is_running: bool = True


Part = tuple[Live, int]
_Place = tuple[str, str, str]  # tree, node, subject


class Holders:
    """Looks up who holds a quota or a capacity; everything is looked up once."""

    def __init__(
        self,
        snapshot: Snapshot,
        ledger: Ledger,
        holds: Iterable[HoldView],
        placements: Iterable[Placement] = (),
        now: int = 0,
    ) -> None:
        self.trees: Mapping[str, QuotaTree] = snapshot.trees
        self.worlds = ledger.worlds
        self._ending = ledger.ending
        self._nodes = snapshot.nodes
        self._runs = as_runs(snapshot.running)
        self._beside = _beside(snapshot, holds, placements, now)
        self._known: dict[int, Live] = {}
        self._quota: dict[tuple[int, _Place], _Stream] = {}
        self._capacity: dict[tuple[str, tuple[int, ...]], _Stream] = {}
        self._kept_back: dict[tuple[tuple[str, ...], tuple[int, ...]], list[tuple[str, int]]] = {}

    def of_quota(self, world: int, tree: str, node: str, subject: str, short_by: int) -> tuple[Holder, ...]:
        """Who uses a node's quota in one of the ledger's worlds, up to the shortfall."""
        kind = self.trees[tree].nodes[node].kind
        return fold(self._parts(world, (tree, node, subject)), short_by, Holder(kind, node, 0))

    def of_capacity(
        self, names: Iterable[str], nodes: Sequence[int], short_by: int, place: str
    ) -> tuple[Holder, ...]:
        """Who holds devices of these flavors on these nodes, up to the shortfall."""
        flavors, where = tuple(sorted(names)), tuple(nodes)
        each = [self._holding(name, where) for name in flavors]
        parts = each[0] if len(each) == 1 else merge(heapq.merge(*each, key=_by_order))
        return fold(parts, short_by, Holder("unavailable", place, 0), self._withheld(flavors, where, place))

    def of_places(
        self, places: Iterable[tuple[int, str, int | None]], short_by: int, owner: str
    ) -> tuple[Holder, ...]:
        """Which running attempts have these devices, (node, flavor, device), up to the shortfall."""
        wanted = set(places)
        lives = {
            live.attempt_id: live
            for node in {node for node, _, _ in wanted}
            for live in self._lives(NODE, str(node))
            if live.is_running
        }
        parts = [
            (live, allocation.quantity)
            for live in sorted(lives.values(), key=lambda live: live.order)
            for member, allocation in allocations_of(live.members)
            if (member.node_id, allocation.flavor, allocation.device_id) in wanted
        ]
        return fold(merge(parts), short_by, Holder("unavailable", owner, 0))

    # --- looked up as far as it is needed ------------------------------------------------------------
    def _lives(self, place: str, name: str) -> Iterator[Live]:
        """In order, who is charged to a node of a tree itself, or has devices of a flavor or on a node."""
        running = (self._live(run) for _, run in self._runs.at(place, name))
        beside = self._beside.get((place, name))
        return heapq.merge(running, beside, key=lambda live: live.order) if beside else running

    def _live(self, run: RunningView) -> Live:
        known = self._known.get(run.attempt_id)
        if known is None:
            known = self._known[run.attempt_id] = Live(
                run.attempt_id, run.workload_id, run.queue, run.project, run.placed_at, run.members,
                run.charges, victim_order(run), run.name,
            )  # fmt: skip
        return known

    def _parts(self, world: int, place: _Place) -> _Stream:
        """Own charges, and of each child's as much as flows up from it."""
        known = self._quota.get((world, place))
        if known is None:
            tree, node, subject = place
            quotas, usage = self.trees[tree], self.worlds[world][tree]
            streams: list[Iterable[Part]] = [self._own(world, place)]
            for child in quotas.children(node):
                flow = max(0, usage.get((child, subject), 0) - quotas.local(child, subject))
                if flow:
                    streams.append(up_to(self._parts(world, (tree, child, subject)), flow))
            known = self._quota[world, place] = _Stream(heapq.merge(*streams, key=_by_order))
        return known

    def _own(self, world: int, place: _Place) -> Iterator[Part]:
        """The first world has what runs, the second the holds instead of those who end for them."""
        tree, node, subject = place
        for live in self._lives(tree, node):
            if live.is_running if world == 0 else live.attempt_id not in self._ending:
                for item in live.charges:
                    if item.subject == subject and item.node == node and item.tree == tree:
                        yield live, item.quantity

    def _holding(self, flavor: str, nodes: tuple[int, ...]) -> _Stream:
        known = self._capacity.get((flavor, nodes))
        if known is None:
            known = self._capacity[flavor, nodes] = _Stream(self._on(flavor, frozenset(nodes)))
        return known

    def _on(self, flavor: str, nodes: frozenset[int]) -> Iterator[Part]:
        for live in self._lives(FLAVOR, flavor):
            amount = sum(
                allocation.quantity
                for member, allocation in allocations_of(live.members)
                if allocation.flavor == flavor
                and member.node_id in nodes
                # else its end would free nothing: it is among what is withheld
                and allocation.device_id not in self._nodes[member.node_id].unavailable
            )
            if amount:
                yield live, amount

    def _withheld(self, flavors: tuple[str, ...], nodes: tuple[int, ...], place: str) -> Iterator[Holder]:
        """What is not offered of these flavors on these nodes, by reason."""
        known = self._kept_back.get((flavors, nodes))
        if known is None:
            total: dict[str, int] = {}
            for node in nodes:
                withheld = self._nodes[node].withheld
                for flavor in flavors if withheld else ():
                    for reason, amount in withheld.get(flavor, ()):
                        total[reason] = total.get(reason, 0) + amount
            known = self._kept_back[flavors, nodes] = sorted(total.items())
        for reason, amount in known:
            yield Holder("withheld", place, amount, reason)


class _Stream:
    """Parts in order, taken from where they come only as far as somebody asks, and kept."""

    __slots__ = ("_kept", "_source")

    def __init__(self, source: Iterator[Part]) -> None:
        self._source = source
        self._kept: list[Part] = []

    def __iter__(self) -> Iterator[Part]:
        at = 0
        while True:
            while at < len(self._kept):
                yield self._kept[at]
                at += 1
            following = next(self._source, None)
            if following is None:
                return
            self._kept.append(following)


def _by_order(part: Part) -> tuple[int, int, int]:
    return part[0].order


def _beside(
    snapshot: Snapshot, holds: Iterable[HoldView], placements: Iterable[Placement], now: int
) -> dict[tuple[str, str], list[Live]]:
    """Who holds something beside what the snapshot has running, by where, in order."""
    lives = [_of_shape(hold, hold.shape, hold.since, is_running=False) for hold in holds]
    placed = list(placements)
    if placed:
        shapes = {group.shape.key: group.shape for group in snapshot.pending}
        shapes.update((hold.shape.key, hold.shape) for hold in snapshot.holds.values())
        lives += [_of_shape(each, shapes[each.shape_key], now, is_running=True) for each in placed]
    found: dict[tuple[str, str], list[Live]] = {}
    for live in sorted(lives, key=lambda live: live.order):
        for where in places_of(live.charges, live.members):
            found.setdefault(where, []).append(live)
    return found


def _of_shape(item: HoldView | Placement, shape: Shape, since: int, is_running: bool) -> Live:
    order = (shape.priority, -since, -item.attempt_id)
    return Live(
        item.attempt_id, item.workload_id, shape.queue, shape.project, since, item.members, item.charges,
        order, is_running=is_running,
    )


def cut(parts: Iterable[Part], amount: int) -> list[Part]:
    """The first parts up to an amount, the last one cut."""
    taken = []
    for live, quantity in parts:
        if amount <= 0:
            break
        taken.append((live, min(quantity, amount)))
        amount -= quantity
    return taken


def up_to(parts: Iterable[Part], amount: int) -> Iterator[Part]:
    """As `cut`, one after the other."""
    for live, quantity in parts:
        if amount <= 0:
            return
        yield live, min(quantity, amount)
        amount -= quantity


def merge(parts: Iterable[Part]) -> Iterator[Part]:
    """One part an attempt, where those of one stand together."""
    for _, same in groupby(parts, key=lambda part: part[0].attempt_id):
        together = list(same)
        yield together[0][0], sum(quantity for _, quantity in together)


def fold(
    parts: Iterable[Part], amount: int, unknown: Holder, withheld: Iterable[Holder] = ()
) -> tuple[Holder, ...]:
    """At most sixteen holders that sum to `amount`; what the parts don't explain goes to what is withheld,
    and the rest to `unknown`."""
    taken = cut(parts, amount)
    holders = [named(live, quantity) for live, quantity in taken]
    rest = amount - sum(quantity for _, quantity in taken)
    for holder in withheld if rest > 0 else ():
        if rest > 0:
            holders.append(replace(holder, amount=min(holder.amount, rest)))
            rest -= holders[-1].amount
    if rest > 0:
        holders.append(Holder(unknown.kind, unknown.id, rest))
    if len(holders) > MAX_HOLDERS:
        tail = holders[MAX_HOLDERS - 1 :]
        others = Holder("others", str(len(tail)), sum(holder.amount for holder in tail))
        holders = [*holders[: MAX_HOLDERS - 1], others]
    return tuple(holders)


def named(live: Live, amount: int) -> Holder:
    """A workload as a holder."""
    shown_id = render("workload", live.workload_id)
    return Holder("workload", shown_id, amount, live.name, live.project, live.queue, live.since)
