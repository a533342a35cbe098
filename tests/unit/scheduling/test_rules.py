"""What a queue goes by: its own rules, else the nearest cohort's, else the defaults."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import (
    QUEUE_TREE,
    FlavorFungibility,
    Policy,
    PreemptionRule,
    Preference,
    QueueingStrategy,
    QueueRules,
    Reclaim,
    ResourceGroup,
    TreeNode,
)
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.rules import OWNER, RESERVATIONS, STARVATION_BOUND, STRATEGY, Rules, rules_of

CHAIN = ("queue", "inner", "middle", "top")


def _tree() -> QuotaTree:
    above = dict(zip(CHAIN, (*CHAIN[1:], None), strict=True))
    nodes = {
        name: TreeNode(QUEUE_TREE, name, "queue" if name == "queue" else "cohort", parent)
        for name, parent in above.items()
    }
    return QuotaTree(nodes, {})


RULES = st.builds(
    QueueRules,
    strategy=st.none() | st.sampled_from(QueueingStrategy),
    fungibility=st.none() | st.builds(FlavorFungibility, preference=st.sampled_from(Preference)),
    preemption=st.none() | st.builds(PreemptionRule, reclaim=st.sampled_from(Reclaim)),
    groups=st.sampled_from([(), (ResourceGroup(("gpu",), ("a", "b")),)]),
    reservations=st.none() | st.integers(0, 3),
    starvation_bound=st.none() | st.integers(1, 9),
    weight=st.integers(1, 5000),
    owner=st.none() | st.sampled_from(["ann", "bob"]),
)


@given(st.dictionaries(st.sampled_from(CHAIN), RULES), RULES)
def test_each_rule_is_that_of_the_nearest_that_declares_it(
    declared: dict[str, QueueRules], defaults: QueueRules
) -> None:
    policy = Policy(1, queues=declared, defaults=defaults)
    found = rules_of(policy, _tree(), "queue")
    given_by = [declared[name] for name in CHAIN if name in declared] + [defaults]
    for item in fields(found):
        if item.name == "weight":
            continue
        named = [getattr(rules, item.name) for rules in given_by]
        said = [value for value in named if value is not None and value != ()]
        if said:
            assert getattr(found, item.name) == said[0]
    own = declared.get("queue", defaults)
    assert found.weight == own.weight


def test_without_any_declaration_the_defaults_hold() -> None:
    rule = PreemptionRule(min_runtime=7)
    found = rules_of(Policy(1, preemption=rule), _tree(), "queue")
    assert found.strategy is STRATEGY
    assert found.preemption == rule
    assert (found.reservations, found.starvation_bound) == (RESERVATIONS, STARVATION_BOUND)
    assert (found.groups, found.weight, found.owner) == ((), 1000, OWNER)


def test_a_queue_that_the_tree_does_not_know_goes_by_its_own_rules() -> None:
    policy = Policy(1, queues={"gone": QueueRules(reservations=3), "top": QueueRules(owner="ann")})
    assert rules_of(policy, _tree(), "gone").reservations == 3
    assert rules_of(policy, None, "gone").owner == OWNER


def test_rules_remembers_what_rules_of_says() -> None:
    policy = Policy(1, queues={"top": QueueRules(owner="ann")})
    rules = Rules(policy, _tree())
    assert rules.of("queue") == rules_of(policy, _tree(), "queue")
    assert rules.of("queue") is rules.of("queue")
