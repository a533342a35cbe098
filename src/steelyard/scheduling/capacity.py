"""Why no place is found for a gang: too little is free, or it is scattered over nodes.

The hardest member's cause is what is told: roles are placed in order, and the first that finds no
room is explained. Quantities follow short_by = used + requested − limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.barriers import WAKE_CAPACITY, WAKE_RELEASED
from steelyard.scheduling.board import Need, NodeState
from steelyard.scheduling.context import Context
from steelyard.scheduling.ever import bounds_of, class_flavors, class_total, never_reasons
from steelyard.scheduling.holders import Holders
from steelyard.scheduling.placement import RoleNeed, ShapePlan, allocations_of
from steelyard.scheduling.stock import Sums, stock_of

_FREES = (WAKE_RELEASED, WAKE_CAPACITY)
_Labels = tuple[tuple[str, str], ...]
_Amounts = dict[DeviceClass, int]


@dataclass(frozen=True, slots=True)
class Lack:
    """What one node lacks to hold one more member, in the order of the need's amounts."""

    amounts: tuple[int, ...]
    node: int


class Capacity:
    """Explains missing places on a cycle's board; sums are made once."""

    def __init__(self, context: Context, holders: Holders) -> None:
        self.bounds = bounds_of(context.snapshot.nodes, context.snapshot.flavors)
        self.snapshot = context.snapshot
        self.board = context.board
        self.placer = context.placer
        self.holders = holders
        self._stock = stock_of(context.board)
        self._sums: dict[tuple[str, _Labels, DeviceClass], Sums] = {}

    def reasons(self, plan: ShapePlan, flavor: str) -> list[Reason]:
        """Why the gang finds no place with its lead role on this flavor."""
        never = never_reasons(self.bounds, plan, flavor)
        if never:
            return never
        cluster = self.board.flavors[flavor].cluster
        sums = {
            (role.index, name): self._short_sums(role, name)
            for role in plan.roles
            for name in ([flavor] if role is plan.lead else self.placer.within(role, cluster))
        }
        taken: list[MemberPlan] = []
        reasons: list[Reason] = []
        for role in plan.roles:
            names = [name for index, name in sums if index == role.index]
            placed = self._place_role(role, names, cluster)
            if placed is None:
                for name in names:
                    reasons += sums[role.index, name] or self._scattered(role, name, cluster)
                break
            taken += placed
        self.board.change_members(taken, 1)
        topology = plan.shape.topology
        if not reasons and topology is not None and topology.required is not None:
            return [self._no_domain(plan.lead, flavor, topology.required)]
        return reasons

    def _no_domain(self, lead: RoleNeed, flavor: str, level: str) -> Reason:
        """What the roomiest domain of a level lacks for the lead role."""
        by_domain: dict[str, list[int]] = {}
        for node in self._eligible(lead.need, flavor):
            value = self.snapshot.nodes[node].labels.get(level)
            if value is not None:
                by_domain.setdefault(value, []).append(node)
        rooms = {
            name: sum(self.board.free_on(node, flavor) for node in nodes)
            for name, nodes in by_domain.items()
        }
        best = min(rooms, key=lambda name: (-rooms[name], name), default=None)
        nodes = by_domain.get(best or "", [])
        free, requested = rooms.get(best or "", 0), lead.need.amount * lead.count
        views = [self.snapshot.nodes[node] for node in nodes]
        limit = sum(max(self.board.free_on(v.id, flavor), v.totals.get(flavor, 0)) for v in views)
        params: dict[str, str | int | None] = {"role": lead.name, "level": level, "domain": best}
        short_by = requested - free
        if short_by <= 0:  # scattered over its nodes
            return Reason(
                ReasonCode.NO_DOMAIN, "placement", "flavor", flavor, lead.need.primary.value, flavor,
                limit, limit - free, requested, wakes_on=_FREES, approximate=True, params=params,
            )
        owners = self.holders.of_capacity((flavor,), nodes, short_by, flavor)
        return Reason(
            ReasonCode.NO_DOMAIN, "placement", "flavor", flavor, lead.need.primary.value, flavor,
            limit, limit - free, requested, short_by, owners, _FREES, params=params,
        )

    def _place_role(self, role: RoleNeed, names: Iterable[str], cluster: str) -> list[MemberPlan] | None:
        for name in names:
            placed = self.placer.role(role, name, cluster)
            if placed is not None:
                return placed
        return None

    def _eligible(self, need: Need, flavor: str) -> tuple[int, ...]:
        return self._stock.nodes(self.board, need, flavor)

    def _sum(self, need: Need, flavor: str, device_class: DeviceClass) -> Sums:
        """Made while nothing of the explained gang is taken."""
        key = (flavor, need.labels, device_class)
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = self._stock.sums(self.board, need, flavor, device_class)
        return known

    def _short_sums(self, role: RoleNeed, flavor: str) -> list[Reason]:
        reasons = []
        for device_class, amount in role.need.amounts:
            sums = self._sum(role.need, flavor, device_class)
            requested = amount * role.count
            short_by = requested - sums.free
            if short_by <= 0:
                continue
            nodes = self._eligible(role.need, flavor)
            owners = self.holders.of_capacity(sums.flavors, nodes, short_by, flavor)
            reasons.append(
                Reason(
                    ReasonCode.WAITING_FOR_CAPACITY, "placement", "flavor", flavor, device_class.value,
                    flavor, sums.limit, sums.limit - sums.free, requested, short_by, owners, _FREES,
                    params={"role": role.name},
                )
            )
        return reasons

    def _scattered(self, role: RoleNeed, flavor: str, cluster: str) -> list[Reason]:
        """Enough is free in sum, but not together on nodes: what the best nodes lack for the rest."""
        nodes = self._eligible(role.need, flavor)
        placed = self._place_some(role, flavor, cluster, nodes)
        rest = role.count - len(placed)
        lacks = [self._lack(role.need, flavor, node, placed) for node in nodes]
        found = [lack for lack in lacks if lack is not None]
        found.sort(key=lambda lack: (lack.amounts, lack.node))
        self.board.change_members(placed, 1)
        chosen = found[:rest]
        reasons = [
            self._scattered_reason(role, flavor, index, chosen, rest)
            for index in range(len(role.need.amounts))
            if any(lack.amounts[index] for lack in chosen)
        ]
        return reasons or [self._unachievable(role, flavor, rest)]

    def _place_some(
        self, role: RoleNeed, flavor: str, cluster: str, nodes: Sequence[int]
    ) -> list[MemberPlan]:
        placed: list[MemberPlan] = []
        for node in nodes:
            while len(placed) < role.count:
                taken = self.board.take_member(node, role.need, flavor)
                if taken is None:
                    break
                placed.append(MemberPlan(role.name, len(placed), cluster, node, taken))
        return placed

    def _lack(self, need: Need, flavor: str, node: int, placed: Sequence[MemberPlan]) -> Lack | None:
        """None when the node lacks nothing, or could not hold one more even if nobody else were on it."""
        state = self.board.state(node)
        own = own_amounts(member for member in placed if member.node_id == node)
        lacks = []
        for device_class, amount in need.amounts:
            only = flavor if device_class is need.primary else None
            total = class_total(state.view, self.board.flavors, device_class, only)
            if total is not None and total - own.get(device_class, 0) < amount:
                return None
            memory = need.memory if device_class is need.primary else 0
            lacks.append(self._missing(state, device_class, amount, only, memory))
        return Lack(tuple(lacks), node) if any(lacks) else None

    def _missing(
        self, state: NodeState, device_class: DeviceClass, amount: int, only: str | None, memory: int
    ) -> int:
        if device_class in ACCELERATORS:
            names = class_flavors(state.view, self.board.flavors, device_class, only)
            found = [state.devices[name].missing(amount, memory) for name in names if name in state.devices]
            return min(found, default=amount)
        spaces = state.spaces.get(device_class, [])
        frees = [max(0, space.free) for space in spaces if only in (None, space.flavor)]
        return max(0, amount - max(frees, default=0))

    def _scattered_reason(
        self, role: RoleNeed, flavor: str, index: int, chosen: Sequence[Lack], rest: int
    ) -> Reason:
        device_class, amount = role.need.amounts[index]
        lacking = [lack for lack in chosen if lack.amounts[index]]
        nodes = sorted(lack.node for lack in lacking)
        short_by = sum(lack.amounts[index] for lack in lacking)
        only = flavor if device_class is role.need.primary else None
        names: set[str] = set()
        limit = 0
        for node in nodes:
            view = self.snapshot.nodes[node]
            limit += class_total(view, self.board.flavors, device_class, only) or amount
            names |= set(class_flavors(view, self.board.flavors, device_class, only))
        requested = amount * len(lacking)
        owners = self.holders.of_capacity(names, nodes, short_by, flavor)
        params: dict[str, str | int | None] = {
            "role": role.name,
            "members_short": rest,
            "nodes": ",".join(self.snapshot.nodes[node].name for node in nodes[:4]),
            "free": self._sum(role.need, flavor, device_class).free,
        }
        return Reason(
            ReasonCode.FRAGMENTED, "placement", "flavor", flavor, device_class.value, flavor,
            limit, limit - (requested - short_by), requested, short_by, owners, _FREES,
            approximate=rest > 1, params=params,
        )

    def _unachievable(self, role: RoleNeed, flavor: str, rest: int) -> Reason:
        """The gang's own members stand in each other's way on the nodes that may be used now."""
        need = role.need
        sums = self._sum(need, flavor, need.primary)
        requested = need.amount * rest
        nodes = self._eligible(need, flavor)
        owners = self.holders.of_capacity(sums.flavors, nodes, requested, flavor)
        return Reason(
            ReasonCode.FRAGMENTED, "placement", "flavor", flavor, need.primary.value, flavor,
            requested=requested, short_by=requested, holders=owners, wakes_on=_FREES, approximate=True,
            params={"role": role.name, "members_short": rest, "free": sums.free},
        )


def own_amounts(members: Iterable[MemberPlan]) -> _Amounts:
    """Quantity by class of some members."""
    own: _Amounts = {}
    for _, allocation in allocations_of(members):
        own[allocation.device_class] = own.get(allocation.device_class, 0) + allocation.quantity
    return own
