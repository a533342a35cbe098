"""What an accepted change is worth saying: children above their parent, limits below use, nobody to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steelyard.model.errors import Param
from steelyard.services.kinds import CohortSpec, Kind, NamespaceSpec, ProjectSpec, QueueSpec, QuotaSpec
from steelyard.services.references import World
from steelyard.services.scheduling_rules import path_of
from steelyard.services.scheduling_spec import SCHEDULING_NAME, SchedulingPolicySpec

Usage = Mapping[tuple[str, str, str], int]  # (tree, node, subject) → quantity


@dataclass(frozen=True, slots=True)
class Warned:
    """A code and its parameters; the sentence is made late."""

    code: str
    params: dict[str, Param] = field(default_factory=dict)


def quota_warnings(world: World, quota: QuotaSpec, usage: Usage) -> list[Warned]:
    """Warnings about the limits of one quota as they stand in the world."""
    return [*_below_use(quota, usage), *_overcommitted(world, quota)]


def queue_warnings(world: World, name: str) -> list[Warned]:
    """A queue of which nobody was named to settle what is in dispute."""
    nodes = {d.name: d.spec for d in world.values() if isinstance(d.spec, QueueSpec | CohortSpec)}
    policy = world.get((Kind.SCHEDULING_POLICY.value, SCHEDULING_NAME))
    owners = [nodes[node].rules.owner for node in path_of(nodes, name)]
    if policy is not None and isinstance(policy.spec, SchedulingPolicySpec):
        owners.append(policy.spec.defaults.owner)
    return [] if any(owners) else [Warned("queue-without-owner", {"queue": name})]


def _below_use(quota: QuotaSpec, usage: Usage) -> Iterator[Warned]:
    for limit in quota.limits:
        used = usage.get((quota.tree, quota.node, limit.subject), 0)
        if used > limit.hard:
            yield Warned(
                "quota-below-use",
                {"node": quota.node, "subject": limit.subject, "limit": limit.hard, "used": used},
            )


def _overcommitted(world: World, quota: QuotaSpec) -> Iterator[Warned]:
    """The sum rule, for the node itself and for its parent."""
    hard = _hard_limits(world)
    nodes = [quota.node]
    parent = _parent(world, quota.node)
    if parent is not None:
        nodes.append(parent)
    for node in nodes:
        for subject in sorted({subject for owner, subject in hard if owner == node}):
            total = sum(
                amount
                for (owner, limited), amount in hard.items()
                if limited == subject and _parent(world, owner) == node
            )
            if total > hard[node, subject]:
                yield Warned(
                    "quota-overcommitted",
                    {"node": node, "subject": subject, "limit": hard[node, subject], "children": total},
                )


def _hard_limits(world: World) -> dict[tuple[str, str], int]:
    return {
        (document.spec.node, limit.subject): limit.hard
        for document in world.values()
        if isinstance(document.spec, QuotaSpec)
        for limit in document.spec.limits
    }


def _parent(world: World, node: str) -> str | None:
    level, _, name = node.partition("/")
    if level == "namespace" and (Kind.NAMESPACE.value, name) in world:
        spec = world[Kind.NAMESPACE.value, name].spec
        return f"project/{spec.project}" if isinstance(spec, NamespaceSpec) else None
    if level == "project" and (Kind.PROJECT.value, name) in world:
        spec = world[Kind.PROJECT.value, name].spec
        return f"team/{spec.team}" if isinstance(spec, ProjectSpec) else None
    return None
