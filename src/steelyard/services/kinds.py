"""The kinds of declared documents as frozen values, and how each is written back as a document.

Quantities are integers in their unit. `to_spec` gives the normal form of a spec: keys that hold nothing
are left out, quantities are written so that reading them gives the same integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from steelyard.devices.settings import DeviceSettings
from steelyard.devices.settings import to_spec as write_settings
from steelyard.engines.local.isolation import Wish
from steelyard.model.health import OnDeviceFailure
from steelyard.model.organisation import RoleName
from steelyard.model.policy import FLAVOR_PREFIX, ORG_TREE, USER_TREE, OnExceed, OnLowered
from steelyard.model.resources import DeviceClass, EngineKind
from steelyard.model.workloads import WorkloadKind
from steelyard.services.pool_spec import PoolSpec
from steelyard.services.queue_spec import NOTHING_DECLARED, RulesSpec, span_text, weight_text
from steelyard.services.reading import given, write_amount
from steelyard.services.scheduling_spec import ConversionTableSpec, SchedulingPolicySpec
from steelyard.services.support_specs import (
    ExtensionSpec,
    ObservationSourceSpec,
    RegisterEntrySpec,
    SupportDocumentSpec,
)
from steelyard.services.vocabulary_spec import VocabularySpec

SpecBody: TypeAlias = dict[str, Any]
ROUTING_NAME = "default"
USER_LEVEL = "user"
EVERYBODY = "*"


class Kind(StrEnum):
    """Kinds that are declared, in the order in which they are applied and exported."""

    LABEL_VOCABULARY = "LabelVocabulary"
    CLUSTER = "Cluster"
    POOL = "Pool"
    TEAM = "Team"
    PROJECT = "Project"
    NAMESPACE = "Namespace"
    PRIORITY_CLASS = "PriorityClass"
    COHORT = "Cohort"
    QUEUE = "Queue"
    QUOTA = "Quota"
    ROUTING = "Routing"
    SCHEDULING_POLICY = "SchedulingPolicy"
    CONVERSION_TABLE = "ConversionTable"
    TEMPLATE = "Template"
    BINDING = "Binding"
    SUPPORT_DOCUMENT = "SupportDocument"
    EXTENSION = "Extension"
    OBSERVATION_SOURCE = "ObservationSource"
    REGISTER_ENTRY = "RegisterEntry"


APPLY_ORDER: dict[Kind, int] = {kind: index for index, kind in enumerate(Kind)}


def _mib(amount: int | None) -> str | int | None:
    return None if amount is None else write_amount(DeviceClass.MEMORY, amount)


def _isolation(wish: Wish) -> SpecBody:
    return given(mode=wish.mode, network=wish.network, sharedFolders=list(wish.shared))


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`simulation` is the declared mapping itself; engines.simulated.spec reads it."""

    engine: EngineKind
    reserve: tuple[tuple[DeviceClass, int], ...] = ()
    simulation: dict[str, Any] | None = None
    owner: str | None = None
    release_within: int | None = None  # µs; what is not proven free by then is quarantined
    isolation: Wish | None = None  # of a local cluster; None: as `auto`
    work_limit: int | None = None  # MiB in each member's work folder, where its workload says nothing; local
    min_free: int | None = None  # MiB of the disk below which nothing new is started; local
    keep_work: int | None = None  # µs after an attempt's end; then its work folder goes, but for artifacts
    keep_artifacts: int | None = None  # µs after it; then these go, too
    keep_logs: int | None = None  # MiB of each member's log: its beginning and its end; local
    devices: DeviceSettings | None = None  # how accelerators are looked for; None: by the defaults; local
    on_device_failure: OnDeviceFailure = OnDeviceFailure.KEEP

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        reserve = {kind.value: write_amount(kind, amount) for kind, amount in self.reserve}
        return given(
            engine=self.engine.value, reserve=reserve, simulation=self.simulation, owner=self.owner,
            releaseWithin=span_text(self.release_within), keep=given(
                work=span_text(self.keep_work), artifacts=span_text(self.keep_artifacts),
                logs=_mib(self.keep_logs),
            ), isolation=None if self.isolation is None else _isolation(self.isolation),
            workFolder=given(sizeLimit=_mib(self.work_limit), minFree=_mib(self.min_free)),
            devices=None if self.devices is None else write_settings(self.devices),
            onDeviceFailure=None
            if self.on_device_failure is OnDeviceFailure.KEEP
            else self.on_device_failure.value,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TeamSpec:
    """A team; the top of the organisation."""

    display_name: str | None = None
    owner: str | None = None
    weight: int | None = None  # thousandths, beside the other teams

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(displayName=self.display_name, owner=self.owner, weight=weight_text(self.weight))


@dataclass(frozen=True, slots=True)
class ProjectSpec:
    """A project of a team."""

    team: str
    display_name: str | None = None
    weight: int | None = None  # thousandths, beside the team's other projects

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(team=self.team, displayName=self.display_name, weight=weight_text(self.weight))


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """A namespace of a project."""

    project: str
    environment: str | None = None
    cost_centre: str | None = None
    weight: int | None = None  # thousandths, beside the project's other namespaces

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            project=self.project, environment=self.environment, costCentre=self.cost_centre,
            weight=weight_text(self.weight),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BindingSpec:
    """A role for a user, on a project or (None) on the whole installation."""

    user: str
    role: RoleName
    project: str | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(user=self.user, role=self.role.value, project=self.project)


@dataclass(frozen=True, slots=True)
class LoweringSpec:
    """What becomes of work above a limit; `effect` None: it is not said."""

    effect: OnLowered | None = None
    drain_for: int = 0  # µs

    def to_spec(self) -> SpecBody:
        """The fields of the entry."""
        drains = self.effect is OnLowered.DRAIN
        return given(
            onLowered=None if self.effect is None else self.effect.value,
            drainFor=span_text(self.drain_for) if drains else None,
        )


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """A limit of a queue or cohort. `subject` is a class or `flavor/NAME`."""

    subject: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    on_exceed: OnExceed = OnExceed.WAIT
    lowering: LoweringSpec = LoweringSpec()

    def to_spec(self) -> SpecBody:
        """The entry of the document's list."""
        unit = amount_unit(self.subject)
        return given(
            **subject_key(self.subject),
            nominal=write_amount(unit, self.nominal),
            borrowingLimit=None if self.borrowing_limit is None else write_amount(unit, self.borrowing_limit),
            lendingLimit=None if self.lending_limit is None else write_amount(unit, self.lending_limit),
            onExceed=None if self.on_exceed is OnExceed.WAIT else self.on_exceed.value,
            **self.lowering.to_spec(),
        )


@dataclass(frozen=True, slots=True)
class CohortSpec:
    """A group of queues that lend to each other."""

    parent: str | None = None
    limits: tuple[LimitSpec, ...] = ()
    rules: RulesSpec = NOTHING_DECLARED

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        limits = [limit.to_spec() for limit in self.limits]
        return given(parent=self.parent, **self.rules.to_spec(), limits=limits)


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue; `stopped` admits nothing new."""

    cohort: str | None = None
    stopped: bool = False
    limits: tuple[LimitSpec, ...] = ()
    rules: RulesSpec = NOTHING_DECLARED

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return given(
            cohort=self.cohort,
            **self.rules.to_spec(),
            stopped=True if self.stopped else None,
            limits=[limit.to_spec() for limit in self.limits],
        )


@dataclass(frozen=True, slots=True)
class HardLimitSpec:
    """At most `hard` of a subject. `over_commit`: those below may be given more than that together."""

    subject: str
    hard: int
    on_exceed: OnExceed = OnExceed.WAIT
    over_commit: bool = False
    lowering: LoweringSpec = LoweringSpec()

    def to_spec(self) -> SpecBody:
        """The entry of the document's list."""
        hard = write_amount(amount_unit(self.subject), self.hard)
        return {
            **subject_key(self.subject), "hard": hard, "onExceed": self.on_exceed.value,
            **given(overCommit=self.over_commit or None), **self.lowering.to_spec(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    """Hard limits of one team, project, namespace or user (`level`).

    A user's hold in one project or in all; `EVERYBODY` stands for each user by itself.
    """

    level: str
    target: str
    limits: tuple[HardLimitSpec, ...]
    project: str | None = None  # of a user's

    @property
    def tree(self) -> str:
        """The tree in which it stands."""
        return USER_TREE if self.level == USER_LEVEL else ORG_TREE

    @property
    def node(self) -> str:
        """Its node there."""
        return f"{self.level}/{self.target}" + (f"@{self.project}" if self.project is not None else "")

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        limits = [limit.to_spec() for limit in self.limits]
        return {self.level: self.target, **given(project=self.project), "limits": limits}


@dataclass(frozen=True, slots=True)
class PriorityClassSpec:
    """A named priority; higher goes first. `ages_to` is the class in whose band it stands while it ages."""

    value: int
    ageing: int = 0  # µs
    ages_to: str | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        ageing = span_text(self.ageing) if self.ageing else None
        return {"value": self.value, **given(ageing=ageing, agesTo=self.ages_to)}


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One line of the routing; None matches everything."""

    queue: str
    priority_class: str
    project: str | None = None
    kind: WorkloadKind | None = None
    environment: str | None = None
    preemptible: bool | None = None

    def to_spec(self) -> SpecBody:
        """The entry of the document's list."""
        return given(
            project=self.project,
            kind=None if self.kind is None else self.kind.value,
            environment=self.environment,
            queue=self.queue,
            priorityClass=self.priority_class,
            preemptible=self.preemptible,
        )


@dataclass(frozen=True, slots=True)
class RoutingSpec:
    """The routes in order; the first that matches wins."""

    routes: tuple[RouteSpec, ...]

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return {"routes": [route.to_spec() for route in self.routes]}


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """Defaults that are merged beneath a workload's spec."""

    version: str
    body: dict[str, Any]

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        return {"version": self.version, "spec": self.body}


Spec: TypeAlias = (
    ClusterSpec
    | PoolSpec
    | TeamSpec
    | ProjectSpec
    | NamespaceSpec
    | BindingSpec
    | CohortSpec
    | QueueSpec
    | QuotaSpec
    | PriorityClassSpec
    | RoutingSpec
    | SchedulingPolicySpec
    | ConversionTableSpec
    | TemplateSpec
    | VocabularySpec
    | SupportDocumentSpec
    | ExtensionSpec
    | ObservationSourceSpec
    | RegisterEntrySpec
)


def amount_unit(subject: str) -> str:
    """In whose unit a subject is written: flavors count devices or cores (both milli), a measure itself."""
    return DeviceClass.OTHER.value if subject.startswith(FLAVOR_PREFIX) else subject


def subject_key(subject: str) -> SpecBody:
    """`{class: gpu}`, `{class: gpu, measure: whole}` or `{flavor: NAME}`."""
    if subject.startswith(FLAVOR_PREFIX):
        return {"flavor": subject.removeprefix(FLAVOR_PREFIX)}
    name, _, measure = subject.partition("/")
    return {"class": name, **given(measure=measure or None)}
