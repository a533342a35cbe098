"""S-07: all reasons that block, ranked, with what each is short of; not the first that was met."""

from __future__ import annotations

from steelyard.scheduling import explain, hard_limit
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    group,
    item,
    node,
    nominal,
    org_tree,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)


def test_each_limit_above_it_and_each_flavor_has_its_reason_and_quota_comes_first() -> None:
    queues = queue_tree(nominal("q", "gpu", 6000, 0) | nominal("cohort", "gpu", 0))
    organisation = org_tree({("p", "gpu"): hard_limit("p", "gpu", 5000)})
    base = snapshot(
        [node(1, gpus=4, flavor="a100"), node(2, gpus=2, flavor="b200")],
        queues=queues, organisation=organisation,
    )  # fmt: skip
    base = started(base, group(shape("runs", request(gpu=2000)), item(90), item(91)))
    wanted = shape("s", request(gpu=4000))
    found = explain(base, POLICY, NOW, wanted, item(1))
    told = [(reason.code, reason.owner, reason.short_by) for reason in found.reasons]
    quota = [entry for entry in told if entry[0] in ("over-limit", "waiting-for-quota")]
    assert {owner for _, owner, _ in quota} == {"q", "cohort", "p"}
    assert told[: len(quota)] == quota
    assert {reason.flavor for reason in found.reasons if reason.stage == "placement"} == {"a100", "b200"}
