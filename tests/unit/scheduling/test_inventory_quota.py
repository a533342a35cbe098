"""Quota against what there is: the difference by class and flavor."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import QUEUE_TREE, Limit
from steelyard.scheduling import Snapshot
from steelyard.scheduling.inventory_quota import Compared, compare
from tests.unit.scheduling.build import node, nominal, queue_tree, snapshot


def found(base: Snapshot) -> dict[str, Compared]:
    return {one.subject: one for one in compare(base.trees[QUEUE_TREE], base.nodes.values(), base.flavors)}


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans()), min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["cohort", "q", "r"]), st.integers(0, 20), max_size=3),
)
def test_what_is_owned_is_what_is_offered_less_what_nobody_owns_and_what_is_not_there(
    machines: list[tuple[int, int, bool]], own: dict[str, int]
) -> None:
    nodes = []
    for number, (gpus, away, up) in enumerate(machines, 1):
        made = node(number, gpus=gpus, schedulable=up)
        withheld = {"a100": (("unhealthy", min(away, gpus) * 1000),)} if gpus else {}
        nodes.append(replace(made, withheld=withheld))
    limits: dict[tuple[str, str], Limit] = {}
    for name, quantity in own.items():
        limits |= nominal(name, "gpu", quantity * 1000)
    one = found(snapshot(nodes, queues=queue_tree(limits, ("q", "r")))).get("gpu")
    there = sum(gpus for gpus, _, _ in machines) * 1000
    offered = sum(gpus - min(away, gpus) for gpus, away, up in machines if up) * 1000
    if one is None:
        assert there == 0
        assert not own
        return
    assert (one.there, one.offered) == (there, offered)
    if not own:
        assert (one.owned, one.ghost, one.unowned) == (None, 0, 0)
        return
    assert one.owned == sum(own.values()) * 1000
    assert one.owned == one.offered + one.ghost - one.unowned
    assert min(one.ghost, one.unowned) == 0


def test_a_flavor_of_which_nothing_is_there_is_told() -> None:
    base = snapshot([node(1, gpus=2)], queues=queue_tree(nominal("q", "flavor/h100", 4000)))
    assert found(base)["flavor/h100"] == Compared("flavor/h100", 4000, 0, 0)
    assert found(base)["flavor/h100"].ghost == 4000


def test_without_queues_nothing_is_owned() -> None:
    base = snapshot([node(1, gpus=2)])
    assert {one.owned for one in compare(None, base.nodes.values(), base.flavors)} == {None}
