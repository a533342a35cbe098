"""The policy that declared objects stand for: one way for those in force and for those of an instant past."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard.model.policy import (
    FlavorFungibility,
    ModelOrder,
    NodeOrder,
    Policy,
    PreemptionRule,
    PriorityClass,
    QueueOrder,
    QueueRules,
)
from steelyard.services.documents import Document
from steelyard.services.kinds import (
    CohortSpec,
    Kind,
    NamespaceSpec,
    PriorityClassSpec,
    ProjectSpec,
    QueueSpec,
    TeamSpec,
)
from steelyard.services.queue_spec import (
    NOTHING_DECLARED,
    FungibilitySpec,
    PreemptionSpec,
    RulesSpec,
    WithinQueue,
)
from steelyard.services.scheduling_spec import ConversionTableSpec, SchedulingPolicySpec

T = TypeVar("T")
_BUILT_IN = Policy(0)
#: The kinds of which a policy is made.
POLICY_KINDS = frozenset(
    {
        Kind.TEAM, Kind.PROJECT, Kind.NAMESPACE, Kind.PRIORITY_CLASS, Kind.COHORT, Kind.QUEUE, Kind.ROUTING,
        Kind.SCHEDULING_POLICY, Kind.CONVERSION_TABLE, Kind.BINDING,
    }
)  # fmt: skip


def make_policy(documents: Iterable[Document], version: int) -> Policy:
    """The whole policy. Objects of kinds that have no part in it are passed over."""
    known = list(documents)
    classes = {d.name: d.spec for d in known if isinstance(d.spec, PriorityClassSpec)}
    nodes = {d.name: d.spec for d in known if isinstance(d.spec, QueueSpec | CohortSpec)}
    declared = next((d.spec for d in known if isinstance(d.spec, SchedulingPolicySpec)), None)
    scheduling = declared or SchedulingPolicySpec()
    table = next((d.spec for d in known if isinstance(d.spec, ConversionTableSpec)), ConversionTableSpec(()))
    return Policy(
        version,
        preemption=preemption_rule([scheduling.defaults.preemption]),
        priorities={name: spec.value for name, spec in classes.items()},
        classes={name: _priority_class(spec, classes) for name, spec in classes.items()},
        queues=dict(_queues(nodes, scheduling.defaults)),
        defaults=_defaults(scheduling.defaults),
        order=scheduling.order or QueueOrder.PRIORITY,
        nodes=scheduling.nodes or NodeOrder.FIRST_FIT,
        models=scheduling.models or ModelOrder.AS_LISTED,
        fairness=scheduling.fairness(),
        conversions=dict(table.models),
        memories=dict(table.memory),
        weights=dict(_weights(known)),
        max_placements=scheduling.max_placements or _BUILT_IN.max_placements,
        max_nodes=scheduling.max_nodes or _BUILT_IN.max_nodes,
        max_victims=scheduling.max_victims or _BUILT_IN.max_victims,
        max_evicted=scheduling.max_evicted or _BUILT_IN.max_evicted,
        observation_bound=scheduling.observation_bound or _BUILT_IN.observation_bound,
        growth_window=scheduling.window_of_growth(),
    )


def _priority_class(spec: PriorityClassSpec, classes: Mapping[str, PriorityClassSpec]) -> PriorityClass:
    band = classes.get(spec.ages_to) if spec.ages_to is not None else None
    return PriorityClass(spec.value, spec.ageing, None if band is None else band.value)


def _weights(documents: Iterable[Document]) -> Iterator[tuple[str, int]]:
    for document in documents:
        spec = document.spec
        if isinstance(spec, TeamSpec | ProjectSpec | NamespaceSpec) and spec.weight is not None:
            yield f"{document.kind.value.lower()}/{document.name}", spec.weight


def _queues(
    nodes: Mapping[str, QueueSpec | CohortSpec], defaults: RulesSpec
) -> Iterator[tuple[str, QueueRules]]:
    """The rules of those that declare any."""
    for name, spec in nodes.items():
        if spec.rules != NOTHING_DECLARED:
            above = [nodes[node].rules for node in path_of(nodes, name)]
            yield name, _queue_rules([*above, defaults])


def path_of(nodes: Mapping[str, QueueSpec | CohortSpec], name: str) -> Iterator[str]:
    """The node and those above it, up to a root."""
    seen: set[str] = set()
    current: str | None = name
    while current is not None and current in nodes and current not in seen:
        seen.add(current)
        yield current
        spec = nodes[current]
        current = spec.cohort if isinstance(spec, QueueSpec) else spec.parent


def _queue_rules(path: Sequence[RulesSpec]) -> QueueRules:
    own = path[0]
    usual = QueueRules()
    return QueueRules(
        strategy=own.strategy,
        fungibility=None
        if own.fungibility == FungibilitySpec()
        else fungibility([rules.fungibility for rules in path]),
        preemption=None
        if own.preemption == PreemptionSpec()
        else preemption_rule([rules.preemption for rules in path]),
        groups=own.groups,
        reservations=own.reservations,
        starvation_bound=own.starvation_bound,
        weight=usual.weight if own.weight is None else own.weight,
        owner=own.owner,
        precedence=own.precedence,
    )


def _defaults(declared: RulesSpec) -> QueueRules:
    return QueueRules(
        declared.strategy, fungibility([declared.fungibility]), None, (), declared.reservations,
        declared.starvation_bound, owner=declared.owner, precedence=declared.precedence,
    )  # fmt: skip


def fungibility(path: Sequence[FungibilitySpec]) -> FlavorFungibility:
    """Field by field, what the first that says something says."""
    usual = FlavorFungibility()
    return FlavorFungibility(
        _first((spec.when_can_borrow for spec in path), usual.when_can_borrow),
        _first((spec.when_can_preempt for spec in path), usual.when_can_preempt),
        _first((spec.preference for spec in path), usual.preference),
    )


def preemption_rule(path: Sequence[PreemptionSpec]) -> PreemptionRule:
    """Field by field, what the first that says something says."""
    usual = PreemptionRule()
    within = _first((spec.within_queue for spec in path), None)
    threshold = _first((spec.threshold for spec in path), None)
    return PreemptionRule(
        within_queue=usual.within_queue if within is None else within is WithinQueue.LOWER_PRIORITY,
        reclaim=_first((spec.reclaim for spec in path), usual.reclaim),
        borrow_below=usual.borrow_below if threshold is None else threshold + 1,
        min_runtime=_first((spec.min_runtime for spec in path), usual.min_runtime),
        delay=_first((spec.delay for spec in path), usual.delay),
        per_hour=_first((spec.per_hour for spec in path), usual.per_hour),
    )


def _first(said: Iterable[T | None], usual: T) -> T:
    return next((value for value in said if value is not None), usual)
