"""What limits count: whole devices, fractions, device memory, devices by their worth, and each user's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.errors import InvalidError
from steelyard.model.policy import ORG_TREE, USER_TREE, Limit, Measure, OnExceed, Policy, TreeNode
from steelyard.model.resources import DeviceClass, ShareKind
from steelyard.model.units import format_quantity, parse_quantity
from steelyard.model.workloads import AllocationPlan, Shape
from steelyard.scheduling import (
    QuotaTree,
    Snapshot,
    can_ever_fit,
    decide,
    hard_limit,
    over_refusing_limit,
    with_unbounded_root,
)
from steelyard.scheduling.subjects import Counting, held_by, measured, own_nodes, user_path
from steelyard.scheduling.views import FlavorView
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    NPU,
    check_answer,
    codes,
    group,
    item,
    node,
    org_tree,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
)

TABLE = policy(
    conversions={"a100": 1000, "t4": 250, "npu1": 600}, memories={"a100": 80 * 1024, "t4": 16 * 1024}
)
FLAVORS = {
    "a100": FlavorView("a100", GPU, "c1", model="a100"),
    "t4": FlavorView("t4", GPU, "c1", model="t4"),
    "odd": FlavorView("odd", GPU, "c1", model="other"),
    "npu1": FlavorView("npu1", NPU, "c1", model="npu1"),
}
ALLOCATIONS = st.lists(
    st.builds(
        lambda flavor, quantity: AllocationPlan(
            1, 1, flavor, FLAVORS[flavor].device_class, quantity, ShareKind.EXCLUSIVE
        ),
        st.sampled_from(sorted(FLAVORS)),
        st.sampled_from([1000, 1000, 250, 333, 999, 1]),
    ),
    max_size=12,
)


def limited(subject: str, hard: int, on_exceed: OnExceed = OnExceed.WAIT) -> QuotaTree:
    """The organisation with one limit, on the project."""
    return org_tree({("p", subject): hard_limit("p", subject, hard, on_exceed)})


def users(**limits: int) -> QuotaTree:
    """Limits on gpu of users' nodes (`ann`, `ann_p`: in the project)."""
    nodes: dict[str, TreeNode] = {}
    found: dict[tuple[str, str], Limit] = {}
    for name, hard in limits.items():
        user, _, project = name.partition("_")
        nodes[f"user/{user}"] = TreeNode(USER_TREE, f"user/{user}", "user", None)
        key = f"user/{user}@{project}" if project else f"user/{user}"
        if project:
            nodes[key] = TreeNode(USER_TREE, key, "user", f"user/{user}")
        found[key, "gpu"] = hard_limit(key, "gpu", hard, tree=USER_TREE)
    return with_unbounded_root(USER_TREE, nodes, found, "users")


def waiting(of: Shape, count: int = 9) -> object:
    return group(of, *(item(number) for number in range(1, count + 1)))


def world(
    organisation: QuotaTree, *shapes: Shape, nodes: object = None, people: QuotaTree | None = None
) -> Snapshot:
    machines = nodes or [node(1, gpus=4), node(2, gpus=4, flavor="t4")]
    groups = [group(s, *(item(100 * i + n) for n in range(1, 10))) for i, s in enumerate(shapes)]
    base = snapshot(machines, *groups, queues=queue_tree(), organisation=organisation)  # type: ignore[arg-type]
    return base if people is None else replace(base, trees={**base.trees, USER_TREE: people})


def every_measure() -> QuotaTree:
    limits = {}
    for cls in ("gpu", "npu"):
        for measure in Measure:
            subject = f"{cls}/{measure.value}"
            limits["p", subject] = hard_limit("p", subject, 10**9)
    return org_tree(limits)


@pytest.mark.requirement("B2", "J6")
@given(ALLOCATIONS)
def test_a_measure_is_the_sum_over_what_is_held_of_its_class_alone(allocations: list[AllocationPlan]) -> None:
    counting = Counting({ORG_TREE: every_measure()}, FLAVORS, TABLE)
    of_shape = shape("s", request(gpu=1000))
    charged = {charge.subject: charge.quantity for charge in counting.charges_of(of_shape, allocations)}
    for cls in (GPU, NPU):
        mine = [a for a in allocations if a.device_class is cls]
        worth = {"a100": 1000, "t4": 250, "odd": 1000, "npu1": 600}
        memory = {"a100": 81920, "t4": 16384, "odd": 81920, "npu1": 81920}
        wanted = {
            Measure.WHOLE: sum(a.quantity for a in mine if a.quantity == 1000),
            Measure.FRACTION: sum(a.quantity for a in mine if a.quantity < 1000),
            Measure.MEMORY: sum(a.quantity * memory[a.flavor] for a in mine),
            Measure.NORMALISED: sum(a.quantity * worth[a.flavor] for a in mine),
        }
        for measure, quantity in wanted.items():
            assert charged.get(f"{cls.value}/{measure.value}", 0) == quantity
        assert charged.get(cls.value, 0) == sum(a.quantity for a in mine)


