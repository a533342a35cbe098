"""What an accepted change is worth saying: children above their parent, limits below use, nobody to ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.model.errors import Param
from steelyard.scheduling.lowered import Passed
from steelyard.services.kinds import CohortSpec, Kind, QueueSpec, QuotaSpec
from steelyard.services.quota_sums import Over, parent_of, sums, unit_of_subject
from steelyard.services.references import World
from steelyard.services.scheduling_rules import path_of
from steelyard.services.scheduling_spec import SCHEDULING_NAME, SchedulingPolicySpec
from steelyard.store.scoped import Record

MAX_NAMES = 8


@dataclass(frozen=True, slots=True)
class Warned:
    """A code and its parameters; the sentence is made late."""

    code: str
    params: dict[str, Param] = field(default_factory=dict)


def quota_warnings(world: World, quota: QuotaSpec) -> list[Warned]:
    """Where over-commit that is declared comes to something: at the node itself and at its parent."""
    nodes = {quota.node, parent_of(world, quota.node)}
    return [
        Warned(
            "quota-overcommitted",
            {
                "node": node, "subject": subject, "resource": unit_of_subject(subject), "limit": found.limit,
                "children": found.children,
            },
        )
        for (node, subject), found in sums(world).items()
        if node in nodes and found.over
    ]  # fmt: skip


def over_warnings(
    over: Iterable[Over], held: Sequence[Record], leaving: Mapping[tuple[str, str, str], Passed]
) -> list[tuple[str, Warned]]:
    """(node, warning) of the nodes that a change leaves above their limits. With the workloads that have to
    end before anything new starts, the least priority first, then the newest; or, where the limit says that
    they leave (`leaving`, by tree, node and subject), with those that are asked to, and when."""
    found = []
    for one in over:
        passed = leaving.get((one.tree, one.node, one.subject))
        if passed is not None and passed.leaving:
            found.append((one.node, _leaves(one, passed)))
            continue
        names = list(_to_end(one, held))
        params: dict[str, Param] = {
            "node": one.node, "subject": one.subject, "resource": unit_of_subject(one.subject),
            "limit": one.limit, "used": one.used, "over": one.used - one.limit, "workloads": len(names),
            "names": ", ".join(names[:MAX_NAMES]) or None,
        }  # fmt: skip
        found.append((one.node, Warned("quota-below-use", params)))
    return found


def _leaves(over: Over, passed: Passed) -> Warned:
    instants = [gone.at for gone in passed.leaving]
    names = [gone.view.name for gone in passed.leaving[:MAX_NAMES] if gone.view.name is not None]
    return Warned(
        "quota-below-use-leaves",
        {
            "node": over.node, "subject": over.subject, "resource": unit_of_subject(over.subject),
            "limit": over.limit, "used": over.used, "over": over.used - over.limit,
            "effect": passed.effect.value, "workloads": len(instants), "names": ", ".join(names) or None,
            "first": min(instants), "last": max(instants), "stays": passed.stays or None,
        },
    )  # fmt: skip


def _to_end(over: Over, held: Sequence[Record]) -> Iterator[str]:
    excess = over.used - over.limit
    mine = [row for row in held if over.node in row["nodes"] and over.subject in row["amounts"]]
    for row in sorted(mine, key=lambda row: (row["priority"], -row["since"], -row["id"])):
        if excess <= 0:
            return
        excess -= row["amounts"][over.subject]
        yield row["name"]


def queue_warnings(world: World, name: str) -> list[Warned]:
    """A queue of which nobody was named to settle what is in dispute."""
    nodes = {d.name: d.spec for d in world.values() if isinstance(d.spec, QueueSpec | CohortSpec)}
    policy = world.get((Kind.SCHEDULING_POLICY.value, SCHEDULING_NAME))
    owners = [nodes[node].rules.owner for node in path_of(nodes, name)]
    if policy is not None and isinstance(policy.spec, SchedulingPolicySpec):
        owners.append(policy.spec.defaults.owner)
    return [] if any(owners) else [Warned("queue-without-owner", {"queue": name})]
