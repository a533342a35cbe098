"""Documents of the policy's nouns: their form, what is refused, and the policy that follows from them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import InvalidError
from steelyard.model.policy import (
    QUEUE_TREE,
    USER_TREE,
    Fairness,
    FlavorFungibility,
    ModelOrder,
    NodeOrder,
    OnExceed,
    Policy,
    PreemptionRule,
    Preference,
    PriorityClass,
    QueueingStrategy,
    QueueOrder,
    Reclaim,
    ResourceGroup,
    Search,
)
from steelyard.model.units import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from steelyard.scheduling.quota import potential, shown
from steelyard.scheduling.rules import rules_of
from steelyard.services.declared import load_world
from steelyard.services.documents import Document, parse_document, stored_document
from steelyard.services.policy import load_policy, policy_of, quota_trees, routes, trees_of
from steelyard.services.queue_spec import (
    MAX_PRIORITY,
    FungibilitySpec,
    PreemptionSpec,
    RulesSpec,
    WithinQueue,
)
from steelyard.services.references import check
from steelyard.services.users import create_user
from steelyard.store.store import Store
from tests.support.stores import SMALL_HOUSE, apply, doc

NAMES = st.sampled_from(["ann", "bob"])
SPANS = st.none() | st.integers(0, 366 * 86_400_000).map(lambda value: value * MILLISECOND)
RULES = st.builds(
    RulesSpec,
    strategy=st.none() | st.sampled_from(QueueingStrategy),
    fungibility=st.builds(
        FungibilitySpec,
        st.none() | st.sampled_from(Search),
        st.none() | st.sampled_from(Search),
        st.none() | st.sampled_from(Preference),
    ),
    preemption=st.builds(
        PreemptionSpec,
        st.none() | st.sampled_from(WithinQueue),
        st.none() | st.sampled_from(Reclaim),
        st.none() | st.integers(-MAX_PRIORITY, MAX_PRIORITY),
        SPANS,
        SPANS,
        st.none() | st.integers(0, 1000),
    ),
    groups=st.sampled_from([(), (ResourceGroup(("cpu",), ("plain",)), ResourceGroup(("gpu",), ("a", "b")))]),
    reservations=st.none() | st.integers(0, 64),
    starvation_bound=st.none() | st.integers(1, 366 * 86_400_000).map(lambda value: value * MILLISECOND),
    weight=st.none() | st.integers(0, 1_000_000),
    owner=st.none() | NAMES,
)

POLICY = [
    doc(
        "Cohort", "top", preemption={"minRuntime": "10m", "maxEvictionsPerHour": 6}, owner="ann",
        flavorFungibility={"whenCanBorrow": "TryNextFlavor"},
    ),
    doc("Cohort", "inner", parent="top", reservations=2, strategy="StrictFIFO", weight=3),
    doc(
        "Queue", "leaf", cohort="inner", weight="500m", preemption={
            "withinQueue": "Never", "borrowWithinCohort": {"maxPriorityThreshold": 10}, "delay": "30s",
        },
        flavorFungibility={"preference": "PreemptionOverBorrowing"},
        resourceGroups=[{"coveredClasses": ["cpu", "memory"], "flavors": ["plain"]}],
        limits=[{"class": "gpu", "nominal": 2, "onExceed": "refuse"}],
    ),
    doc("PriorityClass", "slow", value=50, ageing="2h", agesTo="high"),
    doc("Team", "alpha", weight=2),
    doc("Project", "vision", team="alpha", weight="0.5"),
    doc(
        "SchedulingPolicy", "default", order="FairShare", nodes="NodeValue", models="Advantage",
        fairness={"halfLife": "7d", "sampling": "1m"}, bounds={"placements": 100, "observation": "30s"},
        growth={"stabilizationWindow": "90s"},
        defaults={"preemption": {"reclaimWithinCohort": "Never"}, "starvationBound": "2d", "owner": "ops"},
    ),
    doc("ConversionTable", "default", models={"H100": 1, "Tesla T4": "250m"}),
]  # fmt: skip


def refused(kind: str, **spec: Any) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        parse_document(
            doc(kind, "default" if kind in ("SchedulingPolicy", "ConversionTable") else "a", **spec)
        )
    return caught.value


@given(RULES)
def test_what_a_queue_declares_reads_back_as_it_was(rules: RulesSpec) -> None:
    once = parse_document({"kind": "Queue", "metadata": {"name": "a"}, "spec": rules.to_spec()})
    assert once.spec.rules == rules  # type: ignore[union-attr]
    assert stored_document("Queue", "a", {}, once.body) == once


def test_what_is_kept_for_long_reads_back_too() -> None:
    once = parse_document(doc("Cluster", "a", engine="local", keep={"work": "400d", "artifacts": "1h1ms"}))
    assert stored_document("Cluster", "a", {}, once.body) == once


@pytest.mark.parametrize("raw", POLICY, ids=lambda raw: raw["kind"])
def test_the_normal_form_reads_as_the_same_document(raw: dict[str, Any]) -> None:
    once = parse_document(raw)
    assert stored_document(once.kind, once.name, {}, once.body).digest == once.digest


@pytest.mark.parametrize(
    ("kind", "spec", "code", "path"),
    [
        ("Queue", {"strategy": "Random"}, "field-invalid", "spec.strategy"),
        ("Queue", {"preemption": {"withinQueue": True}}, "field-invalid", "spec.preemption.withinQueue"),
        ("Queue", {"preemption": {"reclaim": "Any"}}, "field-unknown", "spec.preemption.reclaim"),
        ("Queue", {"preemption": {"minRuntime": "soon"}}, "duration-invalid", "spec.preemption.minRuntime"),
        (
            "Queue", {"preemption": {"borrowWithinCohort": {"maxPriorityThreshold": 2 * MAX_PRIORITY}}},
            "field-out-of-bounds", "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
        ),
        ("Queue", {"preemption": {"delay": "9999d"}}, "span-out-of-bounds", "spec.preemption.delay"),
        ("Queue", {"weight": 1001}, "field-out-of-bounds", "spec.weight"),
        ("Queue", {"weight": -1}, "quantity-invalid", "spec.weight"),
        ("Queue", {"reservations": 65}, "field-out-of-bounds", "spec.reservations"),
        ("Queue", {"starvationBound": "0s"}, "duration-invalid", "spec.starvationBound"),
        (
            "Queue", {"resourceGroups": [{"coveredClasses": ["tpu"], "flavors": ["a"]}]},
            "field-invalid", "spec.resourceGroups[0].coveredClasses[0]",
        ),
        (
            "Queue", {"resourceGroups": [{"coveredClasses": ["gpu"], "flavors": []}]},
            "field-missing", "spec.resourceGroups[0].flavors",
        ),
        (
            "Queue",
            {"resourceGroups": [{"coveredClasses": ["gpu"], "flavors": ["a"]},
                                {"coveredClasses": ["npu"], "flavors": ["a"]}]},
            "field-invalid", "spec.resourceGroups[1].flavors",
        ),
        ("PriorityClass", {"value": 1, "agesTo": "high"}, "field-missing", "spec.ageing"),
        ("SchedulingPolicy", {"order": "Random"}, "field-invalid", "spec.order"),
        ("SchedulingPolicy", {"bounds": {"victims": 0}}, "field-out-of-bounds", "spec.bounds.victims"),
        ("SchedulingPolicy", {"defaults": {"weight": 1}}, "field-unknown", "spec.defaults.weight"),
        ("ConversionTable", {"models": {}}, "field-missing", "spec.models"),
        ("ConversionTable", {"models": {"T4": 0}}, "field-out-of-bounds", "spec.models.T4"),
        ("ConversionTable", {"models": {"T4": "much"}}, "quantity-invalid", "spec.models.T4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_path(
    kind: str, spec: dict[str, Any], code: str, path: str
) -> None:
    error = refused(kind, **spec)
    assert (error.code, error.params["path"]) == (code, path)


def test_there_is_one_scheduling_policy() -> None:
    with pytest.raises(InvalidError) as caught:
        parse_document(doc("SchedulingPolicy", "other"))
    assert caught.value.params["expected"] == "default"


@pytest.mark.requirement("B2")
def test_a_group_covers_the_class_of_each_of_its_flavors() -> None:
    groups = [{"coveredClasses": ["gpu"], "flavors": ["plain"]}]
    world = {d.key: d for d in map(parse_document, [*SMALL_HOUSE, doc("Queue", "a", resourceGroups=groups)])}
    with pytest.raises(InvalidError) as caught:
        check(world, ())
    assert caught.value.code == "flavor-not-covered"
    assert caught.value.params["resource"] == "cpu"


def test_a_group_names_flavors_that_there_are() -> None:
    groups = [{"coveredClasses": ["gpu"], "flavors": ["nowhere"]}]
    world = {d.key: d for d in map(parse_document, [*SMALL_HOUSE, doc("Queue", "a", resourceGroups=groups)])}
    with pytest.raises(InvalidError) as caught:
        check(world, ())
    assert (caught.value.code, caught.value.params["target"]) == ("reference-missing", "nowhere")


def test_a_class_does_not_age_downwards() -> None:
    slow = doc("PriorityClass", "slow", value=500, ageing="2h", agesTo="normal")
    world = {d.key: d for d in map(parse_document, [*SMALL_HOUSE, slow])}
    with pytest.raises(InvalidError) as caught:
        check(world, ())
    assert caught.value.code == "ages-downwards"


@pytest.mark.requirement("E8")
def test_the_whole_policy_is_loaded_with_its_version(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with store.read() as view:
        before = load_policy(view)
    apply(store, *POLICY)
    with store.read() as view:
        policy, tree, world = load_policy(view), quota_trees(view)[QUEUE_TREE], load_world(view)
    assert policy.version == before.version + 1
    assert (policy.order, policy.nodes) == (QueueOrder.FAIR_SHARE, NodeOrder.NODE_VALUE)
    assert policy.models is ModelOrder.ADVANTAGE
    assert policy.fairness == Fairness(7 * DAY, MINUTE)
    assert policy.growth_window == 90 * SECOND
    assert (policy.max_placements, policy.max_nodes, policy.observation_bound) == (100, 20_000, 30 * SECOND)
    assert policy.classes["slow"] == PriorityClass(50, 2 * HOUR, 1000)
    assert policy.classes["high"] == PriorityClass(1000)
    assert policy.conversions == {"H100": 1000, "Tesla T4": 250}
    assert policy.weights == {"team/alpha": 2000, "project/vision": 500}
    leaf = rules_of(policy, tree, "leaf")
    assert leaf.preemption == PreemptionRule(False, Reclaim.NEVER, 11, 10 * MINUTE, 30 * SECOND, 6)
    assert leaf.fungibility == FlavorFungibility(
        Search.TRY_NEXT, Search.TRY_NEXT, Preference.PREEMPTION_OVER_BORROWING
    )
    assert leaf.groups == (ResourceGroup(("cpu", "memory"), ("plain",)),)
    assert (leaf.strategy, leaf.reservations, leaf.starvation_bound) == (
        QueueingStrategy.STRICT_FIFO, 2, 2 * DAY,
    )  # fmt: skip
    assert (leaf.weight, leaf.owner, rules_of(policy, tree, "main").owner) == (500, "ann", "ops")
    assert tree.limits["leaf", "gpu"].on_exceed is OnExceed.REFUSE
    assert _same(policy, policy_of(world.values(), policy.version))


def _same(one: Policy, other: Policy) -> bool:
    return all(getattr(one, item.name) == getattr(other, item.name) for item in fields(Policy))


@given(st.randoms(use_true_random=False))
def test_the_policy_does_not_depend_on_the_order_of_the_documents(random: Any) -> None:
    documents: list[Document] = [parse_document(raw) for raw in (*SMALL_HOUSE, *POLICY)]
    straight = policy_of(documents, 1)
    random.shuffle(documents)
    assert _same(straight, policy_of(documents, 1))


def test_a_route_may_fix_whether_its_work_can_be_preempted(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    fixed = [{"kind": "inference", "queue": "main", "priorityClass": "high", "preemptible": False}]
    apply(store, doc("Routing", "default", routes=[*fixed, {"queue": "main", "priorityClass": "normal"}]))
    with store.read() as view:
        assert [route.preemptible for route in routes(view).routes] == [False, None]


QUOTAS = [
    doc("Quota", "a", user="*", project="vision", limits=[{"class": "gpu", "hard": 2}]),
    doc("Quota", "a", user="ann", limits=[{"flavor": "plain", "hard": 2, "onExceed": "refuse"}]),
    doc("Quota", "a", team="alpha", limits=[{"class": "gpu", "measure": "normalised", "hard": "2.5"}]),
    doc("Quota", "a", project="vision", limits=[
        {"class": "gpu", "measure": "memory", "hard": "640Gi", "overCommit": True},
        {"class": "gpu", "measure": "whole", "hard": 3},
        {"class": "npu", "measure": "fraction", "hard": "500m"},
        {"class": "gpu", "hard": 4},
    ]),
]  # fmt: skip


@pytest.mark.parametrize("raw", QUOTAS)
def test_quotas_of_users_and_on_measures_read_back_as_they_were(raw: dict[str, Any]) -> None:
    once = parse_document(raw)
    again = stored_document("Quota", "a", {}, once.body)
    assert (again, again.digest) == (once, once.digest)


@pytest.mark.parametrize(
    ("spec", "code", "path"),
    [
        ({"user": "Ann!", "limits": [{"class": "gpu", "hard": 1}]}, "name-invalid", "spec.user"),
        ({"user": "ann", "team": "alpha", "limits": [{"class": "gpu", "hard": 1}]},
         "field-unknown", "spec.team"),
        ({"team": "alpha", "limits": [{"class": "cpu", "measure": "whole", "hard": 1}]},
         "field-invalid", "spec.limits[0].class"),
        ({"team": "alpha", "limits": [{"class": "gpu", "measure": "heat", "hard": 1}]},
         "field-invalid", "spec.limits[0].measure"),
        ({"user": "ann", "limits": [{"class": "gpu", "hard": 1, "overCommit": True}]},
         "field-unknown", "spec.limits[0].overCommit"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_quota_is_refused_with_its_path(
    spec: dict[str, Any], code: str, path: str
) -> None:
    error = refused("Quota", **spec)
    assert (error.code, error.params["path"]) == (code, path)


def test_queues_have_no_limits_on_measures() -> None:
    error = refused("Queue", limits=[{"class": "gpu", "measure": "whole", "nominal": 1}])
    assert (error.code, error.params["path"]) == ("field-unknown", "spec.limits[0].measure")


def test_a_limit_on_memory_needs_a_table_that_knows_memory(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    quota = doc("Quota", "m", team="alpha", limits=[{"class": "gpu", "measure": "memory", "hard": "80Gi"}])
    with pytest.raises(InvalidError) as caught:
        apply(store, quota)
    assert caught.value.code == "conversion-missing"
    apply(store, quota, doc("ConversionTable", "default", memory={"A100": "80Gi"}))


def test_each_user_bound_to_a_project_has_the_limit_of_everybody_there_or_an_own_one(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    for name in ("ann", "bob", "eve"):
        create_user(store, SYSTEM, name)
    apply(
        store,
        doc("Binding", "ann", user="ann", role="member", project="vision"),
        doc("Binding", "bob", user="bob", role="administrator"),
        doc("Binding", "eve", user="eve", role="member", project="speech"),
        doc("Quota", "each", user="*", project="vision", limits=[{"class": "gpu", "hard": 1}]),
        doc("Quota", "bob", user="bob", project="vision", limits=[{"class": "gpu", "hard": 3}]),
    )
    with store.read() as view:
        tree, world = quota_trees(view)[USER_TREE], load_world(view)
    assert {node for node, _ in tree.limits} == {"user/ann@vision", "user/bob@vision", "users"}
    found = [potential(tree, node, "gpu") for node in ("user/ann@vision", "user/bob@vision", "user/ann@*")]
    assert found[:2] == [1000, 3000]
    assert shown(found[2]) is None
    again = trees_of(world.values())[USER_TREE]
    assert (again.nodes, again.limits) == (tree.nodes, tree.limits)
