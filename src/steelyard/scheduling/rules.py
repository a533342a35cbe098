"""The rules a queue or cohort goes by: its own, else those of the nearest cohort above, else the defaults."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.model.policy import (
    FlavorFungibility,
    Policy,
    Precedence,
    PreemptionRule,
    QueueingStrategy,
    ResourceGroup,
)
from steelyard.model.units import DAY
from steelyard.scheduling.quota import QuotaTree

#: Where nothing is declared: as Kueue's ClusterQueue is by default.
STRATEGY = QueueingStrategy.BEST_EFFORT_FIFO
#: Blocked workloads of a queue that get a place on the timeline.
RESERVATIONS = 1
#: What can ever fit starts within it, or is flagged.
STARVATION_BOUND = 7 * DAY
#: Who settles conflicts where no queue names anybody: those who may change the policy.
OWNER = "administrators"


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """`model.policy.QueueRules` where every field says something; see there."""

    strategy: QueueingStrategy
    fungibility: FlavorFungibility
    preemption: PreemptionRule
    groups: tuple[ResourceGroup, ...]  # none: any flavor, in the request's order
    reservations: int
    starvation_bound: int  # µs
    weight: int  # thousandths
    owner: str
    precedence: Precedence = Precedence.FIRST_COME


def rules_of(policy: Policy, tree: QuotaTree | None, node: str) -> RulesInForce:
    """What a queue or cohort goes by.

    Each field is that of the nearest node from `node` up that declares it; then `policy.defaults`, then what
    is written above. The weight is the node's own and never inherited, for it counts beside its siblings.
    """
    path = tree.path(node) if tree is not None and node in tree.nodes else (node,)
    declared = [policy.queues[name] for name in path if name in policy.queues]
    declared.append(policy.defaults)
    own = policy.queues.get(node)
    return RulesInForce(
        strategy=next((r.strategy for r in declared if r.strategy is not None), STRATEGY),
        fungibility=next((r.fungibility for r in declared if r.fungibility is not None), FlavorFungibility()),
        preemption=next((r.preemption for r in declared if r.preemption is not None), policy.preemption),
        groups=next((r.groups for r in declared if r.groups), ()),
        reservations=next((r.reservations for r in declared if r.reservations is not None), RESERVATIONS),
        starvation_bound=next(
            (r.starvation_bound for r in declared if r.starvation_bound is not None), STARVATION_BOUND
        ),
        weight=own.weight if own is not None else policy.defaults.weight,
        owner=next((r.owner for r in declared if r.owner is not None), OWNER),
        precedence=next((r.precedence for r in declared if r.precedence is not None), Precedence.FIRST_COME),
    )


class Rules:
    """`rules_of` for one policy and tree, each node once: kept beside the tree while that policy lasts."""

    def __init__(self, policy: Policy, tree: QuotaTree | None) -> None:
        self._policy = policy
        self._tree = tree
        self._known: dict[str, RulesInForce] = {}
        if tree is not None:
            kept = tree.memory.get("rules")
            if isinstance(kept, tuple) and kept[0] is policy:
                self._known = kept[1]
            else:
                tree.memory["rules"] = (policy, self._known)

    def of(self, node: str) -> RulesInForce:
        """See `rules_of`."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = rules_of(self._policy, self._tree, node)
        return known
