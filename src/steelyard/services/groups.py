"""Workloads that belong together, as one: what a service or an array is asked to be, and how it stands.

A group has the id of its first workload. What changes several of its workloads is one unit: all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.evidence.leaf import ActorRef, Origin
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import OrgPlace
from steelyard.model.resources import ACCELERATORS, ShareKind
from steelyard.model.workloads import Shape
from steelyard.services.shapes import read_shape
from steelyard.services.submission import Admitted, InGroup, read_spec
from steelyard.services.waits import slices_until
from steelyard.services.workload_changes import (
    WITHDRAWN_FROM,
    activate,
    cancel_unit,
    note_scale,
    release_unit,
    withdraw_unit,
)
from steelyard.store import groups as repository
from steelyard.store import tables as t
from steelyard.store import workloads
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit

Json = dict[str, Any]
#: Adds a new workload in this place of the group to the unit; its rendered id.
Add = Callable[[Unit, InGroup], str]
MAX_SHOWN = 200
SERVICE, ARRAY = "service", "array"
EXCLUSIVE, SHARED = "exclusive", "shared"


@dataclass(slots=True)
class Change:
    """What scaling did, by rendered id, for its leaf."""

    started: list[str] = field(default_factory=list)
    activated: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    standby: list[str] = field(default_factory=list)


def scale_unit(
    view: View, actor: ActorRef, row: Record, wanted: int, now: int, origin: Origin | None, add: Add
) -> Unit | None:
    """Changes how many replicas run: headroom is activated first, then new ones are added; those that are too
    many are stopped, not guaranteed ones and the newest first. `row`: the group's first workload. None where
    nothing changes."""
    group = repository.get_group(view, row["id"])
    assert group is not None
    alive = [m for m in repository.live_members(view, row["id"]) if m["cancel_requested_at"] is None]
    active = sorted(
        (m for m in alive if not _stands_by(m)), key=lambda m: (not m["guaranteed"], m["group_index"])
    )
    standby = [m for m in alive if _stands_by(m)]
    if group["wanted"] == wanted == len(active):
        return None
    unit, done = Unit(actor), Change()
    before = len(active)
    woken, standby = standby[: max(0, wanted - before)], standby[max(0, wanted - before) :]
    for member in woken:
        activate(unit, member, now, origin)
        done.activated.append(render("workload", member["id"]))
    for member in active[wanted:]:
        _stop(unit, view, actor, member, now, origin)
        done.stopped.append(render("workload", member["id"]))
    kept = [*active[:wanted], *woken]
    guaranteed = sum(1 for member in kept if member["guaranteed"])
    index = group["next_index"]
    for _ in range(wanted - len(kept)):
        place = InGroup(row["id"], index, guaranteed < group["guaranteed"])
        done.started.append(add(unit, place))
        guaranteed, index = guaranteed + place.guaranteed, index + 1
    headroom = 0 if group["lend"] else max(0, group["guaranteed"] - wanted)
    for member in standby[headroom:]:
        _stop(unit, view, actor, member, now, origin)
    for _ in range(headroom - len(standby)):
        done.standby.append(add(unit, InGroup(row["id"], index, True, True)))
        index += 1
    known = {"id": row["id"], "next_index": group["next_index"]}
    unit.update(t.workload_group, known, wanted=wanted, next_index=index)
    said: Json = {"from": group["wanted"], "to": wanted, "ran": before, **_told(done)}
    note_scale(unit, row, said, origin)
    return unit


def _told(done: Change) -> Json:
    parts = {"started": done.started, "activated": done.activated, "stopped": done.stopped,
             "standby": done.standby}  # fmt: skip
    return {name: ids for name, ids in parts.items() if ids}


def _stands_by(member: Record) -> bool:
    return bool(member["standby"]) and member["activated_at"] is None


def stop_unit(view: View, actor: ActorRef, row: Record, now: int, origin: Origin | None) -> Unit | None:
    """Ends everything of a group. `row`: its first workload. None where nothing is left to be ended."""
    unit = Unit(actor)
    for member in repository.live_members(view, row["id"]):
        if member["cancel_requested_at"] is None:
            _stop(unit, view, actor, member, now, origin)
    if not unit.drafts:
        return None
    unit.update(t.workload_group, {"id": row["id"]}, stopped_at=now, wanted=0)
    return unit


def release_held(view: View, actor: ActorRef, row: Record, now: int, origin: Origin | None) -> Unit | None:
    """Lets everything of a group that is held wait. `row`: its first workload. None where nothing is held."""
    unit = Unit(actor)
    for member in repository.live_members(view, row["id"]):
        if member["phase"] == Phase.HELD:
            part = release_unit(actor, member, slices_until(view, member, now), now, origin)
            unit.writes += part.writes
            unit.drafts += part.drafts
    return unit if unit.drafts else None


def _stop(unit: Unit, view: View, actor: ActorRef, member: Record, now: int, origin: Origin | None) -> None:
    if member["phase"] in WITHDRAWN_FROM:
        part = withdraw_unit(actor, member, slices_until(view, member, now), now, origin)
    else:
        part = cancel_unit(actor, member, now, origin)
    unit.writes += part.writes
    unit.drafts += part.drafts


def admitted_again(view: View, first: Record, policy_version: int) -> Admitted:
    """What a workload of a group was let in as, for one more of the same."""
    shape = read_shape(workloads.shape_bodies(view, [first["shape_id"]])[first["shape_id"]])
    place = OrgPlace(first["namespace"], first["project"], None, None, None, 0)
    return Admitted(
        read_spec(first["spec_json"]), place, first["queue"], first["priority_class"], first["priority"],
        shape, shape.key, policy_version,
    )  # fmt: skip

# --- how it stands ---------------------------------------------------------------------------------
def outlines(view: View, rows: Collection[Record], shapes: Mapping[int, Shape]) -> dict[int, Json]:
    """workload id → its group, of those in one: what is wanted of it, how many of each state there are."""
    ids = {row["group_id"] for row in rows if row["group_id"] is not None}
    if not ids:
        return {}
    counted, wanted = repository.counts(view, ids), repository.groups_of(view, ids)
    return {
        row["id"]: _outline(row, wanted[row["group_id"]], counted.get(row["group_id"], {}), shapes)
        for row in rows
        if row["group_id"] is not None
    }


def _outline(row: Record, group: Record, counts: Mapping[str, int], shapes: Mapping[int, Shape]) -> Json:
    shown: Json = {
        "id": render("workload", group["id"]),
        "kind": group["kind"],
        "index": row["group_index"],
        "standby": _stands_by(row),
        "guaranteed": bool(row["guaranteed"]),
        "counts": dict(sorted(counts.items())),
        "stopped_at": group["stopped_at"],
    }
    if group["kind"] == ARRAY:
        done = sum(counts.get(name, 0) for name in ("succeeded", "failed", "timed-out", "lost"))
        done += sum(counts.get(name, 0) for name in ("cancelled", "withdrawn"))
        return shown | {
            "completions": group["most"],
            "parallelism": group["wanted"],
            "done": done,
            "failed": done - counts.get("succeeded", 0),
            "running": sum(counts.get(name, 0) for name in ("starting", "running", "stopping", "releasing")),
        }
    return shown | _service(group, counts, shapes.get(row["shape_id"]))


def _service(group: Record, counts: Mapping[str, int], shape: Shape | None) -> Json:
    """`kept`: headroom whose place is kept; `lent`: headroom that others may use until it is wanted back;
    `restoring`: headroom that has no place yet. Quantities by class for each."""
    holding = sum(counts.get(name, 0) for name in ("starting", "running", "stopping", "releasing"))
    headroom = max(0, group["guaranteed"] - holding) if group["stopped_at"] is None else 0
    standing = counts.get("standby", 0)
    replicas = {
        "guaranteed": group["guaranteed"],
        "used": holding,
        "kept": 0 if group["lend"] else min(headroom, standing),
        "lent": headroom if group["lend"] else 0,
        "restoring": 0 if group["lend"] else headroom - min(headroom, standing),
    }
    one = {} if shape is None else {cls.value: amount for cls, amount in sorted(shape.totals().items())}
    return {
        "wanted": group["wanted"],
        "most": group["most"],
        "lend": bool(group["lend"]),
        "replicas": replicas,
        "quantities": {
            name: {cls: amount * number for cls, amount in one.items()} for name, number in replicas.items()
        },
    }


def member_views(view: View, row: Record) -> list[Json]:
    """The newest workloads of a group, for the page of any of them."""
    if row["group_id"] is None:
        return []
    found = repository.members(view, row["group_id"], MAX_SHOWN)
    sharing = _sharing(view, [member["attempt_id"] for member in found])
    return [
        {
            "id": render("workload", member["id"]),
            "index": member["group_index"],
            "name": member["name"],
            "phase": member["phase"],
            "outcome": member["outcome"],
            "standby": _stands_by(member),
            "guaranteed": bool(member["guaranteed"]),
            "ready": member["ready"] is not None and member["phase"] == "running",
            "placed_at": member["placed"],
            "finished_at": member["finished_at"],
            "sharing": sharing.get(member["attempt_id"]),
        }
        for member in found
    ]


def _sharing(view: View, attempts: list[int]) -> dict[int, str]:
    """attempt → whether it has the accelerators that it holds to itself; nothing of one that holds none."""
    found: dict[int, str] = {}
    for item in workloads.allocations_of(view, attempts):
        if item["t1"] is None and item["class"] in ACCELERATORS:
            own = item["share_kind"] == ShareKind.EXCLUSIVE and found.get(item["attempt_id"]) != SHARED
            found[item["attempt_id"]] = EXCLUSIVE if own else SHARED
    return found
