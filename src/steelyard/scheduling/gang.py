"""Where a gang goes that first fit alone does not find a place for: members unlike each other, elastic roles,
members that must be near each other. All of its members or none, as always.

Unlike members stand in each other's way: what one role takes, another may need. Where each role on its own
takes the first places and one finds none, the choices are gone through again, with a bound on how many.
An elastic gang starts with as many members as fit, at least the fewest that it runs with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from itertools import islice

from steelyard.model.workloads import AllocationPlan, MemberPlan
from steelyard.scheduling.board import Board, Need, NodeState, matches
from steelyard.scheduling.placement import Placer, Plan, RoleNeed, ShapePlan, counted
from steelyard.scheduling.topology import MAX_DOMAINS, Levels, Outside

#: Members of a gang whose choices are gone through again, and places tried in one search.
MAX_SEARCHED = 64
MAX_STEPS = 512


class GangPlacer(Placer):
    """First fit, and what it takes for gangs. Other than in `Placer`, a plan's counts may be exceeded."""

    @cached_property
    def levels(self) -> Levels:
        """Which nodes are near each other."""
        return Levels(self.board)

    def place_let(self, plan: ShapePlan, fresh: bool = False, avoid: Collection[int] = ()) -> Plan | None:
        """As in `Placer`; an elastic gang with as many members as fit."""
        found = super().place_let(plan, fresh, avoid)
        if found is None or all(role.most <= role.count for role in plan.roles):
            return found
        return self._grown(plan, found, avoid)

    def _grown(self, plan: ShapePlan, found: Plan, avoid: Collection[int]) -> Plan:
        """The same gang on the same flavor with as many members as fit, the first roles first."""
        flavor = lead_flavor(plan, found)
        self.board.change_members(found.members, 1)
        best = plan
        for role in sorted(plan.roles, key=lambda role: role.index):
            low, high = role.count, role.most
            while low < high:
                middle = (low + high + 1) // 2
                larger = self._with_count(best, role.index, middle)
                if self._fits(larger, flavor, avoid):
                    low, best = middle, larger
                else:
                    high = middle - 1
        grown = self.place_with(best, flavor, True, avoid=avoid)
        if grown is None:  # it did a moment ago
            raise AssertionError("a place was lost")
        return grown

    def _with_count(self, plan: ShapePlan, index: int, count: int) -> ShapePlan:
        roles = tuple(replace(role, count=count) if role.index == index else role for role in plan.roles)
        return counted(plan.shape, roles, plan.nodes, plan.counting)

    def _fits(self, plan: ShapePlan, flavor: str, avoid: Collection[int]) -> bool:
        if not self.ledger.fits(plan.class_asks):
            return False
        found = self.place_with(plan, flavor, True, avoid=avoid)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found is not None

    def _gang(
        self,
        plan: ShapePlan,
        lead_flavor: str,
        moved: dict[tuple[Need, str], int] | None,
        avoid: Collection[int],
    ) -> tuple[MemberPlan, ...] | None:
        topology = plan.shape.topology
        if topology is None:
            return self._any(plan, lead_flavor, moved, avoid)
        wanted = plan.lead.need.amount * plan.lead.count
        tried = self.levels.tried(topology, lead_flavor, wanted)
        for domain in islice(tried, MAX_DOMAINS):
            found = self._any(plan, lead_flavor, None, Outside(self.levels, domain, avoid))
            if found is not None:
                return found
        self.cut_short = self.cut_short or next(tried, None) is not None
        return None if topology.required else self._any(plan, lead_flavor, None, avoid)

    def _any(
        self,
        plan: ShapePlan,
        lead_flavor: str,
        moved: dict[tuple[Need, str], int] | None,
        avoid: Collection[int],
    ) -> tuple[MemberPlan, ...] | None:
        found = super()._gang(plan, lead_flavor, moved, avoid)
        if found is not None or len(plan.roles) < 2:
            return found
        search = Search(self, plan, lead_flavor, avoid)
        found = search.run()
        self.cut_short = self.cut_short or search.is_cut
        return found


