"""What becomes of work above a limit, for people: who is above, by how much, who leaves, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steelyard.model.ids import render
from steelyard.model.policy import Policy
from steelyard.scheduling import ChangeLimit, QuotaTree, Snapshot
from steelyard.scheduling.changes import with_trees
from steelyard.scheduling.decisions import Leaving, PassedLimit
from steelyard.scheduling.lowered import Departure, Passed, foreseen
from steelyard.scheduling.what_if import FollowTrees, WhatIf, changed_by
from steelyard.services.live_load import load_state
from steelyard.services.policy import policy_of
from steelyard.services.references import World
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
MAX_SHOWN = 200


def limit_view(limit: PassedLimit | None) -> Json | None:
    """The limit for which somebody is stopped; None where it is for somebody else."""
    if limit is None:
        return None
    return {
        "tree": limit.tree, "node": limit.node, "subject": limit.subject, "limit": limit.limit,
        "used": limit.used,
    }  # fmt: skip


def fewer_view(members: Sequence[Leaving], stay: int) -> Json:
    """Which members leave a gang that goes on, how many it had, and with how many it goes on."""
    return {
        "members": [{"role": gone.role, "index": gone.index} for gone in members],
        "had": len(members) + stay,
        "goes_on_with": stay,
    }


def becoming_passed(
    snapshot: Snapshot, policy: Policy, now: int, changes: Sequence[WhatIf]
) -> tuple[Passed, ...]:
    """The limits that are passed with the changes, and were not, or not so, without them."""
    if not any(isinstance(change, FollowTrees | ChangeLimit) for change in changes):
        return ()
    known = {(each.limit, each.effect) for each in foreseen(snapshot, policy, now)}
    changed, then = changed_by(snapshot, policy, changes)
    return tuple(each for each in foreseen(changed, then, now) if (each.limit, each.effect) not in known)


def says_more(before: Mapping[str, QuotaTree], after: Mapping[str, QuotaTree]) -> bool:
    """Whether a change of limits may ask somebody to leave who was not asked before."""
    return any(tree.watched for tree in after.values()) and any(
        name not in before or before[name].limits != tree.limits for name, tree in after.items()
    )


def leaving_by(
    view: View, before: tuple[Mapping[str, QuotaTree], World], after: tuple[Mapping[str, QuotaTree], World],
    now: int,
) -> dict[tuple[str, str, str], Passed]:
    """By tree, node and subject, the limits that a change of the declared objects lets be passed, or passed
    in another way than so far, if anybody leaves for any of them; of what lives now. Else none."""
    snapshot = load_state(view).snapshot()
    was, then = (
        foreseen(with_trees(snapshot, trees), policy_of(world.values(), 0), now)
        for trees, world in (before, after)
    )
    found = [each for each in then if each not in was]
    if not any(each.leaving for each in found):
        return {}
    return {(each.limit.tree, each.limit.node, each.limit.subject): each for each in found}


def passed_view(passed: Iterable[Passed], names: Mapping[int, Record], now: int) -> list[Json]:
    """Each limit that is passed. `over` is without what stops already; `leaving` in the order in which they
    are asked to stop, `at` from when on, `quantity` what is used less then; of a gang that goes on also which
    `members` leave, of how many it `had` (null where all of it stops); `stays` is what is above after that,
    until more ends by itself; `within_at`: when the last is asked, null where something stays. Names are of
    `names` alone."""
    return [
        {
            **(limit_view(each.limit) or {}),
            "over": each.over,
            "effect": each.effect.value,
            "leaving_count": len(each.leaving),
            "leaving": [
                {
                    **_named(gone.view.workload_id, names), "queue": gone.view.queue,
                    "priority": gone.view.priority, "quantity": _quantity(each.limit, gone),
                    "at": max(now, gone.at), **_fewer(gone),
                }
                for gone in each.leaving[:MAX_SHOWN]
            ],
            "stays": each.stays,
            "within_at": None if each.stays else max((gone.at for gone in each.leaving), default=now),
        }
        for each in passed
    ]  # fmt: skip


def _quantity(limit: PassedLimit, gone: Departure) -> int:
    """What the node uses less once it has left. Members that leave give up what they are charged."""
    if not gone.members:
        return gone.gain
    charges = (charge for one in gone.members for charge in one.charges)
    given = sum(c.quantity for c in charges if (c.tree, c.subject) == (limit.tree, limit.subject))
    return min(gone.gain, given)


def _fewer(gone: Departure) -> Json:
    if not gone.members:
        return {"members": None, "had": None, "goes_on_with": None}
    return fewer_view(gone.members, len(gone.view.members) - len(gone.members))


def workloads_of(passed: Iterable[Passed]) -> set[int]:
    """Whom `passed_view` names."""
    return {gone.view.workload_id for each in passed for gone in each.leaving[:MAX_SHOWN]}


def _named(number: int, names: Mapping[int, Record]) -> Json:
    known = names.get(number)
    return {
        "id": render("workload", number) if known else None,
        "name": known["name"] if known else None,
        "project": known["project"] if known else None,
    }
