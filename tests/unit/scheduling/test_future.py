"""Working copies that stay between questions are what they would be if they were made anew for each."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Mapping, Sequence

import pytest

from steelyard.model.policy import NodeOrder, Policy, QueueOrder, QueueRules
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling import PendingItem, ShapeGroup, reservation
from steelyard.scheduling.board import Board
from steelyard.scheduling.cells import Cells, Uncounted
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.future import Future, Lifted
from steelyard.scheduling.instant import Instants, _Then
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan, may_fit
from steelyard.scheduling.prices import Ints
from steelyard.scheduling.quota import Usage
from steelyard.scheduling.sheet import Sheet
from steelyard.scheduling.timeline import Timeline
from tests.support.core_world import make_shapes
from tests.unit.scheduling.test_machine import POLICIES, run

FAIR = Policy(9, nodes=NodeOrder.BEST_FIT, order=QueueOrder.FAIR_SHARE, defaults=QueueRules(reservations=3))


def _facts(board: Board, among: Iterable[int] | None = None) -> object:
    """All that can be taken, by node."""
    free = {name: board.free(name) for name in sorted(board.flavors)}
    nodes = {}
    for node in sorted(board.nodes if among is None else among):
        state = board.state(node)
        devices = {
            name: (held.whole, dict(sorted(held.part.items())))
            for name, held in state.devices.items()
            if held.whole or held.part
        }
        spaces = [(space.flavor, space.free) for each in state.spaces.values() for space in each]
        nodes[node] = devices, spaces
    rooms = {name: [column.tolist() for column in _columns(board, name)] for name in sorted(board.usable)}
    return free, nodes, rooms


def _columns(board: Board, flavor: str) -> Sequence[Ints]:
    room = board.room(flavor)
    return room.left, room.whole, room.most


def _used(ledger: Ledger) -> object:
    return [_used_in(world) for world in ledger.worlds]


def _used_in(world: Mapping[str, Usage]) -> object:
    return {name: {key: used for key, used in usage.items() if used} for name, usage in world.items()}


class _Checked(Future):
    """Compares itself after each search with one that was made for it."""

    looks = counted = narrowed = 0

    def __init__(
        self, board: Board, ledger: Ledger, placer: Placer, timeline: Timeline, made: Iterable[Reservation]
    ) -> None:
        self.sources = board, ledger, placer, timeline
        self.made = made
        super().__init__(board, ledger, placer, timeline, made)

    def earliest(self, plan: ShapePlan, first: int, most: int) -> tuple[tuple[int, Plan] | None, int]:
        plain = self._one_by_one(plan, first, most), self.looks, self.cut_short
        self.looks = self._looks
        found = super().earliest(plan, first, most)
        assert (found, self.looks, self.cut_short) == plain
        anew = Future(*self.sources, self.made)
        anew.moving.until(self.moving.passed)
        assert _facts(self.moving.board) == _facts(anew.moving.board)
        assert _used(self.ledger) == _used(anew.ledger)
        self._compare(anew.ledger)
        _Checked.looks += 1
        return found

    def _one_by_one(
        self, plan: ShapePlan, first: int, most: int
    ) -> tuple[tuple[int, Plan] | None, int]:
        """Each step looked at in turn, whatever was found."""
        self._looks = self.looks
        counts = self.timeline.counts
        low, at, width, last = first - 1, first, 1, len(counts) - 1
        moves, before = most, counts[first]
        found = None
        while found is None:
            moves, before = moves - abs(counts[at] - before), counts[at]
            found = self._attempt(plan, at)
            if found is None:
                if at == last or moves <= 0:
                    return None, moves
                low, at, width = at, min(last, at + width), width * 2
        high = at
        while high - low > 1 and moves > 0:
            middle = (low + high) // 2
            moves, before = moves - abs(counts[middle] - before), counts[middle]
            earlier = self._attempt(plan, middle)
            if earlier is None:
                low = middle
            else:
                high, found = middle, earlier
                _Checked.narrowed += self._keeps_fitting(plan)
        return (high, found), moves

    def _attempt(self, plan: ShapePlan, step: int) -> Plan | None:
        """What is found by counting is found by giving back."""
        found, moving, count = super()._attempt(plan, step), self.moving, self.timeline.counts[step]
        self.later.at(count)
        if may_fit(self.later, plan):
            assert found == moving.place(plan, count)
            assert self.cut_short == moving.placer.cut_short
            moving.board.looks = 0
        moving.until(count)
        if self._instants is not None:
            with contextlib.suppress(Uncounted):
                self._compare_places(self._instants, self._instants.board(self.timeline.releases, count))
        return found

    def _compare_places(self, instants: Instants, then: _Then) -> None:
        _Checked.counted += 1
        counted, moved = instants._cells.rows_of, self.moving.board  # of the others nothing is offered
        assert _facts(then, counted) == _facts(moved, counted)
        _assert_alike(then, moved)

    def _compare(self, ledger: Ledger) -> None:
        """What is used after each end is what it would be if all before it were given back one by one."""
        ended = 0
        for step, count in enumerate(self.timeline.counts):
            for end in self.timeline.releases[ended:count]:
                ledger.remove(end)  # type: ignore[arg-type]
            ended = count
            usage = {name: {key: n for key, n in of.items() if n} for name, of in self.usage_at(step).items()}
            assert usage == _used_in(ledger.worlds[-1])
            self.later.at(count)
            for world, there in zip(ledger.worlds, self.later._there, strict=True):
                for name, tree in ledger.trees.items():
                    keys = {*world[name], *tree.limits}
                    assert all(world[name].get(key, 0) == there[name].get(key, 0) for key in keys)


def _assert_alike(then: _Then, moved: Board) -> None:
    """The numbers that scores are made of are those that are read of a board."""
    sheet = Sheet(moved)
    for node in sheet.node_ids:
        moved.state(node)
        moved.touched.append(node)
    sheet.sync()
    for name, ours in zip(sheet.columns()._fields, then.columns, strict=True):
        assert ours.tolist() == getattr(sheet.columns(), name).tolist(), name


class _CheckedLifted(Lifted):
    looks = 0

    def __init__(self, board: Board, ledger: Ledger, placer: Placer) -> None:
        self.source = board
        super().__init__(board, ledger, placer)

    def place(self, plan: ShapePlan, some: Iterable[Reservation], avoid: object) -> Plan | None:
        lifted = list(some)
        found = super().place(plan, lifted, avoid)  # type: ignore[arg-type]
        anew = self.source.beside()
        for made in lifted:
            anew.change_members(made.members, 1)
        assert _facts(self.board) == _facts(anew)
        _CheckedLifted.looks += 1
        return found


@pytest.mark.parametrize("policy", [POLICIES[4], FAIR], ids=["FirstFit", "BestFit"])
def test_copies_that_follow_the_cycle_are_those_made_anew(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "Future", _Checked)
    monkeypatch.setattr(reservation, "Lifted", _CheckedLifted)
    before = _Checked.looks, _CheckedLifted.looks
    for seed in (0, 1, 19):
        run(seed, 50, (policy,))
    assert _Checked.looks > before[0] + 20
    assert policy is not FAIR or (_Checked.counted > 20 and _Checked.narrowed > 0)


def test_what_has_no_number_is_looked_at_on_the_nodes_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncounted(*_: object) -> object:
        raise Uncounted

    monkeypatch.setattr(reservation, "Future", _Checked)
    before = _Checked.looks, _Checked.counted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cells, "places", uncounted)
        run(3, 50, (FAIR,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cells, "read", uncounted)
        run(3, 50, (FAIR,))
    assert _Checked.looks > before[0] + 10
    assert _Checked.counted == before[1]


def test_what_was_taken_twice_of_one_node_is_followed() -> None:
    seen: list[tuple[MemberPlan, ...]] = []
    follow = Board.follow

    def noted(board: Board, members: Sequence[MemberPlan]) -> None:
        seen.append((*members,))
        follow(board, members)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Board, "follow", noted)
        patch.setattr(reservation, "Future", _Checked)
        for seed in range(20, 22):
            run(seed, 50, (FAIR,))
    assert any(len({member.node_id for member in members}) < len(members) for members in seen)


def test_a_group_without_its_first_is_the_group_of_those_left() -> None:
    shape = make_shapes(random.Random(1))[0]
    for guaranteed in (False, True):
        items = tuple(PendingItem(n, n, n, n, 2 * n, guaranteed=guaranteed and n == 5) for n in range(1, 9))
        group = ShapeGroup(shape, items, 8)
        for gone in range(8):
            left = group.without_first(gone)
            assert left == ShapeGroup(shape, items[gone:], 8 - gone)
            assert left.in_turn == ShapeGroup(shape, items[gone:], 8 - gone).in_turn
            assert left.since >= ShapeGroup(shape, items[gone:], 8 - gone).since
