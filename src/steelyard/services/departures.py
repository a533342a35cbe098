"""In which order what runs leaves a place that is drained, and when a replica of a service may."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from steelyard.identity.authorise import authorise
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Principal, Verb
from steelyard.services.groups import SERVICE
from steelyard.services.live import LiveState
from steelyard.services.live_load import load_state
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.services.places import Place, place_named
from steelyard.store import groups
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
NOUN = "device"
RUNS = (Phase.STARTING, Phase.RUNNING)

DRAINED = "drained"
AT_ONCE = "at-once"


def departure_order(attempt: LiveAttempt) -> tuple[int, int, int]:
    """Lowest priority first, then who needs least time to leave, then the newest."""
    return attempt.priority, attempt.spec.grace, -attempt.attempt_id


def may_leave(attempt: LiveAttempt, group: Iterable[LiveAttempt], guaranteed: int, wanted: int) -> bool:
    """Whether a service stays within its guarantee without this replica; one not ready carries nothing.

    Where less is wanted than guaranteed, what is wanted is kept.
    """
    ready = {one.attempt_id for one in group if _carries(one)}
    if attempt.attempt_id not in ready:
        return True
    return len(ready) - 1 >= min(guaranteed, wanted)


def members_that_go(attempt: LiveAttempt, devices: Collection[int]) -> list[LiveMember]:
    """Who of an elastic gang leaves so that nobody stays on these devices; empty where it can't go on without
    them. Members leave from the highest index down, so that those who stay are numbered without a gap."""
    lowest: dict[str, int] = {}
    for member in attempt.staying:
        if any(a.device_id in devices for a in member.allocations):
            lowest[member.role] = min(member.index, lowest.get(member.role, member.index))
    fewest = {role.name: role.least for role in attempt.spec.roles if role.least is not None and role.shrink}
    if any(name not in fewest or index < (fewest[name] or 0) for name, index in lowest.items()):
        return []
    found = [m for m in attempt.staying if m.role in lowest and m.index >= lowest[m.role]]
    return sorted(found, key=lambda member: (member.role, -member.index))


def _carries(attempt: LiveAttempt) -> bool:
    return (
        attempt.phase is Phase.RUNNING
        and attempt.stop_reason is None
        and attempt.cancel_requested_at is None
        and attempt.times.get("ready") is not None
        and not attempt.stands_by
    )


def departures(store: Store, principal: Principal, name: str, *, at_once: bool = False) -> Json:
    """Who would leave if this node or device were drained now, in the order in which they would be asked.

    `leaves`: `now`; `members` where only these of an elastic gang leave; `after-replacement` where a service
    would go under its guarantee; `at-once`. Nothing is changed. Raises ForbiddenError, NotFoundError,
    InvalidError `place-ambiguous`.
    """
    authorise(principal, Verb.MANAGE, NOUN)
    with store.read() as view:
        place = place_named(view, name)
        state = load_state(view)
        leaving = sorted(_holders(state, place), key=departure_order)
        known = groups.groups_of(view, {a.group_id for a in leaving if a.group_id is not None})
        devices = _devices(state, place)
        return {**place.view(), "departures": list(_told(state, leaving, known, at_once, devices))}


def _holders(state: LiveState, place: Place) -> list[LiveAttempt]:
    devices = _devices(state, place)
    return [
        attempt
        for attempt in state.in_phase(*RUNS)
        if attempt.stop_reason is None
        and any(a.device_id in devices for member in attempt.staying for a in member.allocations)
    ]


def _devices(state: LiveState, place: Place) -> set[int]:
    node = state.nodes[place.node_id]
    return {place.id} if place.kind == "device" else {device.id for device in node.devices}


def _told(
    state: LiveState, leaving: list[LiveAttempt], known: dict[int, Record], at_once: bool, devices: set[int]
) -> Iterable[Json]:
    gone: set[int] = set()
    for attempt in leaving:
        group = None if attempt.group_id is None else known.get(attempt.group_id)
        leaves = AT_ONCE if at_once else "now"
        if group is not None and group["kind"] == SERVICE and not at_once:
            rest = [state.by_workload[n] for n in state.in_groups[group["id"]] if n not in gone]
            if not may_leave(attempt, rest, group["guaranteed"], group["wanted"]):
                leaves = "after-replacement"
        gone.add(attempt.workload_id)
        fewer = members_that_go(attempt, devices) if group is None or group["kind"] != SERVICE else []
        yield {
            "workload": render("workload", attempt.workload_id),
            "attempt": render("attempt", attempt.attempt_id),
            "name": attempt.name,
            "project": attempt.project,
            "kind": attempt.kind,
            "priority": attempt.priority,
            "grace": attempt.spec.grace,
            "since": attempt.times.get("placed"),
            "goes_to": attempt.queue,
            "leaves": "members" if fewer else leaves,
            "members": [{"role": one.role, "index": one.index} for one in fewer] or None,
            "goes_on_with": len(attempt.staying) - len(fewer) if fewer else None,
        }
