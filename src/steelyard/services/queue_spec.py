"""What queues, cohorts and the installation may declare of how work is queued, read and written back.

A block (`preemption`, `flavorFungibility`) may name some of its fields only: the others are as the cohort
above says, field by field. `services.scheduling_rules` lays them over each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from steelyard.model.policy import Precedence, Preference, QueueingStrategy, Reclaim, ResourceGroup, Search
from steelyard.model.resources import DeviceClass
from steelyard.model.units import DAY, MILLISECOND
from steelyard.services.reading import DocumentReader, E, given, write_amount

SpecBody = dict[str, Any]
MAX_PRIORITY = 1_000_000_000
MAX_GROUPS = 16
MAX_GROUP_FLAVORS = 64
MAX_RESERVATIONS = 64
MAX_EVICTIONS = 1_000_000
MAX_WEIGHT = 1_000_000  # a thousand times the usual one
LONGEST = 366 * DAY
_MOST_SECONDS_IN_MS = 1_000_000
_THOUSANDTHS = DeviceClass.OTHER.value


class WithinQueue(StrEnum):
    """Whom a queue's work may stop in the queue itself."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


@dataclass(frozen=True, slots=True)
class PreemptionSpec:
    """`model.policy.PreemptionRule`, of which some fields may be None: as above."""

    within_queue: WithinQueue | None = None
    reclaim: Reclaim | None = None
    threshold: int | None = None  # while it borrows: priorities up to this may be evicted
    min_runtime: int | None = None
    delay: int | None = None
    per_hour: int | None = None

    def to_spec(self) -> SpecBody:
        """The document's block."""
        return given(
            withinQueue=_word(self.within_queue),
            reclaimWithinCohort=_word(self.reclaim),
            borrowWithinCohort=given(maxPriorityThreshold=self.threshold),
            minRuntime=span_text(self.min_runtime),
            delay=span_text(self.delay),
            maxEvictionsPerHour=self.per_hour,
        )


@dataclass(frozen=True, slots=True)
class FungibilitySpec:
    """`model.policy.FlavorFungibility`, of which some fields may be None: as above."""

    when_can_borrow: Search | None = None
    when_can_preempt: Search | None = None
    preference: Preference | None = None

    def to_spec(self) -> SpecBody:
        """The document's block."""
        return given(
            whenCanBorrow=_word(self.when_can_borrow),
            whenCanPreempt=_word(self.when_can_preempt),
            preference=_word(self.preference),
        )


@dataclass(frozen=True, slots=True)
class RulesSpec:
    """What is declared; None, or empty: as above."""

    strategy: QueueingStrategy | None = None
    fungibility: FungibilitySpec = FungibilitySpec()
    preemption: PreemptionSpec = PreemptionSpec()
    groups: tuple[ResourceGroup, ...] = ()
    reservations: int | None = None
    starvation_bound: int | None = None  # µs
    weight: int | None = None  # thousandths
    owner: str | None = None
    precedence: Precedence | None = None

    def to_spec(self) -> SpecBody:
        """The fields of the document's spec."""
        return given(
            owner=self.owner,
            strategy=_word(self.strategy),
            precedence=_word(self.precedence),
            weight=weight_text(self.weight),
            flavorFungibility=self.fungibility.to_spec(),
            preemption=self.preemption.to_spec(),
            resourceGroups=[
                {"coveredClasses": list(group.classes), "flavors": list(group.flavors)}
                for group in self.groups
            ],
            reservations=self.reservations,
            starvationBound=span_text(self.starvation_bound),
        )


NOTHING_DECLARED = RulesSpec()


def read_rules(reader: DocumentReader) -> RulesSpec:
    """The rules of a queue or cohort."""
    found = read_defaults(reader)
    return RulesSpec(
        found.strategy, found.fungibility, found.preemption, _groups(reader), found.reservations,
        found.starvation_bound, read_weight(reader), found.owner, found.precedence,
    )  # fmt: skip


def read_defaults(reader: DocumentReader) -> RulesSpec:
    """The rules that may hold for a whole installation: without what belongs to one node."""
    return RulesSpec(
        strategy=_choice(reader, "strategy", QueueingStrategy),
        fungibility=_fungibility(reader.reader("flavorFungibility")),
        preemption=_preemption(reader.reader("preemption")),
        reservations=_whole(reader, "reservations", 0, MAX_RESERVATIONS),
        starvation_bound=reader.span("starvationBound", None, longest=LONGEST),
        owner=reader.optional_text("owner"),
        precedence=_choice(reader, "precedence", Precedence),
    )


