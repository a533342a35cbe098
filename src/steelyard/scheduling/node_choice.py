"""Which node takes a member, by score: the best first, of equals the first by id.

Scores are kept by need and redone only for rows that changed since. A first fit knows no scores: there is no
`NodeChoice` then.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from steelyard.model.policy import NodeOrder, Policy
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.board import Board, Need, matches
from steelyard.scheduling.node_value import NO_PLACE, BestFit, NodeValue, Scores
from steelyard.scheduling.prices import Ints, PriceList
from steelyard.scheduling.sheet import Sheet, rows_with

#: Needs whose scores are kept at once.
MOST_KEPT = 256


#: Rows that changed up to which it is faster to score one after the other.
MOST_SINGLE = 64
#: Rankings that are kept ready beside the fleet.
MOST_FORMS = 256


@dataclass(frozen=True, slots=True)
class _Form:
    """Of one need on the rows of some flavors, whatever is free. `place` says where a row of the sheet stands
    in it, or −1."""

    rows: Ints
    place: array[int]
    flavors: Ints  # of each row, the number of its flavor among those asked for
    numbers: list[int]  # the same
    nodes: list[int]  # of each row, its node's id


@dataclass(slots=True)
class _Ranking:
    """The scores of a form's rows."""

    form: _Form
    scores: Ints
    at: int  # how much of the sheet's changes it has taken in


