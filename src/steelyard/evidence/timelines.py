"""Checks CK6 to CK9 (metering.md 5): stages that tile, counts that add up, ends for all beginnings, quotas.

Pure functions over plain rows. The quota arithmetic is passed in (`QuotaRules`): evidence decides nothing,
it replays what was decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from steelyard.evidence.findings import CheckResult, Row, Window, cut_times, holes
from steelyard.model.lifecycle import HOLDING_PHASES, STAGE_TIMES, Outcome, Phase

Key: TypeAlias = tuple[str, str]  # (node, subject)
Piece = TypeVar("Piece")


class _Charge(NamedTuple):
    """A row of what was charged, small: there are many."""

    key: Key
    quantity: int
    t0: int
    t1: int | None
    version: int


def check_tiling(
    attempts: Iterable[Row], waits: Iterable[Row], holding: Iterable[Row], until: int
) -> CheckResult:
    """CK6: waits tile submitted → placed, metering states tile placed → release confirmed (or `until`).

    `attempts` have their stage times by name. Of those that still wait, the waits noted so far must begin
    at the submit and have no gap.
    """
    result = CheckResult("CK6")
    waited = _by_attempt((row["attempt_id"], (row["t0"], row["t1"])) for row in waits)
    held = _by_attempt((row["attempt_id"], (row["t0"], row["t1"], row["state"])) for row in holding)
    for attempt in attempts:
        result.checked += 1
        _check_order(result, attempt)
        slices = waited.get(attempt["id"], [])
        placed, confirmed = attempt["placed"], attempt["release_confirmed"]
        end = placed if placed is not None else confirmed
        if end is None:
            end = max((t1 for _, t1 in slices), default=attempt["submitted"])
        for code, t0, t1 in holes(slices, (attempt["submitted"], end)):
            result.add(f"wait-{code}", "attempt", attempt["id"], (t0, t1))
        if placed is not None:
            last = until if confirmed is None else confirmed
            _check_states(result, attempt["id"], held.get(attempt["id"], ()), (placed, max(placed, last)))
    return result


def _by_attempt(pairs: Iterable[tuple[int, Piece]]) -> dict[int, list[Piece]]:
    """Little of each row is kept: there are many."""
    groups: dict[int, list[Piece]] = {}
    for attempt_id, piece in pairs:
        groups.setdefault(attempt_id, []).append(piece)
    return groups


def _check_order(result: CheckResult, attempt: Row) -> None:
    before, at = "submitted", attempt["submitted"]
    for name in STAGE_TIMES[1:]:
        time = attempt.get(name)
        if time is None or name in ("ready", "stopping"):
            continue
        if time < at:
            result.add("stage-backwards", "attempt", attempt["id"], (time, at), stage=name, after=before)
        before, at = name, time


def _check_states(
    result: CheckResult, attempt_id: int, rows: Sequence[tuple[int, int, str]], whole: Window
) -> None:
    """All allocations of an attempt are in one state at a time; one that ended early may be missing."""
    tiles = sorted(set(rows))
    at, state = whole[0], ""
    for t0, t1, name in tiles:
        if t0 > at:
            result.add("state-gap", "attempt", attempt_id, (at, t0))
        elif t0 < at and name != state:
            result.add("state-overlap", "attempt", attempt_id, (t0, min(at, t1)))
        if t1 > at:
            at, state = t1, name
    if at < whole[1]:
        result.add("state-gap", "attempt", attempt_id, (at, whole[1]))
    elif at > whole[1]:
        result.add("state-overlap", "attempt", attempt_id, (whole[1], at))


@dataclass(frozen=True, slots=True)
class Counts:
    """Workloads by phase and by outcome; requests by the log (`submitted`: taken and refused)."""

    submitted: int
    refused: int
    phases: Mapping[str, int]
    outcomes: Mapping[str, int]

    @property
    def live(self) -> int:
        """Neither held, queued nor finished."""
        waiting = (Phase.HELD, Phase.QUEUED, Phase.FINISHED)
        return sum(count for phase, count in self.phases.items() if phase not in waiting)


def check_counts(counts: Counts) -> CheckResult:
    """CK7: submitted = refused + held + queued + live + finished, and finished is the sum of its outcomes."""
    result = CheckResult("CK7", checked=counts.submitted)
    phases, known = counts.phases, frozenset(phase.value for phase in Phase)
    finished = phases.get(Phase.FINISHED, 0)
    total = counts.refused + phases.get(Phase.HELD, 0) + phases.get(Phase.QUEUED, 0) + counts.live + finished
    if counts.submitted != total:
        result.add("count-differs", "workload", None, expected=str(counts.submitted), counted=str(total))
    if finished != sum(counts.outcomes.values()):
        counted = str(sum(counts.outcomes.values()))
        result.add("count-differs", "outcome", None, expected=str(finished), counted=counted)
    for name in sorted(set(phases) - known):
        result.add("phase-unknown", "workload", name)
    for name in sorted(set(counts.outcomes) - {outcome.value for outcome in Outcome}):
        result.add("outcome-unknown", "workload", name)
    return result


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of each cluster: `observed` µs of the last observation, `blind` where the log says that
    it sees nothing now."""

    now: int
    bound: int
    observed: Mapping[str, int]
    blind: frozenset[str] = frozenset()