def read_weight(reader: DocumentReader) -> int | None:
    """`weight`, in thousandths; None where it is not given."""
    weight = reader.optional_amount("weight", _THOUSANDTHS)
    if weight is not None and weight > MAX_WEIGHT:
        reader.wrong("field-out-of-bounds", reader.at("weight"), low=0, high=MAX_WEIGHT // 1000)
    return weight


def weight_text(weight: int | None) -> int | str | None:
    """As `read_weight` reads it."""
    return None if weight is None else write_amount(_THOUSANDTHS, weight)


def span_text(micros: int | None) -> str | None:
    """A duration as it is read back: in milliseconds, of which nine digits are read, or with seconds."""
    if micros is None:
        return None
    seconds, rest = divmod(micros // MILLISECOND, 1000)
    if seconds < _MOST_SECONDS_IN_MS:
        return f"{micros // MILLISECOND}ms"
    return f"{seconds}s{rest}ms" if rest else f"{seconds}s"


def read_span(reader: DocumentReader, key: str) -> int | None:
    """A duration in µs that may be 0; None where it is not given."""
    if not reader.has(key):
        return None
    found = reader.attempt(0, partial(reader.duration, key, 0))
    if found > LONGEST:
        reader.wrong("span-out-of-bounds", reader.at(key), low=0, high=LONGEST)
    return found


def _fungibility(reader: DocumentReader) -> FungibilitySpec:
    found = FungibilitySpec(
        _choice(reader, "whenCanBorrow", Search),
        _choice(reader, "whenCanPreempt", Search),
        _choice(reader, "preference", Preference),
    )
    reader.finish()
    return found


def _preemption(reader: DocumentReader) -> PreemptionSpec:
    within, reclaim = (
        _choice(reader, "withinQueue", WithinQueue),
        _choice(reader, "reclaimWithinCohort", Reclaim),
    )
    borrow = reader.reader("borrowWithinCohort")
    threshold = _whole(borrow, "maxPriorityThreshold", -MAX_PRIORITY, MAX_PRIORITY)
    borrow.finish()
    found = PreemptionSpec(
        within, reclaim, threshold, read_span(reader, "minRuntime"), read_span(reader, "delay"),
        _whole(reader, "maxEvictionsPerHour", 0, MAX_EVICTIONS),
    )  # fmt: skip
    reader.finish()
    return found


def _groups(reader: DocumentReader) -> tuple[ResourceGroup, ...]:
    """A class and a flavor stand in one group of a queue only: what moves together is one walk."""
    found: list[ResourceGroup] = []
    known_classes: set[str] = set()
    known_flavors: set[str] = set()
    for inner in reader.readers("resourceGroups", MAX_GROUPS):
        classes = inner.names("coveredClasses", len(DeviceClass))
        for index, name in enumerate(classes):
            if name not in {item.value for item in DeviceClass}:
                expected = " | ".join(item.value for item in DeviceClass)
                inner.wrong("field-invalid", f"{inner.at('coveredClasses')}[{index}]", expected=expected)
        flavors = inner.names("flavors", MAX_GROUP_FLAVORS)
        for key, given_here, known in (
            ("coveredClasses", classes, known_classes), ("flavors", flavors, known_flavors)
        ):  # fmt: skip
            if not given_here and not inner.is_wrong(key):
                inner.wrong("field-missing", inner.at(key))
            if known & set(given_here):
                inner.wrong("field-invalid", inner.at(key), expected="entries of no other group")
            known.update(given_here)
        inner.finish()
        found.append(ResourceGroup(classes, flavors))
    return tuple(found)


def _choice(reader: DocumentReader, key: str, kind: type[E]) -> E | None:
    return reader.choice(key, kind) if reader.has(key) else None


def _whole(reader: DocumentReader, key: str, low: int, high: int) -> int | None:
    return reader.integer(key, None, low=low, high=high) if reader.has(key) else None


def _word(word: StrEnum | None) -> str | None:
    return None if word is None else word.value
