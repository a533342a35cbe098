"""Who holds what is missing: holders that sum to a shortfall exactly.

Named first is who makes room most easily: lowest priority, then most recent. The last one's amount
is cut so that the sum is the shortfall; beyond sixteen the rest is folded into one of kind `others`.
What is not offered is named by why (kind `withheld`, the reason as its name); what nobody known holds after
its place: the tree's node, or kind `unavailable`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.model.ids import render
from steelyard.model.reasons import Holder
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.decisions import Placement
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import allocations_of
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import Charge, HoldView

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
        self._source = (snapshot, list(holds), list(placements), now)
        self._known_lives: list[Live] | None = None
        self._charged: dict[_Place, list[Part]] | None = None
        self._on_node: dict[tuple[int, str], list[Part]] | None = None
        self._quota: dict[tuple[int, _Place], list[Part]] = {}
        self._capacity: dict[tuple[str, tuple[int, ...]], list[Part]] = {}

    @property
    def _lives(self) -> list[Live]:
        """Made when first asked for: most shapes are not short of anything."""
        if self._known_lives is None:
            self._known_lives = list(_lives(*self._source))
        return self._known_lives

    def of_quota(self, world: int, tree: str, node: str, subject: str, short_by: int) -> tuple[Holder, ...]:
        """Who uses a node's quota in one of the ledger's worlds, up to the shortfall."""
        kind = self.trees[tree].nodes[node].kind
        return fold(self._parts(world, (tree, node, subject)), short_by, Holder(kind, node, 0))

    def _parts(self, world: int, place: _Place) -> list[Part]:
        """Own charges, and of each child's as much as flows up from it."""
        known = self._quota.get((world, place))
        if known is not None:
            return known
        tree, node, subject = place
        quotas, usage = self.trees[tree], self.worlds[world][tree]
        parts = [part for part in self._own().get(place, ()) if self._is_in(world, part[0])]
        for child in quotas.children(node):
            flow = max(0, usage.get((child, subject), 0) - quotas.local(child, subject))
            if flow:
                parts += cut(self._parts(world, (tree, child, subject)), flow)
        parts.sort(key=lambda part: part[0].order)
        self._quota[world, place] = parts
        return parts

    def _is_in(self, world: int, live: Live) -> bool:
        """The first world has what runs, the second the holds instead of those who end for them."""
        return live.is_running if world == 0 else live.attempt_id not in self._ending

    def _own(self) -> dict[_Place, list[Part]]:
        if self._charged is None:
            self._charged = {}
            for live in self._lives:
                for item in live.charges:
                    key = (item.tree, item.node, item.subject)
                    self._charged.setdefault(key, []).append((live, item.quantity))
        return self._charged

    def of_capacity(
        self, names: Iterable[str], nodes: Sequence[int], short_by: int, place: str
    ) -> tuple[Holder, ...]:
        """Who holds devices of these flavors on these nodes, up to the shortfall."""
        flavors = sorted(names)
        each = [self._holding(name, tuple(nodes)) for name in flavors]
        parts = each[0] if len(each) == 1 else merge(heapq.merge(*each, key=lambda part: part[0].order))
        withheld = self._withheld(flavors, nodes, place)
        return fold(parts, short_by, Holder("unavailable", place, 0), withheld)

    def _withheld(self, flavors: Sequence[str], nodes: Sequence[int], place: str) -> list[Holder]:
        """What is not offered of these flavors on these nodes, by reason."""
        total: dict[str, int] = {}
        views = self._source[0].nodes
        for node in nodes:
            for flavor in flavors:
                for reason, amount in views[node].withheld.get(flavor, ()):
                    total[reason] = total.get(reason, 0) + amount
        return [Holder("withheld", place, total[reason], reason) for reason in sorted(total)]

    def of_places(
        self, places: Iterable[tuple[int, str, int | None]], short_by: int, owner: str
    ) -> tuple[Holder, ...]:
        """Which running attempts have these devices, (node, flavor, device), up to the shortfall."""
        wanted = set(places)
        parts = [
            (live, allocation.quantity)
            for live in self._lives
            if live.is_running
            for member, allocation in allocations_of(live.members)
            if (member.node_id, allocation.flavor, allocation.device_id) in wanted
        ]
        parts.sort(key=lambda part: part[0].order)
        return fold(merge(parts), short_by, Holder("unavailable", owner, 0))

    def _holding(self, flavor: str, nodes: tuple[int, ...]) -> list[Part]:
        known = self._capacity.get((flavor, nodes))
        if known is None:
            index = self._by_node()
            parts = [part for node in nodes for part in index.get((node, flavor), ())]
            parts.sort(key=lambda part: part[0].order)
            known = self._capacity[flavor, nodes] = merge(parts)
        return known

    def _by_node(self) -> dict[tuple[int, str], list[Part]]:
        if self._on_node is None:
            self._on_node = {}
            for live in self._lives:
                for member, allocation in allocations_of(live.members):
                    if allocation.device_id in self._source[0].nodes[member.node_id].unavailable:
                        continue  # its end would free nothing: it is among what is withheld
                    key = (member.node_id, allocation.flavor)
                    self._on_node.setdefault(key, []).append((live, allocation.quantity))
        return self._on_node


def _lives(
    snapshot: Snapshot, holds: Iterable[HoldView], placements: Iterable[Placement], now: int
) -> Iterable[Live]:
    for run in snapshot.running.values():
        order = (run.priority, -run.placed_at, -run.attempt_id)
        yield Live(
            run.attempt_id, run.workload_id, run.queue, run.project, run.placed_at, run.members, run.charges,
            order, run.name,
        )
    for hold in holds:
        yield _of_shape(hold, hold.shape, hold.since, is_running=False)
    shapes = {group.shape.key: group.shape for group in snapshot.pending}
    shapes.update((hold.shape.key, hold.shape) for hold in snapshot.holds.values())
    for placed in placements:
        yield _of_shape(placed, shapes[placed.shape_key], now, is_running=True)


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


def merge(parts: Iterable[Part]) -> list[Part]:
    """One part an attempt, in order."""
    total: dict[int, int] = {}
    lives: dict[int, Live] = {}
    for live, quantity in parts:
        lives.setdefault(live.attempt_id, live)
        total[live.attempt_id] = total.get(live.attempt_id, 0) + quantity
    return [(lives[attempt], quantity) for attempt, quantity in total.items()]


def fold(
    parts: Iterable[Part], amount: int, unknown: Holder, withheld: Iterable[Holder] = ()
) -> tuple[Holder, ...]:
    """At most sixteen holders that sum to `amount`; what the parts don't explain goes to what is withheld,
    and the rest to `unknown`."""
    taken = cut(parts, amount)
    holders = [named(live, quantity) for live, quantity in taken]
    rest = amount - sum(quantity for _, quantity in taken)
    for holder in withheld:
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
