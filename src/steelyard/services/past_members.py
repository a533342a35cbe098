"""The members of attempts as they were at a past instant: where each was, what it held, and who left."""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.model.resources import DeviceClass, ShareKind
from steelyard.model.workloads import MemberPlan
from steelyard.services.live_records import LiveAllocation
from steelyard.store import past as rows
from steelyard.store.database import View


@dataclass(slots=True)
class Had:
    """What an attempt had. `ids`: by member, its id where it was apart, else 0; `leaving`: those of them that
    had been asked to stop; `shrunk_at`: when any were last asked, also such that are gone since."""

    plans: list[MemberPlan] = field(default_factory=list)
    held: list[LiveAllocation] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    leaving: set[int] = field(default_factory=set)
    shrunk_at: int | None = None


def had_at(view: View, at: int, attempt_ids: list[int]) -> dict[int, Had]:
    """By attempt. What was decided at the instant itself was not known yet."""
    by_member: dict[int, list[LiveAllocation]] = {}
    for row in rows.allocations(view, at):
        by_member.setdefault(row.member_id, []).append(
            LiveAllocation(
                row.id, row.device_id, row.node_id, row.cluster, row.flavor,
                DeviceClass(row._mapping["class"]), row.quantity, ShareKind(row.share_kind), row.t0,
                row.org_version, row.policy_version, row.quota_basis, row.lender,
            )
        )  # fmt: skip
    found = {attempt: Had() for attempt in attempt_ids}
    for row in rows.members(view, attempt_ids):
        asked = row.leaving_at if row.leaving_at is not None and row.leaving_at < at else None
        if asked is not None:
            found[row.attempt_id].shrunk_at = max(asked, found[row.attempt_id].shrunk_at or 0)
        if row.released_at is not None and row.released_at <= at:
            continue
        if row.joined_at is not None and row.joined_at >= at:
            continue
        own, had = by_member.get(row.id, []), found[row.attempt_id]
        allocations = tuple(item.plan() for item in own)
        had.plans.append(MemberPlan(row.role, row.idx, row.cluster, row.node_id, allocations))
        had.held += own
        had.ids.append(row.id if row.apart else 0)
        if asked is not None:
            had.leaving.add(row.id)
    return found