def check_ends(
    allocations: Iterable[Row], attempts: Iterable[Row], holding: Iterable[Row], sight: Sight
) -> CheckResult:
    """CK8: every open has a close or a live observation; every close has an open; none runs away."""
    result = CheckResult("CK8")
    phases = {attempt["id"]: attempt["phase"] for attempt in attempts}
    segments: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in holding:
        segments[row["allocation_id"]].append((row["t0"], row["t1"]))
    open_attempts: set[int] = set()
    for row in allocations:
        result.checked += 1
        own = segments.pop(row["id"], [])
        if row["t1"] is None:
            open_attempts.add(row["attempt_id"])
            _check_open(result, row, phases.get(row["attempt_id"]), sight)
            whole = (row["t0"], max(row["t0"], sight.now))
        else:
            whole = (row["t0"], row["t1"])
            if row["t1"] < row["t0"]:
                result.add("ends-before-it-begins", "allocation", row["id"], (row["t1"], row["t0"]))
                continue
        for code, t0, t1 in holes(own, whole):
            result.add(f"holding-{code}", "allocation", row["id"], (t0, t1))
    for allocation_id in sorted(segments):
        result.add("close-without-open", "allocation", allocation_id, min(segments[allocation_id]))
    for attempt_id, phase in phases.items():
        if phase in HOLDING_PHASES and attempt_id not in open_attempts:
            result.add("missed-start", "attempt", attempt_id)
    return result


def _check_open(result: CheckResult, row: Row, phase: str | None, sight: Sight) -> None:
    span = (row["t0"], sight.now)
    if phase is None or phase not in HOLDING_PHASES:
        result.add("runaway", "allocation", row["id"], span, phase=phase)
        return
    seen = sight.observed.get(row["cluster"])
    if row["cluster"] not in sight.blind and (seen is None or sight.now - seen > sight.bound):
        result.add("not-observed", "allocation", row["id"], span, cluster=row["cluster"])


class QuotaRules(Protocol):
    """The limits of one tree during some time."""

    def ceiling(self, node: str, subject: str) -> int | None:
        """The most that may stand as the node's usage: what it owns and may borrow. None: no bound."""

    def charge(
        self, usage: Mapping[Key, int], node: str, subject: str, quantity: int
    ) -> Iterable[tuple[str, str, int]]:
        """(node, subject, delta) on the path when `quantity` more (or less) is charged to `node`."""

    def exchange(
        self, usage: Mapping[Key, int], subject: str, cohorts: Iterable[str]
    ) -> Iterable[tuple[str, int, int]]:
        """(cohort, borrowed by its children, lent by its other children, itself and from above)."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A tree whose limits and nodes stay the same during `[t0, t1)`; `version` is that of the policy."""

    tree: str
    t0: int
    t1: int
    rules: QuotaRules
    version: int = 0


def check_quota(
    charges: Iterable[Row],
    epochs: Iterable[Epoch],
    recorded: Mapping[tuple[str, str, str], int] | None = None,
    kept: Iterable[Row] = (),
) -> CheckResult:
    """CK9: used ≤ nominal + borrowed at each instant, Σ borrowed = Σ lent, and the counters tell the same.

    `charges`: `tree, node, subject, quantity, t0, t1` (null: still charged), `version` of the policy that
    placed it. A node that a changed limit left above its ceiling is over-admitted, which is allowed until
    a placement under the new policy charges more to it.
    `recorded` are the usage counters at the end of the last epochs; they hold what is `kept` for places whose
    victims still stop, too. Of a tree that was given up before there are none.
    """
    result = CheckResult("CK9")
    by_tree: dict[str, list[_Charge]] = defaultdict(list)
    waiting, keys = list(kept), dict[Key, Key]()
    for row in charges:
        key = keys.setdefault((row["node"], row["subject"]), (row["node"], row["subject"]))
        charged = _Charge(key, row["quantity"], row["t0"], row["t1"], row["version"])
        by_tree[row["tree"]].append(charged)
        result.checked += 1
    trees: dict[str, list[Epoch]] = defaultdict(list)
    for epoch in sorted(epochs, key=lambda item: item.t0):
        trees[epoch.tree].append(epoch)
    end = max((epoch.t1 for found in trees.values() for epoch in found), default=0)
    for tree in sorted(trees):
        replay = _Replay(result, tree)
        for epoch in trees[tree]:
            replay.run(epoch, by_tree[tree])
        if recorded is not None and trees[tree][-1].t1 == end:
            replay.keep(trees[tree][-1], [row for row in waiting if row["tree"] == tree])
            replay.compare({key[1:]: used for key, used in recorded.items() if key[0] == tree})
    return result