class NodeChoice:
    """The scores of one cycle."""

    def __init__(self, board: Board, order: NodeOrder, prices: PriceList) -> None:
        self.board = board
        self._order = order
        self._prices = prices
        self._sheet: Sheet | None = None
        self._best: BestFit | None = None
        self._value: NodeValue | None = None
        self._scorers: dict[Need, Scores] = {}
        self._kept: dict[tuple[Need, tuple[str, ...]], _Ranking] = {}

    def beside(self, board: Board) -> NodeChoice:
        """The same for a board that was made beside this one's just now."""
        made = NodeChoice(board, self._order, self._prices)
        made._sheet = self.sheet.beside(board)
        for key in self._kept:
            known = self._ranking(*key)
            made._kept[key] = _Ranking(known.form, known.scores.copy(), 0)
        return made

    def over(self, sheet: Sheet) -> NodeChoice:
        """The same by another sheet."""
        made = NodeChoice(sheet.board, self._order, self._prices)
        made._sheet = sheet
        return made

    @property
    def is_detailed(self) -> bool:
        """Whether scores rest on what is left of each device."""
        return self._order is NodeOrder.NODE_VALUE

    def rank(self, need: Need, flavors: tuple[str, ...]) -> None:
        """Makes the scores of a need: they say by themselves where there is no room."""
        self._ranking(need, flavors)

    @property
    def sheet(self) -> Sheet:
        """Made when it is first asked for."""
        if self._sheet is None:
            self._sheet = Sheet(self.board, self._order is NodeOrder.NODE_VALUE)
        return self._sheet

    def _scores(self, need: Need) -> Scores:
        known = self._scorers.get(need)
        if known is None:
            known = self._scorers[need] = self._scorer(need)
        return known

    def _scorer(self, need: Need) -> Scores:
        """Best fit where there are no prices for the class, so that nothing is known of what comes."""
        known: list[DeviceClass] = []
        if self._order is NodeOrder.NODE_VALUE:
            classes = [cls for cls, _ in need.amounts if cls in ACCELERATORS]
            known = [cls for cls in (classes or ACCELERATORS) if cls in self._prices]
        if not known:
            self._best = self._best or BestFit(self.sheet)
            return self._best
        if self._value is None:
            self._value = NodeValue(self.sheet, self._prices)
        return self._value

    def _ranking(self, need: Need, flavors: tuple[str, ...]) -> _Ranking:
        sheet = self.sheet
        sheet.sync()
        known = self._kept.get((need, flavors))
        if known is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            known = self._kept[need, flavors] = self._ranked(need, flavors)
        elif known.at < len(sheet.changed):
            place, scorer = known.form.place, self._scores(need)
            if isinstance(scorer, BestFit) and len(sheet.changed) - known.at <= MOST_SINGLE:
                scorer.note(need, known.scores, [(place[row], row) for row in sheet.changed[known.at :]])
                known.at = len(sheet.changed)
                return known
            changed = {place[row] for row in sheet.changed[known.at :]} - {-1}
            if changed:
                places = np.array(sorted(changed), dtype=np.int64)
                known.scores[places] = self._scores(need).of(need, known.form.rows[places])
            known.at = len(sheet.changed)
        return known

    def _may_hold(self, need: Need, flavor: str) -> bool:
        """False where no node has enough of the flavor, whatever is asked for beside it: nothing to rank.
        Where there are scores, they say so themselves."""
        room = self.board.room(flavor)
        whole, part = divmod(need.amount, WHOLE_DEVICE) if need.is_accelerated else (0, need.amount)
        return room.first(0, whole, part) < len(room.most)

    def _ranked(self, need: Need, flavors: tuple[str, ...]) -> _Ranking:
        form = self._form(need, flavors)
        rows = form.rows
        scores = self._scores(need).of(need, rows) if len(rows) else np.zeros(0, dtype=np.int64)
        return _Ranking(form, scores, len(self.sheet.changed))

    def _form(self, need: Need, flavors: tuple[str, ...]) -> _Form:
        """It rests on what the nodes are, so it is kept for as long as that stays the same."""
        memory = self.board.nodes.frame.memory
        kept = memory.get("forms")
        if kept is None or kept[0] != self.board.usable or len(cast("_Forms", kept[1])) >= MOST_FORMS:
            kept = memory["forms"] = (self.board.usable, {})
        forms = cast("_Forms", kept[1])
        known = forms.get((need, flavors))
        if known is None:
            known = forms[need, flavors] = self._formed(need, flavors)
        return known

    def _formed(self, need: Need, flavors: tuple[str, ...]) -> _Form:
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
        ids = [sheet.node_ids[number] for number in sheet.nodes[rows].tolist()]
        return _Form(rows, array("i", place.tolist()), of, of.tolist(), ids)

    def flavors(self, need: Need, flavors: tuple[str, ...]) -> Iterator[str]:
        """The flavors that could hold the need somewhere, the one with the best place first."""
        if (need, flavors) not in self._kept and not any(self._may_hold(need, flavor) for flavor in flavors):
            return
        ranking = self._ranking(need, flavors)
        scores, form = ranking.scores, ranking.form
        while len(scores):
            best = int(scores.argmax())
            if scores.item(best) == NO_PLACE:
                return
            number = form.numbers[best]
            yield flavors[number]
            scores = np.where(form.flavors == number, NO_PLACE, scores)

    def places(
        self, need: Need, flavors: tuple[str, ...], flavor: str, avoid: Collection[int] = ()
    ) -> Iterator[tuple[int, int | None]]:
        """(node, what the device has left that a fraction should go on) of one of the flavors, best first."""
        if (need, flavors) not in self._kept and not self._may_hold(need, flavor):
            return
        ranking = self._ranking(need, flavors)
        scores, form = ranking.scores, ranking.form
        number = flavors.index(flavor)
        passed = False
        while len(scores):
            best = int(scores.argmax())
            if scores.item(best) == NO_PLACE:
                return
            if form.numbers[best] != number:
                scores = np.where(form.flavors == number, scores, NO_PLACE)
                passed = True
                continue
            node = form.nodes[best]
            if node not in avoid:
                yield node, self._scores(need).device(need, form.rows.item(best))
            if not passed:
                scores, passed = scores.copy(), True
            scores[best] = NO_PLACE


_Forms: TypeAlias = dict[tuple[Need, tuple[str, ...]], _Form]


def node_choice(board: Board, policy: Policy, prices: PriceList) -> NodeChoice | None:
    """None where the policy takes the first node that fits."""
    return None if policy.nodes is NodeOrder.FIRST_FIT else NodeChoice(board, policy.nodes, prices)
