"""S-28: a workload is never pinned to its first flavor while the second is idle."""

from __future__ import annotations

from dataclasses import replace

from steelyard.model.policy import FlavorFungibility, QueueRules, ResourceGroup, Search
from steelyard.scheduling import decide
from tests.unit.scheduling.build import (
    NOW,
    ended,
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

FIRST, SECOND = "h100", "a100"
GROUPS = (ResourceGroup(("gpu", "cpu", "memory"), (FIRST, SECOND)),)
NEXT = FlavorFungibility(when_can_borrow=Search.TRY_NEXT)
RULES = policy(queues={"q": QueueRules(groups=GROUPS, fungibility=NEXT)})


def test_the_second_flavor_is_taken_in_the_very_cycle_in_which_it_becomes_idle() -> None:
    limits = nominal("q", f"flavor/{FIRST}", 1000) | nominal("q", f"flavor/{SECOND}", 1000)
    base = snapshot(
        [node(1, gpus=1, flavor=FIRST), node(2, gpus=1, flavor=SECOND)], queues=queue_tree(limits)
    )
    job = shape("job", request(gpu=1000))
    base = started(base, *(
        group(shape(f"on-{name}", request(gpu=1000, flavors=(name,))), item(number))
        for number, name in ((10, FIRST), (11, SECOND))
    ))
    base = replace(base, pending=(group(job, item(1)),))
    for cycle in range(5):  # tried again and again while both are full: that leaves nothing behind
        decisions = decide(base, RULES, NOW + cycle)
        assert placed(decisions) == []
        base = base.apply(decisions)
    idle = ended(base, 11)
    (placement,) = decide(idle, RULES, NOW + 5).placements
    assert placement.members[0].allocations[0].flavor == SECOND
    both = ended(idle, 10)
    (placement,) = decide(both, RULES, NOW + 5).placements
    assert placement.members[0].allocations[0].flavor == FIRST  # and from the first again, once it is free