class _Replay:
    """Usage of one tree, made anew from its charges."""

    def __init__(self, result: CheckResult, tree: str) -> None:
        self.result = result
        self.tree = tree
        self.usage: dict[Key, int] = {}
        self.admitted: set[Key] = set()  # above the ceiling since a limit changed

    def run(self, epoch: Epoch, charges: Sequence[_Charge]) -> None:
        window = (epoch.t0, epoch.t1)
        changes: dict[int, dict[Key, int]] = defaultdict(lambda: defaultdict(int))
        standing: dict[Key, int] = defaultdict(int)
        informed: dict[int, bool] = defaultdict(bool)  # instants at which the epoch's policy placed something
        for row in charges:
            span = cut_times(row.t0, row.t1, window)
            if span is None:
                continue
            if row.t0 < epoch.t0:
                standing[row.key] += row.quantity
            else:
                changes[span[0]][row.key] += row.quantity
                informed[span[0]] |= row.version >= epoch.version
            if row.t1 is not None and row.t1 < epoch.t1:
                changes[row.t1][row.key] -= row.quantity
        self.usage = {}
        self._apply(epoch, standing)
        self.admitted = {key for key in self.usage if self._over(epoch, key)}
        instants = sorted(changes)
        for index, at in enumerate(instants):
            following = instants[index + 1] if index + 1 < len(instants) else epoch.t1
            touched = self._apply(epoch, changes[at])
            if not informed[at]:
                self.admitted |= {key for key in touched if self._over(epoch, key)}
            self._check(epoch, touched, (at, following), informed[at])

    def _apply(self, epoch: Epoch, changes: Mapping[Key, int]) -> dict[Key, int]:
        """Charge; the sum of what each node on the way got."""
        touched: dict[Key, int] = defaultdict(int)
        for (node, subject), quantity in sorted(changes.items()):
            for name, what, delta in epoch.rules.charge(self.usage, node, subject, quantity):
                self.usage[name, what] = self.usage.get((name, what), 0) + delta
                touched[name, what] += delta
        return touched

    def _over(self, epoch: Epoch, key: Key) -> int:
        ceiling = epoch.rules.ceiling(*key)
        return 0 if ceiling is None else max(0, self.usage[key] - ceiling)

    def _check(self, epoch: Epoch, touched: Mapping[Key, int], span: Window, informed: bool) -> None:
        for key, delta in touched.items():
            over = self._over(epoch, key)
            if not over:
                self.admitted.discard(key)
            elif (delta > 0 and informed) or key not in self.admitted:
                self._add("over-limit", key, span, over=str(over))
            if self.usage[key] < 0:
                self._add("usage-negative", key, span, used=str(self.usage[key]))
        for subject in {subject for _, subject in touched}:
            nodes = [node for node, what in touched if what == subject]
            for cohort, borrowed, lent in epoch.rules.exchange(self.usage, subject, nodes):
                if borrowed != lent:
                    self._add("lent-differs", (cohort, subject), span, borrowed=str(borrowed), lent=str(lent))

    def _add(self, code: str, key: Key, span: Window | None, **more: Any) -> None:
        self.result.add(code, self.tree, key[0], span, subject=key[1], **more)

    def keep(self, epoch: Epoch, kept: Sequence[Row]) -> None:
        for row in kept:
            self._apply(epoch, {(row["node"], row["subject"]): row["quantity"]})

    def compare(self, recorded: Mapping[Key, int]) -> None:
        for key in sorted({*self.usage, *recorded}):
            replayed, counter = self.usage.get(key, 0), recorded.get(key, 0)
            if replayed != counter:
                self._add("counter-differs", key, None, replayed=str(replayed), counter=str(counter))
