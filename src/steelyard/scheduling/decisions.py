"""What `decide` answers: placements, evictions, holds, and why the rest waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import StrEnum

from steelyard.model.reasons import Reason
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.views import Charge, HoldView

#: Rules by which something running is stopped for something else.
WITHIN_QUEUE, GUARANTEE = "within-queue", "guarantee"


class QuotaBasis(StrEnum):
    """On whose quota a placement rests."""

    NOMINAL = "nominal"
    BORROWED = "borrowed"
    UNLIMITED = "unlimited"


class DropCause(StrEnum):
    """Why a hold ends without its placement."""

    VANISHED = "vanished"  # the attempt left
    REVISED = "revised"  # its place can't come free any more
    EXPIRED = "expired"  # the phase's timer


@dataclass(frozen=True, slots=True)
class Placement:
    """An attempt starts. With `from_hold` its charges are counted already."""

    workload_id: int
    attempt_id: int
    shape_key: str
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    from_hold: bool = False
    quota_basis: QuotaBasis = QuotaBasis.UNLIMITED
    lender: str | None = None  # the node of the queue tree it borrows from


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running attempt is asked to stop for another one, whose hold is in the same decisions."""

    workload_id: int
    attempt_id: int
    queue: str
    priority: int
    preemptor_workload_id: int
    preemptor_attempt_id: int
    preemptor_priority: int
    rule: str = WITHIN_QUEUE


@dataclass(frozen=True, slots=True)
class DroppedHold:
    """A hold that ends: its charges are released, before anything else of the same decisions.

    The attempt goes back to `queued` where `cause` is not vanished, unless the same decisions place
    it or hold another place for it.
    """

    workload_id: int
    attempt_id: int
    cause: DropCause
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A waiting attempt that is turned away for good."""

    workload_id: int
    attempt_id: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class ShapeReasons:
    """Why nothing of a shape starts now, the binding reason first."""

    reasons: tuple[Reason, ...]
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the work done; nothing here depends on the machine's clock."""

    tried: int = 0  # attempts looked at
    nodes: int = 0  # node looks
    explained: int = 0  # shapes whose reasons were made
    unexplained: int = 0  # blocked shapes left for a later cycle
    preemptions_tried: int = 0
    more: bool = False  # a bound was met, so call again without waiting for an event
    next_at: int | None = None  # earliest instant at which a waiting attempt becomes eligible


@dataclass(frozen=True, slots=True)
class Decisions:
    """The whole answer. To be applied in this order: dropped holds, placements, holds, evictions.

    `reasons` holds only the shapes that were explained in this cycle; what was said of the others
    still stands. `workload_reasons` hold what differs from the shape: back-off, a hold that waits.
    """

    now: int
    policy_version: int
    placements: tuple[Placement, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    holds: tuple[HoldView, ...] = ()  # new ones
    dropped_holds: tuple[DroppedHold, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    reasons: Mapping[str, ShapeReasons] = field(default_factory=dict)  # by shape key
    workload_reasons: Mapping[int, tuple[Reason, ...]] = field(default_factory=dict)  # by workload id
    looked: tuple[str, ...] = ()  # shapes explained in this cycle: their `last_looked` is now
    stats: Stats = Stats()

    @property
    def changes_state(self) -> bool:
        """True when there is more in it than reasons."""
        return bool(self.placements or self.evictions or self.holds or self.dropped_holds or self.refusals)

    def digest_input(self) -> object:
        """Lists, integers, strings, booleans and None in a fixed order, to compare two runs."""
        return [
            [name, canonical(getattr(self, name))]
            for name in ("now", "policy_version", "placements", "evictions", "holds", "dropped_holds",
                         "refusals", "reasons", "workload_reasons", "looked", "stats")
        ]


def canonical(value: object) -> object:
    """Plain lists and scalars; a mapping becomes a list of pairs sorted by key, an enum its value."""
    if is_dataclass(value) and not isinstance(value, type):
        return canonical({name: getattr(value, name) for name in value.__dataclass_fields__})
    if isinstance(value, Mapping):
        return [[canonical(key), canonical(value[key])] for key in sorted(value)]
    if isinstance(value, frozenset | set):
        return [canonical(item) for item in sorted(value)]
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, StrEnum):
        return value.value
    return value
