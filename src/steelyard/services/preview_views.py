"""Two runs of a window side by side: starts, waits, evictions, gangs that gave up members, refusals, and what
is above limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from steelyard.model.ids import render
from steelyard.model.reasons import Reason
from steelyard.model.units import SECOND
from steelyard.scheduling import Snapshot
from steelyard.scheduling.decisions import Eviction
from steelyard.scheduling.forward import Foreseen
from steelyard.services.lowering import fewer_view, limit_view
from steelyard.services.reasons import reason_view
from steelyard.store.scoped import Record

Json = dict[str, Any]
MAX_SHOWN = 200


class Window(Protocol):
    """What is shown of a window."""

    since: int
    until: int
    cycles: list[Record]
    rows: dict[int, Record]
    lengths: dict[int, int | None]
    follows_capacity: bool

    def recorded_starts(self) -> dict[int, int]:
        """workload → when it was first placed in the window."""
        ...


class Ran(Protocol):
    """One run of a window."""

    @property
    def future(self) -> Foreseen:
        """What came of it."""
        ...

    @property
    def refused(self) -> Mapping[int, tuple[Reason, ...]]:
        """Who was turned away, by workload."""
        ...

    @property
    def begin(self) -> Snapshot:
        """The state at the begin, under its trees."""
        ...


def preview_view(window: Window, old: Ran, new: Ran) -> Json:
    """The whole comparison."""
    first, then = old.future.first, new.future.first
    shown = _Rows(window.rows, first, then)
    both = sorted(first.keys() & then.keys())
    return {
        "since": window.since,
        "until": window.until,
        "cycles": len(window.cycles),
        "workloads": len(window.rows),
        "old": _side(window, old),
        "new": _side(window, new),
        "earlier": shown.moved([n for n in both if then[n] < first[n]], key=lambda n: then[n] - first[n]),
        "later": shown.moved([n for n in both if then[n] > first[n]], key=lambda n: first[n] - then[n]),
        "no_longer": shown.moved(sorted(first.keys() - then.keys())),
        "only_new": shown.moved(sorted(then.keys() - first.keys())),
        "evictions": shown.evictions(new.future),
        "shrinks": shown.shrinks(new.future),
        "refusals": shown.refusals({n: r for n, r in new.refused.items() if n not in old.refused}),
        "over_quota": over_quota(new.begin),
        "reproduced": _reproduced(window, first),
        "assumptions": _assumptions(window),
        "complete": old.future.complete and new.future.complete,
    }


def _side(window: Window, run: Ran) -> Json:
    future = run.future
    waits = [at - max(window.since, window.rows[n]["submitted_at"]) for n, at in future.first.items()
             if n in window.rows]  # fmt: skip
    waiting = sum(group.count for group in future.after.pending) + len(future.after.holds)
    return {
        "starts": len(future.first),
        "waiting": waiting,
        "evictions": len(future.evictions),
        "shrinks": len(future.shrinks),
        "refused": len(run.refused),
        "mean_wait": sum(waits) // len(waits) if waits else None,
    }


class _Rows:
    def __init__(self, rows: Mapping[int, Record], first: Mapping[int, int], then: Mapping[int, int]) -> None:
        self.rows, self.first, self.then = rows, first, then

    def _named(self, number: int | None) -> Json:
        if number is None:
            return {"id": None, "name": None, "project": None}
        row = self.rows.get(number)
        return {
            "id": render("workload", number),
            "name": None if row is None else row["name"],
            "project": None if row is None else row["project"],
        }

    def moved(self, numbers: list[int], key: Any = None) -> Json:
        """The largest differences first."""
        ordered = numbers if key is None else sorted(numbers, key=lambda n: (key(n), n))
        items = [
            {**self._named(n), "old": self.first.get(n), "new": self.then.get(n)} for n in ordered[:MAX_SHOWN]
        ]
        return {"count": len(numbers), "items": items}

    def evictions(self, future: Foreseen) -> Json:
        """The first ones."""
        items = [self._stopped(at, eviction) for at, eviction in future.evictions[:MAX_SHOWN]]
        return {"count": len(future.evictions), "items": items}

    def shrinks(self, future: Foreseen) -> Json:
        """The first gangs that go on with fewer: who leaves, of how many, and with how many it goes on."""
        items = [
            {**self._stopped(at, eviction), **fewer_view(eviction.members, stay)}
            for at, eviction, stay in future.shrinks[:MAX_SHOWN]
        ]
        return {"count": len(future.shrinks), "items": items}

    def _stopped(self, at: int, eviction: Eviction) -> Json:
        return {
            **self._named(eviction.workload_id),
            "at": at,
            "for": self._named(eviction.preemptor_workload_id)["name"],
            "rule": eviction.rule,
            "limit": limit_view(eviction.limit),
        }

    def refusals(self, refused: Mapping[int, tuple[Reason, ...]]) -> Json:
        """With their reasons."""
        items = [
            {**self._named(n), "reasons": [reason_view(reason) for reason in refused[n]]}
            for n in sorted(refused)[:MAX_SHOWN]
        ]
        return {"count": len(refused), "items": items}


def over_quota(snapshot: Snapshot) -> list[Json]:
    """Nodes whose use is above what they may use at most, by tree, node and subject."""
    found = []
    for name, tree in sorted(snapshot.trees.items()):
        usage = snapshot.usage.get(name, {})
        for node, subject in sorted(tree.limits):
            ceiling = tree.terms(node, subject)[0].ceiling
            used = usage.get((node, subject), 0)
            if ceiling is not None and used > ceiling:
                found.append(
                    {"tree": name, "node": node, "subject": subject, "used": used, "limit": ceiling,
                     "over": used - ceiling}
                )  # fmt: skip
    return found


def _reproduced(window: Window, first: Mapping[int, int]) -> Json:
    recorded = window.recorded_starts()
    same = sum(abs(first[n] - at) < SECOND for n, at in recorded.items() if n in first)
    return {"starts": len(recorded), "same": same}


def _assumptions(window: Window) -> list[str]:
    found = ["run-times-recorded", "evicted-starts-anew", "waiting-keeps-route", "refused-not-tried"]
    if any(length is None for length in window.lengths.values()):
        found.insert(1, "no-end-runs-on")
    return [*found, "capacity-followed" if window.follows_capacity else "capacity-fixed"]
