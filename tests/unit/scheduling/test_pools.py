"""Pools: whom they let in, what they offer and want to be told, lending, and that others don't matter."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.scheduling import ClusterView, PoolView, Snapshot, can_ever_fit, decide, explain, shut_now
from steelyard.scheduling.views import NodeView
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    NPU,
    POLICY,
    codes,
    group,
    item,
    node,
    org_tree,
    placed,
    queue_tree,
    request,
    shape,
    snapshot,
)

ONE = request(gpu=1000)


def pooled(base: Snapshot, *pools: PoolView) -> Snapshot:
    """Each pool has the flavors of its own cluster."""
    by_cluster = {pool.cluster: pool.name for pool in pools}
    flavors = {
        name: replace(flavor, pool=by_cluster.get(flavor.cluster)) for name, flavor in base.flavors.items()
    }
    return replace(base, flavors=flavors, pools={pool.name: pool for pool in pools})


def told(reasons: Iterable[Reason]) -> list[tuple[str, object, object, object, object]]:
    return [
        (r.code, r.params["pool"], r.params.get("label"), r.params.get("wanted"), r.params.get("found"))
        for r in reasons
    ]


@pytest.mark.requirement("B14", "C7")
@pytest.mark.parametrize(
    ("rules", "label", "wanted", "found"),
    [
        ({"kinds": ("inference",)}, "kind", "inference", "training"),
        ({"projects": ("x", "y")}, "project", "x, y", "p"),
        ({"teams": ("red",)}, "team", "red", "blue"),
        ({"environments": ("production",)}, "environment", "production", "lab"),
    ],
)
def test_a_request_that_a_pool_does_not_let_in_is_told_the_failing_condition(
    rules: dict[str, tuple[str, ...]], label: str, wanted: str, found: str
) -> None:
    base = pooled(snapshot([node(1, gpus=1)]), PoolView("a", "c1", **rules))  # type: ignore[arg-type]
    asked = replace(
        shape("s", ONE), kind="training", environment="lab",
        org_path=("namespace/n", "project/p", "team/blue"),
    )
    expected = [(ReasonCode.POOL_NOT_ADMITTING, "a", label, wanted, found)]
    assert told(can_ever_fit(base, POLICY, asked)) == expected
    assert told(explain(base, POLICY, NOW, asked).reasons) == expected


@pytest.mark.requirement("B14")
def test_more_than_a_pool_gives_one_request_is_not_let_in() -> None:
    base = pooled(snapshot([node(1, gpus=4)]), PoolView("a", "c1", most={GPU: 2000}))
    assert can_ever_fit(base, POLICY, shape("s", ONE, count=2)) == ()
    (reason,) = can_ever_fit(base, POLICY, shape("s", ONE, count=3))
    assert (reason.code, reason.limit, reason.requested) == (ReasonCode.POOL_NOT_ADMITTING, 2000, 3000)


@pytest.mark.requirement("B26", "C7")
@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ((("framework", "mindspore"), ("cann", "8.0")), []),
        ((("framework", "mindspore"), ("cann", "9.0")), [("cann", "9.0", "7.0, 8.0")]),
        ((("framework", "jax"),), [("framework", "jax", "mindspore"), ("framework", "mindspore", "jax")]),
        ((), [("framework", "mindspore", None)]),
        ((("operators", "x"),), [("operators", "x", None), ("framework", "mindspore", None)]),
    ],
)
def test_a_class_carries_its_constraints_and_a_request_is_matched_against_them(
    needs: tuple[tuple[str, str], ...], expected: list[tuple[str, str, str | None]]
) -> None:
    pool = PoolView(
        "n", "c1", offers={"framework": ("mindspore",), "cann": ("7.0", "8.0")},
        needs={NPU: (("framework", ("mindspore",)),)},
    )  # fmt: skip
    base = pooled(snapshot([node(1, gpus=1, flavor="npu-a")]), pool)
    asked = shape("s", request(npu=1000, needs=needs))
    assert [entry[2:] for entry in told(can_ever_fit(base, POLICY, asked))] == expected
    cpu_only = shape("c", request(cpu=1000))
    assert can_ever_fit(base, POLICY, cpu_only) == ()  # the condition is of the class, not of the pool


def test_a_label_that_no_node_has_is_named_with_what_was_found() -> None:
    base = snapshot([node(1, gpus=1, labels={"zone": "a"}), node(2, gpus=1, labels={"zone": "b"})])
    (reason,) = can_ever_fit(base, POLICY, shape("s", request(gpu=1000, node_labels=(("zone", "z"),))))
    assert (reason.code, reason.params["label"], reason.params["wanted"], reason.params["found"]) == (
        ReasonCode.LABEL_MISMATCH, "zone", "z", "a, b",
    )  # fmt: skip


@pytest.mark.requirement("C16")
def test_a_closed_pool_takes_nothing_new_and_says_why() -> None:
    why: dict[str, str | int | None] = {"what": "driver", "declared": "550", "detected": "535"}
    asked = shape("s", ONE)
    base = snapshot([node(1, gpus=1)], group(asked, item(1)))
    shut = pooled(base, PoolView("a", "c1", shut=why))
    decisions = decide(shut, POLICY, NOW)
    assert placed(decisions) == []
    (reason,) = decisions.reasons["s"].reasons
    assert (reason.code, reason.params) == (ReasonCode.POOL_CLOSED, {"pool": "a", **why})
    assert can_ever_fit(shut, POLICY, asked) == ()  # it will open again
    assert shut_now(shut, asked) == (reason,)
    assert placed(decide(pooled(base, PoolView("a", "c1")), POLICY, NOW)) == [1]


def test_a_closed_pool_does_not_stand_in_the_way_where_another_is_open() -> None:
    asked = shape("s", ONE)
    base = snapshot([node(1, gpus=1), node(2, gpus=1, cluster="c2", flavor="h100")], group(asked, item(1)))
    shut = pooled(base, PoolView("a", "c1", shut={"by": "ann"}), PoolView("b", "c2"))
    (found,) = decide(shut, POLICY, NOW).placements
    assert found.members[0].cluster == "c2"
    assert shut_now(shut, asked) == ()


@pytest.mark.requirement("C10")
def test_a_pool_lends_to_another_only_what_a_real_run_has_verified() -> None:
    own = PoolView("own", "c1", kinds=("training",))
    lender = PoolView("lender", "c2", kinds=("inference",), lends_to=("own",))
    asked = replace(shape("s", ONE), kind="training")
    base = snapshot([node(1), node(2, gpus=1, cluster="c2", flavor="h100")], group(asked, item(1)))
    (reason,) = can_ever_fit(pooled(base, own, lender), POLICY, asked)
    assert (reason.code, reason.params["kind"]) == (ReasonCode.LENDING_UNVERIFIED, "training")
    other = replace(lender, verified=frozenset({("evaluation", "h100"), ("training", "a100")}))
    assert placed(decide(pooled(base, own, other), POLICY, NOW)) == []
    verified = replace(lender, verified=frozenset({("training", "h100")}))
    assert placed(decide(pooled(base, own, verified), POLICY, NOW)) == [1]
    off = replace(verified, lends_to=())
    assert codes(decide(pooled(base, own, off), POLICY, NOW), "s") == [ReasonCode.POOL_NOT_ADMITTING]


@pytest.mark.requirement("C12", "B2")
def test_a_name_alone_lets_nothing_onto_another_class() -> None:
    """A flavor of another class that has the very name and model that were asked for takes nothing."""
    base = snapshot([node(1, gpus=1, flavor="npu-910")])
    named = request(gpu=1000, flavors=("npu-910",), models=("npu-910",))
    assert can_ever_fit(base, POLICY, shape("s", named))[0].code == ReasonCode.NO_MATCHING_FLAVOR


KINDS = ("training", "inference", "batch")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[NodeView], list[PoolView], list[tuple[str, int, str, str]]]:
    """Nodes and pools of one to three clusters, and requests that name a cluster of theirs."""
    clusters = [f"c{index}" for index in range(1, draw(st.integers(1, 3)) + 1)]
    nodes, pools = [], []
    for index, cluster in enumerate(clusters):
        for number in range(draw(st.integers(1, 2))):
            gpus = draw(st.integers(0, 3))
            nodes.append(node(index * 10 + number + 1, gpus=gpus, cluster=cluster, flavor=f"gpu-{cluster}"))
        kinds = draw(st.sampled_from([(), ("training",), ("training", "batch")]))
        shut: dict[str, str | int | None] | None = draw(st.sampled_from([None, None, {"by": "ann"}]))
        pools.append(PoolView(f"p-{cluster}", cluster, kinds=kinds, shut=shut))
    asked = draw(
        st.lists(
            st.tuples(
                st.sampled_from(KINDS), st.integers(1, 4), st.sampled_from(clusters), st.sampled_from("ab")
            ),
            min_size=1,
            max_size=6,
        )
    )
    return nodes, pools, asked


@pytest.mark.requirement("B25")
@given(world=worlds(), seed=st.integers(0, 2**32), gpus=st.integers(1, 4), first=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_new_pool_and_cluster_leave_the_decisions_of_the_others_byte_for_byte_equal(
    world: tuple[list[NodeView], list[PoolView], list[tuple[str, int, str, str]]],
    seed: int,
    gpus: int,
    first: bool,
) -> None:
    nodes, pools, asked = world
    groups = []
    for index, (kind, count, cluster, project) in enumerate(asked):
        wanted = shape(
            f"s{index}", request(gpu=1000, cpu=1000, clusters=(cluster,)), count=count, project=project,
            priority=index % 3,
        )  # fmt: skip
        groups.append(group(replace(wanted, kind=kind), item(index + 1), item(index + 100)))
    trees = {"queues": queue_tree(), "organisation": org_tree(projects=("a", "b", "new"))}
    before = pooled(snapshot(nodes, *groups, **trees), *pools)  # type: ignore[arg-type]
    name = "a-new" if first else "z-new"  # ahead of all others by name, or behind them
    added = node(500, gpus=gpus, cluster=name, flavor=f"{name}-gpu")
    fresh = PoolView(name, name, projects=("new",), offers={"framework": ("jax",)})
    after = pooled(snapshot([*nodes, added], *groups, **trees), *pools, fresh)  # type: ignore[arg-type]
    assert repr(decide(_shuffled(after, seed), POLICY, NOW)) == repr(decide(before, POLICY, NOW))


@pytest.mark.requirement("B25")
@pytest.mark.parametrize("name", ["a-new", "z-new"])
def test_who_may_not_use_a_new_pool_decides_as_before_without_naming_a_cluster(name: str) -> None:
    """An open request keeps its place, its reasons and its order when a pool for others is added."""
    asked = [shape(f"s{index}", ONE, count=index + 1, priority=index) for index in range(4)]
    groups = [group(replace(one, kind="training"), item(index + 1)) for index, one in enumerate(asked)]
    nodes = [node(1, gpus=3), node(2, gpus=2)]
    own = PoolView("own", "c1", kinds=("training",))
    before = pooled(snapshot(nodes, *groups), own)
    added = node(9, gpus=8, cluster=name, flavor=f"{name}-gpu")
    fresh = PoolView(name, name, kinds=("inference",))
    after = pooled(snapshot([*nodes, added], *groups), own, fresh)
    for seed in range(8):
        assert repr(decide(_shuffled(after, seed), POLICY, NOW)) == repr(decide(before, POLICY, NOW))


def _shuffled(base: Snapshot, seed: int) -> Snapshot:
    """The same with every mapping in another order, and one more cluster that nobody asked for."""
    order = random.Random(seed)

    def mixed(values: object) -> dict:  # type: ignore[type-arg]
        entries = list(dict(values).items())  # type: ignore[call-overload]
        order.shuffle(entries)
        return dict(entries)

    clusters = {**base.clusters, "empty": ClusterView("empty", NOW)}
    return replace(
        base, nodes=mixed(base.nodes), flavors=mixed(base.flavors), pools=mixed(base.pools),
        clusters=mixed(clusters), pending=tuple(order.sample(base.pending, len(base.pending))),
    )  # fmt: skip


def test_the_classes_of_a_request_beside_its_first_are_not_judged_by_rules_of_their_pools() -> None:
    """CPU and memory come with the device's node, whosever pool they are in."""
    strict = PoolView("cores", "c1", kinds=("batch",))
    base = snapshot([node(1, gpus=1)])
    flavors = {
        name: replace(flavor, pool=None if flavor.device_class is GPU else "cores")
        for name, flavor in base.flavors.items()
    }
    base = replace(base, flavors=flavors, pools={"cores": strict})
    asked = replace(shape("s", request(gpu=1000, cpu=1000)), kind="training")
    assert can_ever_fit(base, POLICY, asked) == ()
    alone = replace(shape("c", request(cpu=1000)), kind="training")
    assert can_ever_fit(base, POLICY, alone)[0].code == ReasonCode.POOL_NOT_ADMITTING