class Search:
    """Goes through the choices of flavors and nodes for members unlike each other, depth first.

    Members of a role go to nodes in ascending order, and of nodes that are alike only the first is tried: any
    other choice is one of those under another name. So within its bound it finds a place if there is one.
    """

    def __init__(self, placer: Placer, plan: ShapePlan, lead_flavor: str, avoid: Collection[int]) -> None:
        self.placer = placer
        self.board: Board = placer.board
        self.cluster = self.board.flavors[lead_flavor].cluster
        self.lead_flavor = lead_flavor
        self.avoid = avoid
        self.roles = plan.roles
        hardest = sorted(plan.roles, key=lambda role: (-role.need.amount, role.index))
        self.slots = [role for role in hardest for _ in range(role.count)]
        self.lead = plan.lead
        self.steps = 0
        self.is_cut = False
        self.taken: list[tuple[RoleNeed, int, tuple[AllocationPlan, ...]]] = []

    def run(self) -> tuple[MemberPlan, ...] | None:
        """The members in the shape's order, their places taken; or None, and nothing is changed."""
        if len(self.slots) > MAX_SEARCHED:
            self.is_cut = True
            return None
        if not self._enough() or not self._fill(0, 0, ""):
            return None
        seen: dict[int, int] = {}
        members = []
        for role, node, allocations in sorted(self.taken, key=lambda entry: entry[0].index):
            number = seen[role.index] = seen.get(role.index, -1) + 1
            members.append(MemberPlan(role.name, number, self.cluster, node, allocations))
        return tuple(members)

    def _flavors(self, role: RoleNeed) -> tuple[str, ...] | list[str]:
        return (self.lead_flavor,) if role is self.lead else self.placer.within(role, self.cluster)

    def _enough(self) -> bool:
        """A cheap necessary test, role by role."""
        return all(
            any(self.board.free(name) >= role.need.amount * role.count for name in self._flavors(role))
            for role in self.roles
        )

    def _fill(self, slot: int, start: int, flavor: str) -> bool:
        if slot == len(self.slots):
            return True
        role = self.slots[slot]
        goes_on = slot > 0 and self.slots[slot - 1] is role
        for name in (flavor,) if goes_on else self._flavors(role):
            if self._fill_on(slot, start if goes_on else 0, name):
                return True
            if self.is_cut:
                return False
        return False

    def _fill_on(self, slot: int, start: int, flavor: str) -> bool:
        role, order = self.slots[slot], self.placer.nodes_of(flavor, self.avoid)
        tried: set[object] = set()
        for at in range(start, len(order)):
            node = order[at]
            alike = self._alike(node)
            if alike in tried or node in self.avoid:
                continue
            tried.add(alike)
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.is_cut = True
                return False
            allocations = self.board.take_member(node, role.need, flavor)
            if allocations is None:
                continue
            self.taken.append((role, node, allocations))
            if self._fill(slot + 1, at, flavor):
                return True
            self.taken.pop()
            for allocation in allocations:
                self.board.change(node, allocation, 1)
            if self.is_cut:
                return False
        return False

    def _alike(self, node: int) -> object:
        """Equal for nodes that could take each other's place."""
        state: NodeState = self.board.state(node)
        devices = tuple(
            (name, len(on.whole), *sorted((left, on.kinds.get(part, "")) for part, left in on.part.items()))
            for name, on in sorted(state.devices.items())
        )
        spaces = tuple(
            (cls, space.flavor, space.free) for cls in sorted(state.spaces) for space in state.spaces[cls]
        )
        return devices, spaces, tuple(matches(state.view, role.need) for role in self.roles)


def lead_flavor(plan: ShapePlan, found: Plan) -> str:
    """The flavor that the lead role was placed on."""
    lead = plan.lead
    return next(
        allocation.flavor
        for member in found.members
        if member.role == lead.name
        for allocation in member.allocations
        if allocation.device_class is lead.need.primary
    )
