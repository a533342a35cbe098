"""Where a gang goes: all of its members or none, first fit over flavors in order and nodes by id.

An attempt stays in one cluster, a role on one accelerator flavor; all that a member needs comes from
one node. The lead role (the first that asks for an accelerator, else the first) goes through its
flavors in the request's order, else by name; the other roles follow within the lead's cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Self

from msgspec import Struct

from steelyard.model.policy import Policy
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan
from steelyard.scheduling.board import Board, Need
from steelyard.scheduling.ledger import Ask, Ledger
from steelyard.scheduling.node_choice import NodeChoice
from steelyard.scheduling.shape_plan import (
    RoleNeed,
    ShapePlan,
    counted,
    flavor_asks,
    matching_flavors,
    prepare,
)
from steelyard.scheduling.subjects import Held, held_by
from steelyard.scheduling.topology import Outside
from steelyard.scheduling.views import Charge, ClusterView

__all__ = [
    "Placer", "Plan", "RoleNeed", "ShapePlan", "allocations_of", "answering_clusters", "counted",
    "flavor_amounts", "flavor_asks", "matching_flavors", "may_fit", "prepare",
]  # fmt: skip


class Plan(Struct, frozen=True):
    """A feasible placement, already taken from the board. Its charges are not in the ledger yet."""

    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]


def answering_clusters(clusters: Mapping[str, ClusterView], bound: int, now: int) -> frozenset[str]:
    """Clusters that answer and whose observation is not older than the bound."""
    return frozenset(
        name
        for name, cluster in clusters.items()
        if cluster.reachable and cluster.observed_at is not None and now - cluster.observed_at <= bound
    )


class Placer:
    """First fit with a memory: a node that could not hold a need is not asked again in a cycle.

    That is sound because within a cycle nothing becomes free. A simulation, in which victims give
    back, passes `fresh` and neither uses nor leaves such memory.
    """

    def __init__(
        self, board: Board, ledger: Ledger, policy: Policy, choice: NodeChoice | None = None
    ) -> None:
        self.board = board
        self.ledger = ledger
        self.policy = policy
        self.choice = choice  # None: the first node that fits
        self.max_nodes = policy.max_nodes
        self.cut_short = False  # the last search met the bound on nodes
        self._cursors: dict[tuple[Need, str], int] = {}

    def beside(self, board: Board, ledger: Ledger) -> Self:
        """The same on other working copies."""
        choice = None if self.choice is None else self.choice.beside(board)
        return type(self)(board, ledger, self.policy, choice)

    def place(self, plan: ShapePlan, fresh: bool = False, avoid: Collection[int] = ()) -> Plan | None:
        """Takes places for one attempt, or changes nothing. With `avoid`, on none of these nodes."""
        if not plan.roles or not self.ledger.passes(plan.checks):
            self.cut_short = False
            return None
        return self.place_let(plan, fresh, avoid)

    def place_let(self, plan: ShapePlan, fresh: bool = False, avoid: Collection[int] = ()) -> Plan | None:
        """As `place`, of a plan with roles that the limits on classes let start: they were asked already."""
        self.cut_short = False
        for flavor in self._in_order(plan.lead):
            if self.ledger.passes(plan.led_on(flavor).checks):
                found = self.place_with(plan, flavor, fresh or bool(avoid), avoid=avoid)
                if found is not None:
                    return found
        return None

    def _in_order(self, lead: RoleNeed) -> Iterable[str]:
        """The lead's flavors as the request has them; where it names none, by the best place of each."""
        if self.choice is None or len(lead.flavors) < 2 or lead.need.request.flavors:
            return lead.flavors
        return self.choice.flavors(lead.need, lead.flavors)

    def place_with(
        self,
        plan: ShapePlan,
        flavor: str,
        fresh: bool = False,
        check_quota: bool = True,
        avoid: Collection[int] = (),
    ) -> Plan | None:
        """Takes places with the lead role on one flavor."""
        moved: dict[tuple[Need, str], int] | None = None if fresh else {}
        members = self._gang(plan, flavor, moved, avoid)
        if members is None:
            return None
        terms = plan.on(flavor_amounts(members))
        granted = None if terms.is_as_asked else held_by(item for _, item in allocations_of(members))
        if check_quota and not (self.ledger.passes(terms.checks) and self._measures_fit(plan, granted)):
            self.board.change_members(members, 1)
            return None
        self._cursors.update(moved or {})
        if granted is None:
            return Plan(members, terms.charges)
        return Plan(members, plan.counting.charges(plan.nodes, granted))

    def _measures_fit(self, plan: ShapePlan, granted: Held | None) -> bool:
        """False when what was granted beyond what was asked for is above a limit on a measure."""
        if granted is None or plan.counting.is_plain:
            return True
        beside = plan.counting.measured_at(plan.nodes, granted.flavors, granted.parts)
        return self.ledger.fits(Ask(*one) for one in beside)

    def _gang(
        self,
        plan: ShapePlan,
        lead_flavor: str,
        moved: dict[tuple[Need, str], int] | None,
        avoid: Collection[int],
    ) -> tuple[MemberPlan, ...] | None:
        """`moved` takes the cursors to keep if the gang is placed; None in a simulation."""
        cluster = self.board.flavors[lead_flavor].cluster
        taken: dict[int, list[MemberPlan]] = {}
        for role in plan.roles:
            flavors = (lead_flavor,) if role is plan.lead else self.within(role, cluster)
            for flavor in flavors:
                placed = self.role(role, flavor, cluster, moved, not taken, avoid)
                if placed is not None:
                    taken[role.index] = placed
                    break
            else:
                for members in taken.values():
                    self.board.change_members(members, 1)
                return None
        return tuple(member for index in sorted(taken) for member in taken[index])

    def nodes_of(self, flavor: str, avoid: Collection[int]) -> Sequence[int]:
        """The nodes that are looked at for a flavor, in order; those to be avoided may be among them."""
        return avoid.nodes(flavor) if isinstance(avoid, Outside) else self.board.order(flavor)

    def within(self, role: RoleNeed, cluster: str) -> list[str]:
        """The role's flavors in one cluster, in order."""
        return [name for name in role.flavors if self.board.flavors[name].cluster == cluster]

    def role(
        self,
        role: RoleNeed,
        flavor: str,
        cluster: str,
        moved: dict[tuple[Need, str], int] | None = None,
        first: bool = False,
        avoid: Collection[int] = (),
    ) -> list[MemberPlan] | None:
        """Takes places for all members of one role, or for none. `first`: nothing of the gang is taken."""
        need, board = role.need, self.board
        if board.free(flavor) < need.amount * role.count:
            return None
        if self.choice is not None:
            return self._by_score(role, flavor, cluster, avoid)
        order = self.nodes_of(flavor, avoid)
        key = (need, flavor)
        start = 0 if moved is None else moved.get(key, self._cursors.get(key, 0))
        members: list[MemberPlan] = []
        at, looks = start, 0
        is_whole = order is board.order(flavor)  # else a part of it
        whole, part = divmod(need.amount, WHOLE_DEVICE) if need.is_accelerated else (0, need.amount)
        while len(members) < role.count and at < len(order):
            if is_whole and not board.may_hold(order[at], flavor, whole, part):
                at = board.room(flavor).first(at, whole, part)  # the next that may, whatever else it lacks
                if at == len(order):
                    break
            looks += 1
            if looks > self.max_nodes + role.count:
                self.cut_short = True
                break
            allocations = None
            if order[at] not in avoid:
                allocations = board.take_member(order[at], need, flavor)
            if allocations is None:
                at += 1
                continue
            members.append(MemberPlan(role.name, len(members), cluster, order[at], allocations))
        if len(members) == role.count:
            if moved is not None:
                moved[key] = at
            return members
        board.change_members(members, 1)
        if first and not members and moved is not None:
            self._cursors[key] = at  # nothing was taken before it: these nodes can't hold one at all
        return None

    def _by_score(
        self, role: RoleNeed, flavor: str, cluster: str, avoid: Collection[int]
    ) -> list[MemberPlan] | None:
        """All members of a role, one after the other on the node that is best for it."""
        assert self.choice is not None
        members: list[MemberPlan] = []
        flavors = role.flavors if flavor in role.flavors else (flavor,)
        while len(members) < role.count:
            places = self.choice.places(role.need, flavors, flavor, avoid)
            for node, left in islice(places, self.max_nodes):
                allocations = self.board.take_member(node, role.need, flavor, left)
                if allocations is not None:
                    members.append(MemberPlan(role.name, len(members), cluster, node, allocations))
                    break
            else:
                self.board.change_members(members, 1)
                return None
        return members


def may_fit(ledger: Ledger, plan: ShapePlan) -> bool:
    """A cheap necessary test: whether the limits let an attempt start, wherever it goes."""
    if not plan.roles or not ledger.passes(plan.checks):
        return False
    return any(ledger.passes(plan.led_on(name).checks) for name in plan.lead.flavors)


def flavor_amounts(members: Iterable[MemberPlan]) -> dict[str, int]:
    """Quantity by flavor."""
    used: dict[str, int] = {}
    for member in members:
        for allocation in member.allocations:
            used[allocation.flavor] = used.get(allocation.flavor, 0) + allocation.quantity
    return used


def allocations_of(members: Iterable[MemberPlan]) -> Iterable[tuple[MemberPlan, AllocationPlan]]:
    """Every allocation with its member."""
    for member in members:
        for allocation in member.allocations:
            yield member, allocation