def test_a_role_that_fits_only_elsewhere_names_what_stands_in_the_way_where_its_gang_is() -> None:
    """The gang's other role has its device in one cluster alone; there the pool does not let this one in."""
    base = snapshot([node(1, gpus=1), node(2, cluster="c2")])
    flavors = {
        name: replace(flavor, pool={"c1": "near", "c2": "far"}[flavor.cluster])
        if flavor.device_class.value == "cpu" else flavor
        for name, flavor in base.flavors.items()
    }  # fmt: skip
    near = PoolView("near", "c1", offers={"framework": ("jax",)})
    far = PoolView("far", "c2", offers={"framework": ("pytorch",)})
    base = replace(base, flavors=flavors, pools={"near": near, "far": far})
    asked = shape("s", ONE, request(cpu=1000, needs=(("framework", "pytorch"),)))
    assert told(can_ever_fit(base, POLICY, asked)) == [
        (ReasonCode.LABEL_MISMATCH, "near", "framework", "pytorch", "jax")
    ]


@pytest.mark.requirement("C16")
def test_a_gang_of_which_one_role_has_only_a_closed_pool_is_not_let_in() -> None:
    base = snapshot([node(1, gpus=1), node(2, cluster="c2")])
    flavors = {
        name: replace(flavor, pool={"c1": "near", "c2": "far"}[flavor.cluster])
        if flavor.device_class.value == "cpu" else flavor
        for name, flavor in base.flavors.items()
    }  # fmt: skip
    asked = shape("s", ONE, request(cpu=1000))
    pools = {"near": PoolView("near", "c1", shut={"by": "ann"}), "far": PoolView("far", "c2")}
    shut = replace(base, flavors=flavors, pools=pools)
    assert [reason.params["pool"] for reason in shut_now(shut, asked)] == ["near"]
    assert can_ever_fit(shut, POLICY, asked) == ()
    pools = {"near": PoolView("near", "c1"), "far": PoolView("far", "c2", shut={"by": "ann"})}
    assert shut_now(replace(base, flavors=flavors, pools=pools), asked) == ()