@given(ALLOCATIONS, ALLOCATIONS)
def test_charges_of_parts_sum_to_the_charge_of_the_whole(
    some: list[AllocationPlan], others: list[AllocationPlan]
) -> None:
    counting = Counting({ORG_TREE: every_measure()}, FLAVORS, TABLE)
    of_shape = shape("s", request(gpu=1000))
    sums: dict[str, int] = {}
    for allocations in (some, others):
        for charge in counting.charges_of(of_shape, allocations):
            sums[charge.subject] = sums.get(charge.subject, 0) + charge.quantity
    assert sums == {c.subject: c.quantity for c in counting.charges_of(of_shape, [*some, *others])}


def test_a_measure_on_which_there_is_no_limit_is_not_charged() -> None:
    counting = Counting({ORG_TREE: limited("gpu/whole", 1)}, FLAVORS, TABLE)
    assert not counting.is_plain
    assert [name for name, _ in counting.beside(ORG_TREE, {"a100": 1500}, {(GPU, Measure.WHOLE): 1000})] == [
        "gpu/whole"
    ]
    assert Counting({ORG_TREE: limited("gpu", 1)}, FLAVORS, TABLE).is_plain


@pytest.mark.requirement("J6")
@pytest.mark.parametrize(
    ("subject", "hard", "amount", "starts"),
    [
        ("gpu/whole", 2000, 1000, 2),
        ("gpu/fraction", 1000, 500, 2),
        ("gpu/fraction", 1000, 1000, 8),
        ("gpu/memory", 100 * 1024 * 1000, 1000, 1),  # one of 80 GiB; 16 GiB more would do, 80 not
        ("gpu/normalised", 2 * 10**6, 1000, 2),
    ],
)
def test_a_limit_on_a_measure_holds_in_every_answer(
    subject: str, hard: int, amount: int, starts: int
) -> None:
    base = world(
        limited(subject, hard), shape("s", request(gpu=amount, flavors=("a100",))), nodes=[node(1, gpus=8)]
    )
    decisions = decide(base, TABLE, NOW)
    assert len(placed(decisions)) == starts
    after = check_answer(base, decisions)
    assert after.usage[ORG_TREE].get(("p", subject), 0) <= hard


@pytest.mark.requirement("J6")
def test_devices_of_less_worth_use_less_of_a_normalised_limit() -> None:
    """S-27: four of a quarter's worth beside one, under a limit of two."""
    small = shape("small", request(gpu=1000, flavors=("t4",)))
    large = shape("large", request(gpu=1000, flavors=("a100",)), priority=1)
    base = world(limited("gpu/normalised", 2 * 10**6), small, large)
    decisions = decide(base, TABLE, NOW)
    flavors = [p.members[0].allocations[0].flavor for p in decisions.placements]
    assert flavors == ["a100", "a100"]
    (reason,) = decisions.reasons["small"].reasons
    assert (reason.code, reason.resource, reason.owner) == ("waiting-for-quota", "gpu/normalised", "p")
    assert (reason.limit, reason.used, reason.requested, reason.short_by) == (
        2 * 10**6, 2 * 10**6, 250_000, 250_000,
    )  # fmt: skip
    assert sum(holder.amount for holder in reason.holders) == reason.short_by
    base = world(limited("gpu/normalised", 10**6), small)
    assert len(placed(decide(base, TABLE, NOW))) == 4


def test_more_than_a_measure_could_ever_give_never_fits() -> None:
    of_shape = shape("s", request(gpu=1000, flavors=("a100",)), count=3)
    base = world(limited("gpu/normalised", 2 * 10**6))
    assert [r.code for r in can_ever_fit(base, TABLE, of_shape)] == ["exceeds-max-quota"]
    small = shape("t", request(gpu=1000, flavors=("t4",)), count=3)
    assert can_ever_fit(base, TABLE, small) == ()


