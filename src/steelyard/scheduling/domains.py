"""Sets of victims by domain, by counting alone; whether a set does is for the simulation to say.

Where could the attempt's members go with the fewest evictions? Member by member onto the node where one more
costs least, in one domain of its topology where it asks for one. What a set costs is compared as `_Cost` has
it: no higher priority where lower ones do, no gang of many devices for a few that are needed, the fewest, the
least work lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import NodeState, flavor_free, matches
from steelyard.scheduling.context import Context
from steelyard.scheduling.placement import ShapePlan, allocations_of
from steelyard.scheduling.reclaim import Loss
from steelyard.scheduling.views import RunningView

#: Node looks that weighing one candidate counts as, in the bound on a cycle's searches.
WEIGHED = 8

#: (tier of the worst, evicted in multiples of twice what is asked, how many, device-µs lost, how much, ids)
_Cost = tuple[tuple[int, int], int, int, int, int, tuple[int, ...]]


@dataclass(slots=True)
class _Node:
    """A node that could take members: how much of the flavor is free, and who would leave more of it."""

    id: int
    domain: str | int
    free: int
    holders: list[tuple[Loss, int]] = field(default_factory=list)  # with what each has here


class Domains:
    """Sets of victims by domain, by counting alone; whether they do is for the simulation to say."""

    def __init__(self, context: Context, plan: ShapePlan, losses: Sequence[Loss], banned: set[int]) -> None:
        self.context = context
        self.plan = plan
        self.losses = losses
        self.banned = banned
        lead, least = plan.lead, plan.shape.least
        self.need, self.count = max(1, lead.need.amount), least[lead.index] if least else lead.count
        self.wanted = self.need * self.count
        topology = self.plan.shape.topology
        self.level = topology.required or topology.preferred if topology else None
        self._facts = {loss.view.attempt_id: self._fact(loss) for loss in losses}  # held, lost
        self._by_id = {loss.view.attempt_id: loss for loss in losses}
        self._holders = self._by_node()

    def _with_its(self, loss: Loss) -> list[Loss]:
        """It, and those without whom it does not go."""
        return [*(self._by_id[number] for number in loss.after), loss]

    def _fact(self, loss: Loss) -> tuple[int, int]:
        """How much of the lead class a victim has, and how much work on it would be lost (device-µs)."""
        primary = self.plan.lead.need.primary
        held = sum(a.quantity for _, a in allocations_of(loss.view.members) if a.device_class is primary)
        return held, 0 if loss.is_hold else lost_time(loss.view, self.context.now) * held

    def _by_node(self) -> dict[str, dict[int, list[tuple[Loss, int]]]]:
        """flavor → node → who has how much of it there."""
        found: dict[str, dict[int, list[tuple[Loss, int]]]] = {name: {} for name in self.plan.lead.flavors}
        for loss in self.losses:
            here: dict[tuple[str, int], int] = {}
            for member, allocation in allocations_of(loss.view.members):
                if allocation.flavor in found:
                    key = (allocation.flavor, member.node_id)
                    here[key] = here.get(key, 0) + allocation.quantity
            for (flavor, node_id), amount in here.items():
                found[flavor].setdefault(node_id, []).append((loss, amount))
        return found

    def best(self) -> tuple[list[Loss], set[int]] | None:
        """The cheapest set over all flavors and domains, and the nodes it frees: empty where nobody needs to
        leave. None where it would not be enough if all left."""
        self.context.preemption_looks += WEIGHED * len(self.losses)
        found: list[tuple[_Cost, int, list[Loss], set[int]]] = []
        is_free = False
        for rank, flavor in enumerate(self.plan.lead.flavors):
            domains: dict[str | int, list[_Node]] = {}
            for node in self._nodes(flavor):
                domains.setdefault(node.domain, []).append(node)
            for nodes in domains.values():
                assembled = self._assemble(nodes, self._elsewhere(flavor, nodes))
                if assembled is None:
                    continue
                chosen, freed = assembled
                is_free = is_free or not chosen
                if chosen:
                    found.append((self._cost(chosen), rank, chosen, freed))
        if not found:
            return ([], set()) if is_free else None
        _, _, chosen, freed = min(found, key=lambda entry: entry[:2])
        return sorted(chosen, key=order_of), freed

    def _nodes(self, flavor: str) -> list[_Node]:
        """Those on which somebody could leave; and all others where it matters in which domain they lie, or
        which labels they have."""
        board, need = self.context.board, self.plan.lead.need
        holders = self._holders[flavor]
        usable = board.nodes.position
        ids: Iterable[int] = sorted(node for node in holders if usable(flavor, node) is not None)
        if self.count > 1 and (self.level or need.labels):
            ids = board.order(flavor)[: self.context.policy.max_nodes]
        found: list[_Node] = []
        for node_id in ids:
            state = board.state(node_id)
            if node_id not in self.banned and matches(state.view, need):
                domain = state.view.labels.get(self.level, node_id) if self.level else ""
                held = holders.get(node_id, [])
                found.append(_Node(node_id, domain, self._free(state, flavor), held))
        return found

    def _elsewhere(self, flavor: str, nodes: Sequence[_Node]) -> int:
        """How many members other nodes of the flavor could take as they are."""
        need, room = self.plan.lead.need, self.context.board.room(flavor)
        if self.count == 1 or self.level or need.labels or (need.is_accelerated and self.need % WHOLE_DEVICE):
            return 0
        free = room.whole * WHOLE_DEVICE if need.is_accelerated else room.left.clip(min=0)
        return int((free // self.need).sum()) - sum(max(0, node.free) // self.need for node in nodes)

    def _free(self, state: NodeState, flavor: str) -> int:
        devices = state.devices.get(flavor)
        if devices is not None and self.need % WHOLE_DEVICE == 0:
            return len(devices.whole) * WHOLE_DEVICE
        return flavor_free(state, flavor)

    def _assemble(self, nodes: list[_Node], elsewhere: int) -> tuple[list[Loss], set[int]] | None:
        """Member by member onto the node where it costs least."""
        missing = self.count - elsewhere - sum(node.free // self.need for node in nodes)
        by_id = {node.id: node for node in nodes if node.holders}
        chosen: dict[int, Loss] = {}
        freed: set[int] = set()
        options = {node_id: self._option(node, chosen) for node_id, node in by_id.items()}
        while missing > 0:
            possible = [(option[0], node_id) for node_id, option in options.items() if option is not None]
            if not possible:
                return None
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
        more: dict[int, Loss] = {}
        for loss, amount in sorted(node.holders, key=lambda entry: self._preference(*entry)):
            if left >= target:
                break
            number = loss.view.attempt_id
            if number in chosen or number in more:
                continue
            if loss.after:
                its = (one for one in self._with_its(loss) if one.view.attempt_id not in chosen)
                more.update((one.view.attempt_id, one) for one in its)
                left = self._left(node, {**chosen, **more})
            else:
                more[number] = loss
                left += amount
        return list(more.values()) if left >= target else []

    def _preference(self, loss: Loss, amount: int) -> tuple[tuple[int, int], int, int, int, int, int]:
        """The worst tier last; no gang for a few devices; the most of it here; the least lost; the newest."""
        held, lost = self._facts[loss.view.attempt_id]
        return (
            loss.tier, held // (2 * self.wanted), -min(amount, self.need), held, lost, -loss.view.attempt_id,
        )  # fmt: skip

    def _cost(self, losses: Iterable[Loss]) -> _Cost:
        each = list(losses)
        facts = [self._facts[loss.view.attempt_id] for loss in each]
        held = sum(fact[0] for fact in facts)
        return (
            max(loss.tier for loss in each),
            held // (2 * self.wanted),
            len({loss.attempt_id for loss in each}),
            sum(fact[1] for fact in facts),
            held,
            tuple(sorted(-loss.view.attempt_id for loss in each)),
        )


def lost_time(view: RunningView, now: int) -> int:
    """µs of its work that would be lost: since its last checkpoint, else since it started."""
    since = view.checkpointed_at or view.started_at or view.placed_at
    return max(0, now - since)


def order_of(loss: Loss) -> tuple[tuple[int, int], int, int]:
    """Lower tier first, then the newest."""
    return (loss.tier, -loss.view.placed_at, -loss.view.attempt_id)
