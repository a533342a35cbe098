"""What a cycle stores of the shapes that were looked at lately is all that its replay needs of them."""

from __future__ import annotations

from dataclasses import replace

from steelyard.model.policy import QueueOrder
from steelyard.scheduling import decide
from steelyard.services.basis import basis_body, read_basis
from steelyard.services.shapes import shape_id
from tests.unit.scheduling.build import (
    NOW,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

MILLISECOND = 1000


def test_a_shape_looked_at_lately_is_kept_where_the_cycle_itself_made_another_queue_borrow() -> None:
    """Nobody borrowed when the cycle began; what it started first did, and would be taken back from."""
    tree = queue_tree({**nominal("a", "gpu", 2000), **nominal("b", "gpu", 2000)}, ("a", "b"))
    base = snapshot([node(1, gpus=3)], queues=tree)
    older = shape("b" * 64, request(gpu=1000), queue="b")
    base = started(base, group(older, item(1), item(2)))
    urgent = replace(older, key="c" * 64, priority=5)
    waits = shape("a" * 64, request(gpu=1000), queue="a")
    looked = {waits.key: NOW - MILLISECOND}
    base = replace(base, pending=(group(urgent, item(51)), group(waits, item(50))), last_looked=looked)
    rules = policy(order=QueueOrder.STRICT_PRIORITY)
    decisions = decide(base, rules, NOW)
    assert (placed(decisions), decisions.evictions) == ([51], ())
    assert len(decide(replace(base, last_looked={}), rules, NOW).evictions) == 1  # so it matters
    kept = read_basis({"observations_json": basis_body(base, decisions, 0)}).looked
    assert kept == ((NOW - MILLISECOND, (shape_id(waits.key),)),)