def test_a_measure_may_refuse_at_submit() -> None:
    of_shape = shape("s", request(gpu=500), queue="q")
    base = world(limited("gpu/fraction", 400, OnExceed.REFUSE))
    (reason,) = over_refusing_limit(base, of_shape, TABLE)
    assert (reason.resource, reason.requested, reason.limit) == ("gpu/fraction", 500, 400)


@pytest.mark.requirement("J6")
def test_a_user_is_limited_in_a_project_and_everywhere() -> None:
    def of(user: str, project: str, key: str) -> Shape:
        return replace(shape(key, request(gpu=1000), project=project), user=user)

    shapes = [of("ann", "p", "ann-p"), of("ann", "r", "ann-r"), of("bob", "p", "bob-p")]
    base = world(
        org_tree(projects=("p", "r")), *shapes, nodes=[node(1, gpus=8)], people=users(ann=3000, ann_p=2000)
    )
    decisions = decide(base, TABLE, NOW)
    started = [placement.shape_key for placement in decisions.placements]
    assert started.count("ann-p") == 2
    assert started.count("ann-r") == 1
    assert started.count("bob-p") == 5
    owners = {key: [r.owner for r in found.reasons] for key, found in decisions.reasons.items()}
    assert "user/ann@p" in owners["ann-p"]
    assert "user/ann" in owners["ann-r"]
    check_answer(base, decisions)


def test_a_user_without_limits_is_charged_nowhere() -> None:
    of_shape = replace(shape("s", request(gpu=1000)), user="bob")
    trees = {USER_TREE: users(ann=3000)}
    assert own_nodes(trees, of_shape) == ()
    assert user_path(None, "p") == ()


@pytest.mark.parametrize(
    ("resource", "text", "quantity", "shown"),
    [
        ("gpu/normalised", "2.25", 2_250_000, "2.25"),
        ("gpu/normalised", 8, 8_000_000, "8"),
        ("gpu/memory", "80Gi", 81_920_000, "80 GiB"),
        ("gpu/whole", 3, 3000, "3"),
        ("gpu/fraction", "0.5", 500, "0.5"),
    ],
)
def test_measures_are_read_and_shown_in_their_units(
    resource: str, text: object, quantity: int, shown: str
) -> None:
    assert parse_quantity(resource, text) == quantity
    assert format_quantity(resource, quantity) == shown
    with pytest.raises(InvalidError):
        parse_quantity(resource, "-1")


def test_a_subject_is_a_class_a_flavor_or_a_measure() -> None:
    assert measured("gpu") is None
    assert measured("flavor/memory") is None
    assert measured("npu/normalised") == (DeviceClass.NPU, Measure.NORMALISED)


def test_what_is_held_is_summed_by_class_flavor_and_part() -> None:
    held = held_by([AllocationPlan(1, 1, "a100", GPU, 1000), AllocationPlan(2, 1, "a100", GPU, 250)])
    assert (held.classes, held.flavors) == ({GPU: 1250}, {"a100": 1250})
    assert held.parts == {(GPU, Measure.WHOLE): 1000, (GPU, Measure.FRACTION): 250}


def test_without_a_table_every_model_counts_as_one() -> None:
    base = world(limited("gpu/normalised", 3 * 10**6), shape("s", request(gpu=1000)))
    assert len(placed(decide(base, Policy(1), NOW))) == 3
    assert codes(decide(base, Policy(1), NOW), "s") == ["waiting-for-quota"] * 2


def test_a_part_that_is_granted_larger_for_its_memory_counts_as_it_is_granted() -> None:
    """Half of a device's memory is half of the device, whatever part was asked for."""
    asked = replace(request(gpu=100), device_memory=40 * 1024)
    machine = replace(node(1, gpus=1), memories={100: 80 * 1024})
    for hard, starts in ((400, 0), (500, 1)):
        base = world(limited("gpu/fraction", hard), shape("s", asked), nodes=[machine])
        flavors = {**base.flavors, "a100": replace(base.flavors["a100"], memory=80 * 1024)}
        decisions = decide(replace(base, flavors=flavors), TABLE, NOW)
        assert len(placed(decisions)) == starts
        told = {(reason.resource, reason.requested) for reason in decisions.reasons["s"].reasons}
        assert ("gpu/fraction", 500) in told
