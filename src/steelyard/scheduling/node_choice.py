"""Which node takes a member, by score: the best first, of equals the first by id.

Scores are kept by need and redone only for rows that changed since. A first fit knows no scores: there is no
`NodeChoice` then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.model.policy import NodeOrder, Policy
from steelyard.model.resources import ACCELERATORS
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import Board, Need, matches
from steelyard.scheduling.node_value import NO_PLACE, BestFit, NodeValue, Scores
from steelyard.scheduling.prices import Ints, PriceList
from steelyard.scheduling.sheet import Sheet, rows_with

#: Needs whose scores are kept at once.
MOST_KEPT = 256


@dataclass(slots=True)
class _Ranking:
    """Of one need on the rows of some flavors. `place` says where a row of the sheet stands in it, or −1."""

    rows: Ints
    place: Ints
    flavors: Ints  # of each row, the number of its flavor among those asked for
    scores: Ints
    at: int  # how much of the sheet's changes it has taken in


class NodeChoice:
    """The scores of one cycle."""

    def __init__(self, board: Board, order: NodeOrder, prices: PriceList) -> None:
        self.board = board
        self._order = order
        self._prices = prices
        self._sheet: Sheet | None = None
        self._value: NodeValue | None = None
        self._kept: dict[tuple[Need, tuple[str, ...]], _Ranking] = {}

    def beside(self, board: Board) -> NodeChoice:
        """The same for another board."""
        return NodeChoice(board, self._order, self._prices)

    @property
    def sheet(self) -> Sheet:
        """Made when it is first asked for."""
        if self._sheet is None:
            self._sheet = Sheet(self.board)
        return self._sheet

    def _scores(self, need: Need) -> Scores:
        """Best fit where there are no prices for the class, so that nothing is known of what comes."""
        classes = [cls for cls, _ in need.amounts if cls in ACCELERATORS]
        known = [cls for cls in (classes or ACCELERATORS) if cls in self._prices]
        if self._order is not NodeOrder.NODE_VALUE or not known:
            return BestFit(self.sheet)
        if self._value is None:
            self._value = NodeValue(self.sheet, self._prices)
        return self._value

    def _ranking(self, need: Need, flavors: tuple[str, ...]) -> _Ranking:
        self.sheet.sync()
        known = self._kept.get((need, flavors))
        if known is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            known = self._kept[need, flavors] = self._ranked(need, flavors)
        elif known.at < len(self.sheet.changed):
            places = known.place[self.sheet.changed[known.at :]]
            places = np.unique(places[places >= 0])
            if len(places):
                known.scores[places] = self._scores(need).of(need, known.rows[places])
            known.at = len(self.sheet.changed)
        return known

    def _has_room(self, need: Need, flavor: str) -> bool:
        """False where no node has enough of the flavor, whatever is asked for beside it: nothing to rank."""
        room = self.board.room(flavor)
        whole, part = divmod(need.amount, WHOLE_DEVICE) if need.is_accelerated else (0, need.amount)
        return room.first(0, whole, part) < len(room.most)

    def _ranked(self, need: Need, flavors: tuple[str, ...]) -> _Ranking:
        sheet = self.sheet
        rows = rows_with(sheet, flavors)
        if need.labels:
            nodes, ids = sheet.nodes, sheet.node_ids
            suits = [matches(self.board.nodes[ids[nodes[row]]], need) for row in rows]
            rows = rows[np.array(suits, dtype=bool)]
        place = np.full(len(sheet.flavors), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        asked = {name: number for number, name in enumerate(flavors)}
        of = np.array([asked.get(name, -1) for name in sheet.names], dtype=np.int64)[sheet.numbers[rows]]
        scores = self._scores(need).of(need, rows) if len(rows) else np.zeros(0, dtype=np.int64)
        return _Ranking(rows, place, of, scores, len(sheet.changed))

    def flavors(self, need: Need, flavors: tuple[str, ...]) -> Iterator[str]:
        """The flavors that could hold the need somewhere, the one with the best place first."""
        if not any(self._has_room(need, flavor) for flavor in flavors):
            return
        ranking = self._ranking(need, flavors)
        scores = ranking.scores
        while len(scores):
            best = int(scores.argmax())
            if scores[best] == NO_PLACE:
                return
            number = int(ranking.flavors[best])
            yield flavors[number]
            scores = np.where(ranking.flavors == number, NO_PLACE, scores)

    def places(
        self, need: Need, flavors: tuple[str, ...], flavor: str, avoid: Collection[int] = ()
    ) -> Iterator[tuple[int, int | None]]:
        """(node, what the device has left that a fraction should go on) of one of the flavors, best first."""
        if not self._has_room(need, flavor):
            return
        ranking = self._ranking(need, flavors)
        scores = ranking.scores
        number = flavors.index(flavor)
        ids, nodes = self.sheet.node_ids, self.sheet.nodes
        passed = False
        while len(scores):
            best = int(scores.argmax())
            if scores[best] == NO_PLACE:
                return
            if ranking.flavors[best] != number:
                scores = np.where(ranking.flavors == number, scores, NO_PLACE)
                passed = True
                continue
            row = int(ranking.rows[best])
            node = ids[nodes[row]]
            if node not in avoid:
                yield node, self._scores(need).device(need, row)
            if not passed:
                scores, passed = scores.copy(), True
            scores[best] = NO_PLACE


def node_choice(board: Board, policy: Policy, prices: PriceList) -> NodeChoice | None:
    """None where the policy takes the first node that fits."""
    return None if policy.nodes is NodeOrder.FIRST_FIT else NodeChoice(board, policy.nodes, prices)
