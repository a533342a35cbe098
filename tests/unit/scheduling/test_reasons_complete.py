"""All reasons, not the first that was met: every limit on the path, every flavor, and holders that sum up."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.scheduling import explain
from steelyard.scheduling.context import Context
from steelyard.scheduling.ledger import Ask
from steelyard.scheduling.own_turn import turn_of
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.quota import shortfalls
from steelyard.scheduling.remedies import world_of
from tests.unit.scheduling.build import NOW, WAITS_FOR_SOMEBODY
from tests.unit.scheduling.test_smallest import Case, cases


def waits(case: Case) -> list[Reason] | None:
    """Its reasons; None where it starts, has a place kept, or nothing was left out for being too many."""
    found = explain(case.snapshot, case.policy, NOW, case.shape, case.item)
    if found.placement is not None or found.hold is not None:
        return None
    assert found.reasons
    return list(found.reasons)


@pytest.mark.requirement("E5", "J4")
@given(cases())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_waits_has_a_reason_that_says_what_wakes_it_and_holders_sum_to_the_shortfall(
    case: Case,
) -> None:
    for reason in waits(case) or ():
        assert reason.code in set(ReasonCode)
        assert reason.wakes_on
        if reason.short_by is not None:
            assert reason.short_by > 0
            if reason.limit is not None and reason.used is not None and reason.requested is not None:
                assert reason.short_by == reason.used + reason.requested - reason.limit
        if reason.code in WAITS_FOR_SOMEBODY and reason.short_by is not None:
            assert sum(holder.amount for holder in reason.holders) == reason.short_by
            assert all(holder.amount > 0 for holder in reason.holders)


@given(cases())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_limit_on_the_path_that_is_short_and_every_flavor_is_named(case: Case) -> None:
    reasons = waits(case)
    turn = turn_of(world_of(case.snapshot, case.shape, case.item), case.policy, NOW)
    if reasons is None or turn is None or turn.moved or any("more_reasons" in r.params for r in reasons):
        return
    context = turn.context
    if context.is_barred(turn.shape):
        return
    plan = context.plan(turn.shape)
    for ask in plan.class_asks:
        for node in short_nodes(context, ask):
            assert any(
                (reason.owner, reason.resource, reason.flavor, reason.params.get("tree"))
                == (node, ask.subject, None, ask.tree)
                for reason in reasons
            ), (node, ask)
    if not any(short_nodes(context, ask) for ask in plan.class_asks) and plan.roles:
        blocked = [reason for reason in reasons if reason.code not in BEHIND]
        for flavor in plan.lead.flavors if blocked else ():
            assert any(speaks_of(context, plan, reason, flavor) for reason in blocked), flavor


#: It would fit, and somebody else is first: no flavor is short of anything.
BEHIND = frozenset({
    ReasonCode.PENDING_EVALUATION, ReasonCode.PRIORITY, "behind-head", "draining", "reserved-for",
})  # fmt: skip


def speaks_of(context: Context, plan: ShapePlan, reason: Reason, flavor: str) -> bool:
    """It is about the flavor, or about another role that would go with it to its cluster."""
    if reason.flavor == flavor or flavor in str(reason.params):
        return True
    flavors = context.snapshot.flavors
    other = reason.params.get("role") not in (None, plan.lead.name)
    cluster = flavors[reason.flavor].cluster if reason.flavor in flavors else reason.params.get("cluster")
    return other and cluster == flavors[flavor].cluster


def short_nodes(context: Context, ask: Ask) -> set[str]:
    """The nodes whose own limit stands in the way at its turn."""
    tree = context.snapshot.trees[ask.tree]
    return {
        short.node
        for usages in context.ledger.worlds
        for short in shortfalls(tree, usages[ask.tree], ask.node, ask.subject, ask.quantity)
    }
