"""What `decide` answers: placements, evictions, holds, and why the rest waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import StrEnum

from msgspec import Struct

from steelyard.model.reasons import Reason
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.model_choice import ModelChoice
from steelyard.scheduling.views import Charge, HoldView

#: Rules by which something running is stopped for something else.
WITHIN_QUEUE, GUARANTEE = "within-queue", "guarantee"
RECLAIM, BORROWING, FAIR_SHARE = "reclaim", "reclaim-while-borrowing", "fair-share"
#: Rule by which something is stopped for nobody: a limit was lowered below what is used.
LOWERED = "limit-lowered"


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
    TAKEN_OVER = "taken-over"  # by an attempt of a higher priority, or one that owns what was borrowed


class Placement(Struct, frozen=True):
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
class Growth:
    """A running gang gets members; they are numbered after those that it has."""

    workload_id: int
    attempt_id: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    quota_basis: QuotaBasis = QuotaBasis.UNLIMITED
    lender: str | None = None


@dataclass(frozen=True, slots=True)
class ComparedShares:
    """By which numbers a fair share decided, in millionths of what the common ancestor can have, at weight 1:
    the preemptor's side with it, the victim's side without any of the victims, and with this one back."""

    side: str
    victim_side: str
    preemptor: int
    without: int
    with_it: int


@dataclass(frozen=True, slots=True)
class PassedLimit:
    """A limit that is passed: what the node may use of the subject at most, and what it uses."""

    tree: str
    node: str
    subject: str
    limit: int
    used: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """A member that leaves an attempt which goes on, and what it is charged for."""

    member_id: int
    role: str
    index: int
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running attempt is asked to stop for another one, whose hold is in the same decisions; with `members`
    only these of it, and it goes on with the others. By the rule `limit-lowered` it stops for nobody: there
    is no preemptor, `preemptor_queue` is the node whose limit is passed, and `limit` says by how much."""

    workload_id: int
    attempt_id: int
    queue: str
    priority: int
    preemptor_workload_id: int | None
    preemptor_attempt_id: int | None
    preemptor_priority: int | None
    rule: str = WITHIN_QUEUE
    preemptor_queue: str = ""
    shares: ComparedShares | None = None
    members: tuple[Leaving, ...] = ()  # by role, the highest index first; empty: all of it
    limit: PassedLimit | None = None


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


class Reservation(Struct, frozen=True):
    """A waiting attempt's place on the timeline: it starts there at `starts_at` (µs) at the latest, as long
    as nothing of a higher rank comes and everything ends as bounded."""

    workload_id: int
    attempt_id: int
    shape_key: str
    queue: str
    project: str
    starts_at: int
    ends_at: int | None  # None: nobody knows
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]

    def runs_at(self, instant: int) -> bool:
        """True when it would hold its places then."""
        return self.starts_at <= instant and (self.ends_at is None or instant < self.ends_at)


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
    evicted: int = 0  # milli-devices (else milli-cores) of the preemptors' own classes that victims give up …
    requested: int = 0  # … and that the attempts ask for whose holds have victims


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
    reservations: tuple[Reservation, ...] = ()  # places on the timeline, in the order of the queue
    choices: tuple[ModelChoice, ...] = ()  # of placements whose speed on each model counted
    growths: tuple[Growth, ...] = ()  # of gangs that run

    @property
    def changes_state(self) -> bool:
        """True when there is more in it than reasons."""
        moved = self.placements or self.evictions or self.holds or self.dropped_holds or self.refusals
        return bool(moved or self.growths)

    def digest_input(self) -> object:
        """Lists, integers, strings, booleans and None in a fixed order, to compare two runs."""
        names = ("choices",) if self.choices else ()
        return [
            [name, canonical(getattr(self, name))]
            for name in ("now", "policy_version", "placements", "evictions", "holds", "dropped_holds",
                         "refusals", "reasons", "workload_reasons", "looked", "stats", "reservations",
                         "growths", *names)
        ]


def canonical(value: object) -> object:
    """Plain lists and scalars; a mapping becomes a list of pairs sorted by key, an enum its value."""
    if isinstance(value, Struct):
        return canonical({name: getattr(value, name) for name in value.__struct_fields__})
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
