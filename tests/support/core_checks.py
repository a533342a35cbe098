"""What must hold for every answer of the scheduling core whatever its policy, against a naive book."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from steelyard.model.policy import ORG_TREE, QUEUE_TREE
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS
from steelyard.model.workloads import MemberPlan, MemberRequest, Shape
from steelyard.scheduling import (
    Charge,
    Decisions,
    Eviction,
    HoldView,
    NodeView,
    QuotaTree,
    RunningView,
    Snapshot,
)
from steelyard.scheduling.decisions import LOWERED
from tests.support.core_books import NaiveTree, by_place, naive_charges, own_charges

if TYPE_CHECKING:
    from tests.support.core_world import World

K = TypeVar("K")
V = TypeVar("V")
WAITS_FOR_SOMEBODY = frozenset({
    ReasonCode.WAITING_FOR_QUOTA, ReasonCode.OVER_LIMIT, ReasonCode.WAITING_FOR_CAPACITY,
    ReasonCode.FRAGMENTED, ReasonCode.WAITING_FOR_PREEMPTED,
})  # fmt: skip


def check_cycle(world: World, before: Snapshot, decisions: Decisions, after: Snapshot) -> None:
    """`world` has booked the decisions already; `after` is what `apply` made of them."""
    book = world.snapshot()
    check_placements(before, decisions)
    check_same(book, after)
    check_limits(before, book)
    check_evictions(before, decisions)
    check_growth(before, decisions, after)
    check_everyone_told(world, book, decisions)
    check_sums(decisions)


def digest(decisions: Decisions) -> object:
    """To compare two answers."""
    return decisions.digest_input()


def shuffled(base: Snapshot, chance: random.Random) -> Snapshot:
    """The same snapshot with all its mappings and groups in another order."""

    def mixed(mapping: Mapping[K, V]) -> dict[K, V]:
        items = list(mapping.items())
        chance.shuffle(items)
        return dict(items)

    groups = list(base.pending)
    chance.shuffle(groups)
    return replace(
        base,
        nodes={key: replace(view, totals=mixed(view.totals)) for key, view in mixed(base.nodes).items()},
        flavors=mixed(base.flavors),
        clusters=mixed(base.clusters),
        trees={name: QuotaTree(mixed(tree.nodes), mixed(tree.limits)) for name, tree in base.trees.items()},
        usage={name: mixed(usage) for name, usage in mixed(base.usage).items()},
        pending=tuple(groups),
        running=mixed(base.running),
        holds=mixed(base.holds),
        last_looked=mixed(base.last_looked),
    )


# --- placements -------------------------------------------------------------------------------------
def check_placements(before: Snapshot, decisions: Decisions) -> None:
    """All members or none, in one cluster, on nodes that are up and devices that are good, of the class that
    was asked for and no more of it; charged for exactly that."""
    shapes = {group.shape.key: group.shape for group in before.pending}
    shapes |= {hold.shape.key: hold.shape for hold in before.holds.values()}
    for placement in decisions.placements:
        _check_gang(before, shapes[placement.shape_key], placement.members)
        _check_charged(before, shapes[placement.shape_key], placement.members, placement.charges)
    for hold in decisions.holds:
        _check_gang(before, hold.shape, hold.members)
        _check_charged(before, hold.shape, hold.members, hold.charges)
    _check_reservations(decisions, shapes)


def _check_reservations(decisions: Decisions, shapes: Mapping[str, Shape]) -> None:
    """Who has a place on the timeline does not start now, and nothing that starts now is still there then."""
    placed = {placement.attempt_id for placement in decisions.placements}
    for made in decisions.reservations:
        assert made.attempt_id not in placed
        assert made.starts_at >= decisions.now
        planned = {
            (a.node_id, a.device_id): a.quantity for m in made.members for a in m.allocations
            if a.device_class in ACCELERATORS
        }
        for placement in decisions.placements:
            limit = shapes[placement.shape_key].time_limit
            if limit is not None and decisions.now + limit <= made.starts_at:
                continue
            for member in placement.members:
                for a in member.allocations:
                    kept = planned.get((a.node_id, a.device_id))
                    assert kept is None or a.quantity + kept <= 1000


def _check_gang(before: Snapshot, shape: Shape, members: tuple[MemberPlan, ...]) -> None:
    for index, (name, count, request) in enumerate(shape.roles):
        mine = [member for member in members if member.role == name]
        least = shape.least[index] if shape.least else count
        assert least <= len(mine) <= count
        assert [member.index for member in mine] == list(range(len(mine)))
        for member in mine:
            got: Counter[str] = Counter()
            for allocation in member.allocations:
                flavor = before.flavors[allocation.flavor]
                assert allocation.node_id == member.node_id
                assert flavor.device_class is allocation.device_class
                assert flavor.cluster == member.cluster == before.nodes[member.node_id].cluster
                assert allocation.device_id not in before.nodes[member.node_id].unavailable
                if request.flavors and allocation.device_class in ACCELERATORS:
                    assert allocation.flavor in request.flavors
                got[allocation.device_class] += allocation.quantity
            assert got == dict(request.amounts), "more, less or other than what was asked for"
            assert before.nodes[member.node_id].schedulable
    assert len({member.cluster for member in members}) == 1
    level = shape.topology.required if shape.topology is not None else None
    if level is not None:
        (domain,) = {before.nodes[member.node_id].labels.get(level) for member in members}
        assert domain is not None


def _check_charged(
    before: Snapshot, shape: Shape, members: tuple[MemberPlan, ...], charges: tuple[Charge, ...]
) -> None:
    nodes = []
    for tree, path in ((QUEUE_TREE, (shape.queue,)), (ORG_TREE, shape.org_path)):
        known = [name for name in path if name in before.trees[tree].nodes]
        nodes += [(tree, known[0])] if known else []
    mine = {(item.tree, item.node, item.subject): item.quantity for item in charges}
    wanted = naive_charges(nodes, members)
    assert {key: mine.get(key) for key in wanted} == wanted, "charged for something else than was given"


# --- the books ---------------------------------------------------------------------------------------------
def check_same(book: Snapshot, after: Snapshot) -> None:
    """`apply` comes to what the naive book says: usage, free devices, who runs, is held and waits."""
    for name in book.trees:
        assert {key: used for key, used in after.usage[name].items() if used} == dict(book.usage[name])
    assert {key: free_of(view) for key, view in after.nodes.items()} == {
        key: free_of(view) for key, view in book.nodes.items()
    }
    assert {key: view.stopping for key, view in after.running.items()} == {
        key: view.stopping for key, view in book.running.items()
    }
    assert after.holds.keys() == book.holds.keys()
    assert {g.shape.key: g.count for g in after.pending} == {g.shape.key: g.count for g in book.pending}


def free_of(view: NodeView) -> dict[int | None, int]:
    """Device → what is free of it."""
    free: dict[int | None, int] = {slot.device_id: slot.free for slot in view.slots if slot.free}
    for devices in view.accelerators.values():
        assert len(set(devices.whole)) == len(devices.whole)
        free |= dict.fromkeys(devices.whole, 1000)
        free |= {part.device_id: part.remaining for part in devices.partial}
    assert not view.unavailable & free.keys()
    return free


def check_limits(before: Snapshot, book: Snapshot) -> None:
    """No node of a tree stands above its ceiling but where it did before: neither with all that runs, nor
    with all that is held in place of what stops."""
    for name, tree in book.trees.items():
        naive = NaiveTree(tree)
        for world in (running_charges, settled_charges):
            was, own = own_charges(name, world(before)), own_charges(name, world(book))
            for node, subject in ((node, subject) for node in tree.nodes for subject in tree.subjects):
                ceiling, used = naive.ceiling(node, subject), naive.usage(node, subject, own)
                if ceiling is not None and used > ceiling:
                    assert used <= naive.usage(node, subject, was), f"{node} {subject}: {used} of {ceiling}"


def running_charges(snapshot: Snapshot) -> Iterable[Charge]:
    """Of all that has its devices now."""
    return (item for run in snapshot.running.values() for item in run.charges)


def settled_charges(snapshot: Snapshot) -> Iterable[Charge]:
    """Of all that will have devices when what stops has stopped."""
    charged: list[RunningView | HoldView] = [run for run in snapshot.running.values() if not run.stopping]
    charged += [hold for hold in snapshot.holds.values() if hold.alive]
    return (item for each in charged for item in each.charges)


# --- evictions --------------------------------------------------------------------------------------
def check_evictions(before: Snapshot, decisions: Decisions) -> None:
    """Nobody is stopped but for somebody whose place is kept and free once they are gone."""
    held = {hold.attempt_id: hold for hold in decisions.holds}
    for eviction in decisions.evictions:
        victim = before.running[eviction.attempt_id]
        if eviction.rule == LOWERED:
            check_lowered(before, eviction)
            continue
        assert eviction.preemptor_attempt_id in held
        stopped = [gone.member_id for gone in eviction.members] or [eviction.attempt_id]
        assert {*stopped} <= {*held[eviction.preemptor_attempt_id].victims}
        check_members(victim, eviction)
        assert victim.preemptible
        assert not victim.stopping
    assert len({eviction.attempt_id for eviction in decisions.evictions}) == len(decisions.evictions)
    for hold in decisions.holds:
        _check_feasible(before, decisions, hold)


def check_lowered(before: Snapshot, eviction: Eviction) -> None:
    """It stops for nobody, but for a limit that is passed and that it is charged to."""
    limit, victim = eviction.limit, before.running[eviction.attempt_id]
    assert limit is not None
    assert eviction.preemptor_attempt_id is None
    assert eviction.preemptor_queue == limit.node
    assert victim.preemptible
    assert not victim.stopping
    tree = before.trees[limit.tree]
    assert before.usage[limit.tree].get((limit.node, limit.subject), 0) > limit.limit
    charged = [item for item in victim.charges if (item.tree, item.subject) == (limit.tree, limit.subject)]
    assert any(limit.node in tree.path(item.node) for item in charged)


def check_growth(before: Snapshot, decisions: Decisions, after: Snapshot) -> None:
    """Who joins a gang is numbered on, goes where the others are, and puts nobody back who waits."""
    asked = [one for group in after.pending for _, _, one in group.shape.roles]
    waiting = {name for one in asked for name in _suits(before, one)}
    for growth in decisions.growths:
        view, shape = before.running[growth.attempt_id], before.running[growth.attempt_id].grows
        assert shape is not None
        assert not view.stopping
        assert growth.attempt_id not in {eviction.attempt_id for eviction in decisions.evictions}
        _check_charged(before, shape, growth.members, growth.charges)
        for name, count, _ in shape.roles:
            members = [one for one in (*view.members, *growth.members) if one.role == name]
            assert [member.index for member in members] == list(range(len(members)))
            assert len(members) <= count
            on = {a.flavor for one in members for a in one.allocations if a.device_class in ACCELERATORS}
            assert len(on) <= 1
        assert len({member.cluster for member in (*view.members, *growth.members)}) == 1
        if shape.topology is not None and (level := shape.topology.required) is not None:
            assert len({before.nodes[m.node_id].labels[level] for m in (*view.members, *growth.members)}) == 1
        used = {a.flavor for member in growth.members for a in member.allocations}
        assert not {name for name in used if before.flavors[name].device_class in ACCELERATORS} & waiting


def _suits(before: Snapshot, request: MemberRequest) -> set[str]:
    asked = {cls for cls, amount in request.amounts if amount}
    fits = (name for name, flavor in before.flavors.items() if flavor.device_class in asked)
    return {name for name in fits if name in (request.flavors or (name,))}


def check_members(victim: RunningView, eviction: Eviction) -> None:
    """Of a gang that goes on the highest indexes leave, each charged for what it has, and enough stay."""
    names = {(gone.role, gone.index): gone for gone in eviction.members}
    for role, least in victim.least if names else ():
        indexes = sorted(member.index for member in victim.members if member.role == role)
        stay = [index for index in indexes if (role, index) not in names]
        assert stay == list(range(len(stay))), "a gap among those who stay"
        assert len(stay) >= least
    for number, member in zip(victim.ids, victim.members, strict=bool(victim.ids)):
        gone = names.get((member.role, member.index))
        if gone is not None:
            assert gone.member_id == number != 0
            charged = {item.tree for item in gone.charges}
            assert charged == {item.tree for item in victim.charges}
    assert len(names) == len(eviction.members) < len(victim.members) or not names


def _check_feasible(before: Snapshot, decisions: Decisions, hold: HoldView) -> None:
    """The places of a new hold are free once its victims are gone, beside all that stays or is promised."""
    dropped = {drop.attempt_id for drop in decisions.dropped_holds}
    placed = {placement.attempt_id for placement in decisions.placements}
    promised = [h for key, h in before.holds.items() if key not in dropped and key not in placed]
    promised += [other for other in decisions.holds if other is not hold]
    gone = {*hold.victims, *(victim for other in promised for victim in other.victims)}
    stays = [_staying(run, gone) for key, run in before.running.items() if key not in gone]
    stays += [placement.members for placement in decisions.placements]
    taken = by_place(member for members in stays for member in members)
    taken += by_place(member for other in promised for member in other.members)
    for (node, device), wanted in by_place(hold.members).items():
        size = _size(before.nodes[node], device)
        assert taken[node, device] + wanted <= size, "a hold whose place can't come free"


def _staying(run: RunningView, gone: Collection[int]) -> tuple[MemberPlan, ...]:
    if not run.ids:
        return run.members
    return tuple(member for number, member in zip(run.ids, run.members, strict=True) if number not in gone)


def _size(view: NodeView, device: int) -> int:
    for slot in view.slots:
        if slot.device_id == device:
            return view.totals[slot.flavor]
    return 1000


# --- reasons ----------------------------------------------------------------------------------------
def check_everyone_told(world: World, book: Snapshot, decisions: Decisions) -> None:
    """Whoever waits has a reason: the shape's, its own, or that it was not looked at yet."""
    for group in book.pending:
        if group.shape.key in world.reasons:
            continue
        untold = [item for item in group.heads if item.workload_id not in decisions.workload_reasons]
        assert not untold or decisions.stats.more, f"{group.shape.key} waits without a reason"
    for hold in book.holds.values():
        assert hold.workload_id in decisions.workload_reasons or not hold.alive


def check_sums(decisions: Decisions) -> None:
    """Holders' amounts sum to what is short."""
    told = [reason for each in decisions.reasons.values() for reason in each.reasons]
    told += [reason for each in decisions.workload_reasons.values() for reason in each]
    for each in decisions.reasons.values():
        assert 1 <= len(each.reasons) <= 16
    for reason in told:
        _check_sum(reason)


def _check_sum(reason: Reason) -> None:
    assert len(reason.holders) <= 16
    assert reason.wakes_on
    if reason.short_by is None:
        return
    assert reason.short_by > 0
    if reason.limit is not None and reason.used is not None and reason.requested is not None:
        total = reason.used + reason.requested - reason.limit
        # where nothing would flow up, what is still free below counts against an ancestor's excess
        assert reason.short_by == total or (reason.requested == 0 and reason.short_by < total), reason
    if reason.code in WAITS_FOR_SOMEBODY:
        assert sum(holder.amount for holder in reason.holders) == reason.short_by
        assert all(holder.amount > 0 for holder in reason.holders)
