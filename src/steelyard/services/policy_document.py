"""How limits, queues, cohorts, quotas, priority classes and the routing are read from their documents."""

from __future__ import annotations

from steelyard.model.errors import InvalidError
from steelyard.model.policy import FLAVOR_PREFIX, Measure, OnExceed, OnLowered
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import HOUR
from steelyard.model.workloads import WorkloadKind
from steelyard.services.kinds import (
    EVERYBODY,
    USER_LEVEL,
    CohortSpec,
    HardLimitSpec,
    LimitSpec,
    LoweringSpec,
    PriorityClassSpec,
    QueueSpec,
    QuotaSpec,
    RouteSpec,
    RoutingSpec,
    amount_unit,
)
from steelyard.services.queue_spec import MAX_PRIORITY, read_rules, read_span
from steelyard.services.reading import DocumentReader, check_name

MAX_LIMITS = 64
DRAIN_FOR = HOUR
MAX_ROUTES = 1000


def _subject(reader: DocumentReader) -> str:
    if reader.has("class") == reader.has("flavor"):
        raise InvalidError("field-invalid", path=reader.path, expected="class | flavor")
    if reader.has("class"):
        return reader.choice("class", DeviceClass).value
    return FLAVOR_PREFIX + reader.name("flavor")


def _quota_subject(reader: DocumentReader) -> str:
    """A class, a flavor, or a measure of an accelerator's class."""
    subject = _subject(reader)
    if not reader.has("measure"):
        return subject
    if subject not in {cls.value for cls in ACCELERATORS}:
        expected = " | ".join(cls.value for cls in ACCELERATORS)
        reader.wrong("field-invalid", reader.at("class"), expected=expected)
    return f"{subject}/{reader.choice('measure', Measure).value}"


def _lowering(reader: DocumentReader) -> LoweringSpec:
    """`onLowered`, and with `Drain` the time that what is above has: an hour where it is not given."""
    effect = reader.choice("onLowered", OnLowered) if reader.has("onLowered") else None
    drain_for = read_span(reader, "drainFor")
    if drain_for is not None and effect is not OnLowered.DRAIN:
        reader.wrong("field-invalid", reader.at("onLowered"), expected=OnLowered.DRAIN.value)
    if effect is not OnLowered.DRAIN:
        return LoweringSpec(effect)
    return LoweringSpec(effect, DRAIN_FOR if drain_for is None else drain_for)


def _limits(reader: DocumentReader) -> tuple[LimitSpec, ...]:
    found = []
    for inner in reader.readers("limits", MAX_LIMITS):
        subject = _subject(inner)
        unit = amount_unit(subject)
        limit = LimitSpec(
            subject,
            inner.amount("nominal", unit),
            inner.optional_amount("borrowingLimit", unit),
            inner.optional_amount("lendingLimit", unit),
            inner.choice("onExceed", OnExceed, OnExceed.WAIT),
            _lowering(inner),
        )
        inner.finish()
        found.append(limit)
    _unique_subjects(reader, [limit.subject for limit in found])
    return tuple(found)


def _unique_subjects(reader: DocumentReader, subjects: list[str]) -> None:
    if len(set(subjects)) != len(subjects):
        reader.wrong("field-invalid", reader.at("limits"), expected="entries without doubles")


def read_cohort(reader: DocumentReader) -> CohortSpec:
    """Parses the spec."""
    return CohortSpec(reader.optional_name("parent"), _limits(reader), read_rules(reader))


def read_queue(reader: DocumentReader) -> QueueSpec:
    """Parses the spec."""
    return QueueSpec(
        reader.optional_name("cohort"), reader.flag("stopped"), _limits(reader), read_rules(reader)
    )


def read_quota(reader: DocumentReader) -> QuotaSpec:
    """Parses the spec."""
    level, target, project = _whose(reader)
    limits = []
    for inner in reader.readers("limits", MAX_LIMITS):
        subject = _quota_subject(inner)
        limits.append(
            HardLimitSpec(
                subject,
                inner.amount("hard", amount_unit(subject)),
                inner.choice("onExceed", OnExceed, OnExceed.WAIT),
                inner.flag("overCommit") if level != USER_LEVEL else False,
                _lowering(inner),
            )
        )
        inner.finish()
    if not limits:
        raise InvalidError("field-missing", path=reader.at("limits"))
    _unique_subjects(reader, [limit.subject for limit in limits])
    return QuotaSpec(level, target, tuple(limits), project)


def _whose(reader: DocumentReader) -> tuple[str, str, str | None]:
    """(level, name, project of a user's)."""
    if reader.has(USER_LEVEL):
        project = reader.optional_name("project")
        user = reader.text(USER_LEVEL)
        return USER_LEVEL, user if user == EVERYBODY else check_name(user, reader.at(USER_LEVEL)), project
    levels = [level for level in ("team", "project", "namespace") if reader.has(level)]
    if len(levels) != 1:
        raise InvalidError(
            "field-invalid", path=reader.path, expected="team | project | namespace | user"
        )
    return levels[0], reader.name(levels[0]), None


def read_priority_class(reader: DocumentReader) -> PriorityClassSpec:
    """Parses the spec."""
    value = reader.integer("value", None, low=-MAX_PRIORITY, high=MAX_PRIORITY)
    ageing = read_span(reader, "ageing") or 0
    ages_to = reader.optional_name("agesTo")
    if ages_to is not None and not ageing:
        reader.wrong("field-missing", reader.at("ageing"))
    return PriorityClassSpec(value, ageing, ages_to)


def read_routing(reader: DocumentReader) -> RoutingSpec:
    """Parses the spec."""
    routes = []
    for inner in reader.readers("routes", MAX_ROUTES):
        kind = inner.choice("kind", WorkloadKind) if inner.has("kind") else None
        route = RouteSpec(
            inner.name("queue"),
            inner.name("priorityClass"),
            inner.optional_name("project"),
            kind,
            inner.optional_name("environment"),
            inner.flag("preemptible") if inner.has("preemptible") else None,
        )
        inner.finish()
        routes.append(route)
    return RoutingSpec(tuple(routes))
