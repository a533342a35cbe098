"""Where a gang would go at an instant to come: all that is free then in one step, and of the nodes only those
looked at that are chosen.

For placement by score on fleets that are counted (see `cells`). It finds what a search on a board finds on
which everything that ends by then was given back.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from steelyard.model.policy import FLAVOR_PREFIX
from steelyard.model.resources import ACCELERATORS
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.board import Board, NodeState
from steelyard.scheduling.cells import Cells, Uncounted, cells_of, forget_cells
from steelyard.scheduling.fleet import Room
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.node_choice import NodeChoice
from steelyard.scheduling.node_state import pieces_of
from steelyard.scheduling.placement import Placer, Plan, ShapePlan
from steelyard.scheduling.prices import Ints
from steelyard.scheduling.timeline import Ending


class _Then(Board):
    """A board as numbers have it; a node is made of them when it is looked at."""

    def __init__(self, behind: Board, cells: Cells, left: Ints) -> None:
        super().__init__(behind.nodes, behind.flavors, behind.usable)
        self._behind = behind
        self._cells = cells
        self._left = left
        self._there: dict[str, int] = {}
        self.columns, self._held = cells.columns(left)

    def state(self, node_id: int) -> NodeState:
        """The node's working copy."""
        state = self._states.get(node_id)
        if state is None:
            if node_id not in self._cells.rows_of:
                return super().state(node_id)
            state = self._states[node_id] = self._cells.state(self.nodes[node_id], self._left)
        return state

    def known(self, node_id: int) -> NodeState | None:
        """As on any board: all that is counted has one."""
        return self.state(node_id) if node_id in self._cells.rows_of else super().known(node_id)

    def free(self, flavor: str) -> int:
        """What can still be taken of a flavor on all its nodes together."""
        if flavor not in self.usable:
            return 0
        there = self._there.get(flavor)
        if there is None:
            there = self._there[flavor] = self._cells.free(self._left, self._held, flavor)
        return there + self._free.get(flavor, 0)

    def room(self, flavor: str) -> Room:
        """What can still be taken of a usable flavor, by position in its order."""
        if flavor not in self._rooms:
            pieces = [pieces_of(self.state(node), flavor) for node in self.order(flavor)]
            columns = np.array(pieces, dtype=np.int64).reshape(-1, 3)
            self._rooms[flavor] = Room(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy())
            self._followed[flavor] = len(self.touched)
        return super().room(flavor)


class Instants:
    """Of one cycle. `ends`: what ends, in order; `ledger` is set to the instant by whoever asks."""

    def __init__(
        self, board: Board, placer: Placer, ledger: Ledger, choice: NodeChoice, cells: Cells
    ) -> None:
        self._board = board
        self._placer = placer
        self._ledger = ledger
        self._choice = choice
        self._cells = cells
        self._left, self._unavailable = cells.read(board)
        #: By how many have ended, what they give back.
        self._ended: dict[int, Ints] = {0: np.zeros(len(self._left), dtype=np.int64)}
        self._taken: list[Sequence[MemberPlan]] = []  # not in what is left yet
        subjects = [f"{FLAVOR_PREFIX}{name}" for name in cells.space_flavors]
        self._are_spaces_limited = any(
            not tree.subjects.isdisjoint(subjects) for tree in ledger.trees.values()
        )
        self.looks = 0
        self.cut_short = False

    def keeps_fitting(self, plan: ShapePlan) -> bool:
        """Whether what finds places after some ends does so after more of them, looking at each node that it
        takes once: of like members, as many fit on a node as pieces of it are large enough, whichever are
        taken first. No more is granted then than was asked for, and no limit asks which CPU it is."""
        role = plan.lead
        need = role.need
        return (
            len(plan.roles) == 1
            and role.most <= role.count
            and plan.shape.topology is None
            and plan.counting.is_plain
            and need.is_accelerated
            and not need.memory
            and not self._cells.has_partitions
            and (need.amount < WHOLE_DEVICE or not need.amount % WHOLE_DEVICE)
            and not any(other in ACCELERATORS for other, _ in need.others)
            and not self._are_spaces_limited
        )

    def place(self, plan: ShapePlan, ends: Sequence[Ending], count: int) -> Plan | None:
        """Where a gang that the limits let start goes when so many have ended. Nothing stays taken. Raises
        Uncounted."""
        board = self.board(ends, count)
        choice = self._choice.over(self._choice.sheet.over(board, board.columns))
        for role in plan.roles:
            choice.rank(role.need, role.flavors)
        placer = type(self._placer)(board, self._ledger, self._placer.policy, choice)
        found = placer.place_let(plan, fresh=True)
        self.looks += board.looks
        self.cut_short = placer.cut_short
        return found

    def board(self, ends: Sequence[Ending], count: int) -> _Then:
        """As it is when so many have ended. Raises Uncounted."""
        return _Then(self._board, self._cells, self._after(ends, count))

    def _after(self, ends: Sequence[Ending], count: int) -> Ints:
        if self._taken:
            np.subtract.at(self._left, *self._changes(self._taken))
            self._taken = []
        known = self._ended.get(count)
        if known is None:
            last = max(each for each in self._ended if each < count)
            more = self._changes([end.members for end in ends[last:count]])
            known = self._ended[count] = self._ended[last].copy()
            np.add.at(known, *more)
        left: Ints = self._left + known
        if self._unavailable:
            left[self._cells.withheld(self._unavailable)] = 0
        return left

    def _changes(self, many: Sequence[Sequence[MemberPlan]]) -> tuple[Ints, Ints]:
        numbers, amounts = array("q"), array("q")
        for members in many:
            of, each = self._cells.places(members)
            numbers += of
            amounts += each
        return np.frombuffer(numbers, dtype=np.int64), np.frombuffer(amounts, dtype=np.int64)

    def took(self, members: Sequence[MemberPlan], at: int | None) -> None:
        """The cycle has taken this. `at`: where its end was put among the ends."""
        self._taken.append(members)
        later = [] if at is None else [count for count in self._ended if count > at]
        if later:
            numbers, amounts = self._changes([members])
            for count in sorted(later, reverse=True):
                ended = self._ended[count + 1] = self._ended.pop(count)
                np.add.at(ended, numbers, amounts)


def instants(board: Board, placer: Placer, ledger: Ledger) -> Instants | None:
    """As a board is now. None where nodes are not chosen by what is free on them, or are not counted."""
    choice = placer.choice
    if choice is None or choice.is_detailed:
        return None
    cells = cells_of(choice.sheet)
    try:
        return None if cells is None else Instants(board, placer, ledger, choice, cells)
    except Uncounted:
        forget_cells(choice.sheet)
        return None
