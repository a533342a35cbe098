"""S-36: a snapshot costs what changed since the last one, not what there is."""

from __future__ import annotations

from benchmarks.hall import Hall
from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from tests.unit.scheduling.build import queue_tree

ONE = MemberRequest(((DeviceClass.GPU, 1000),))


def hall() -> Hall:
    """Two hundred nodes, half of their devices held."""
    made = Hall(Policy(1), {QUEUE_TREE: queue_tree()})
    for _ in range(200):
        made.node("c", [(DeviceClass.GPU, "a100", "a100", 1000)] * 4)
    of = Shape("s", "q", "p", ("ns-p", "p"), 0, (("main", 1, ONE),), True)
    for _ in range(400):
        made.submit(of)
    made.cycle()
    return made


def test_of_a_snapshot_only_what_changed_is_new() -> None:
    made = hall()
    before = made.state.snapshot()
    ended = made.state.attempts[min(before.running)]
    made.end(ended)
    after = made.state.snapshot()
    changed = [node for node in after.nodes if after.nodes[node] is not before.nodes[node]]
    assert changed == [ended.members[0].node_id]
    assert all(after.running[key] is before.running[key] for key in after.running)
    assert len(before.running) - len(after.running) == 1
    assert after.nodes.frame is before.nodes.frame  # type: ignore[attr-defined]


def test_without_changes_it_is_the_same() -> None:
    made = hall()
    before, after = made.state.snapshot(), made.state.snapshot()
    assert after.nodes is before.nodes
    assert after.running is before.running


def test_an_earlier_snapshot_is_not_touched_by_what_comes_after() -> None:
    made = hall()
    before = made.state.snapshot()
    free = {node: view.accelerators["a100"].whole for node, view in before.nodes.items()}
    for attempt in list(made.state.attempts.values())[:50]:
        made.end(attempt)
    made.state.snapshot()
    assert {node: view.accelerators["a100"].whole for node, view in before.nodes.items()} == free
    assert len(before.running) == 400
