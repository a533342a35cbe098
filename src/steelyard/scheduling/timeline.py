"""Until when what runs may run: the instants at which places become free at the latest.

An attempt's bound is what the snapshot says of it (`timeline`), else the end of its own time limit; one that
is asked to stop, or is over its bound, may end at any moment. What has no bound never ends, as far as anybody
knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.snapshot import Snapshot, limited
from steelyard.scheduling.views import Charge, RunningView


@dataclass(frozen=True, slots=True)
class Release:
    """Places and charges that are given back at an instant (µs) at the latest."""

    at: int
    attempt_id: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    run: RunningView | None = None  # None: it is not among what the snapshot has running


def latest_end(snapshot: Snapshot, run: RunningView, now: int) -> int | None:
    """When a running attempt has ended at the latest; None where nobody knows."""
    if run.stopping:
        return now
    bound = snapshot.timeline.get(run.attempt_id, run.ends_by)
    return None if bound is None else max(bound, now)


def end_if_started(shape: Shape, start: int) -> int | None:
    """When an attempt of a shape has ended at the latest if it starts at an instant; None: nobody knows."""
    return limited(start, shape.time_limit)


def releases(snapshot: Snapshot, now: int) -> list[Release]:
    """What ends for certain, in the order in which it does."""
    dated = ((latest_end(snapshot, run, now), run) for run in snapshot.running.values())
    found = [
        Release(at, run.attempt_id, run.members, run.charges, run) for at, run in dated if at is not None
    ]
    found.sort(key=lambda release: (release.at, release.attempt_id))
    return found
