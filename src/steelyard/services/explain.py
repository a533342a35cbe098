"""Why a workload waits and what would start it, asked of `decide` itself on what the next cycle would see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import msgspec

from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import Shape
from steelyard.scheduling.decide import Explanation, explain
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.explain import can_ever_fit
from steelyard.scheduling.remedies import Remedy
from steelyard.scheduling.smallest import smallest
from steelyard.scheduling.snapshot import Snapshot
from steelyard.services.ahead import compared, item_of, place_in_queue
from steelyard.services.evictions import eviction_views
from steelyard.services.model_choices import chosen_models, known_models, models_view
from steelyard.services.past_reasons import past_reasons
from steelyard.services.policy import routes
from steelyard.services.reasons import own_reasons, reason_view, scoped_reason, starving_reasons, with_names
from steelyard.services.remedies import elsewhere, remedy_view
from steelyard.services.scaled import is_elastic, scaled_down
from steelyard.services.shapes import read_shape
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.inventory import outages
from steelyard.store.scoped import Record

Json = dict[str, Any]
_WAITING = frozenset({Phase.QUEUED, Phase.RESERVED})
_ON_DEVICES = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})


class FullSnapshots(Protocol):
    """Makes the snapshot that the next cycle would work on."""

    def full(self, connection: View, now: int) -> tuple[Snapshot, Policy]:
        """Everything, as it stands in the store."""
        ...


def explanation(connection: View, scope: Scope, snapshots: FullSnapshots, row: Record, now: int) -> Json:
    """The answer for one workload. `row` comes from the repository, within the scope."""
    phase = row["phase"]
    if phase in _WAITING:
        return _waiting(connection, scope, snapshots, row, now)
    found = own_reasons(row, now)
    scaled: Json | None = None
    models = chosen_models(connection, row["attempt_id"])
    elastic = is_elastic(connection, row)
    looks = models is None and phase in _ON_DEVICES and _knows_models(connection, row)
    if elastic or looks:
        snapshot, policy = snapshots.full(connection, now)
        if elastic:
            scaled, found = scaled_down(connection, snapshot, policy, row, now)
        if looks and (run := snapshot.running.get(row["attempt_id"])) is not None:
            models = known_models(snapshot, _shape_of(connection, row), run.members)
    reasons = tuple(scoped_reason(reason, scope) for reason in found)
    decision = "waits" if phase == Phase.HELD else "finished" if phase == Phase.FINISHED else "running"
    answer = _answer(decision, reasons, None, [], None, False, None)
    return {
        **answer,
        "scaled": scaled,
        "models": models,
        "verdict": _verdict(row),
        **_past(connection, scope, row, now),
    }


def _shape_of(connection: View, row: Record) -> Shape:
    return read_shape(repository.shape_bodies(connection, [row["shape_id"]])[row["shape_id"]])


def _knows_models(connection: View, row: Record) -> bool:
    """Whether it says how fast it is on models, or others of its template may have shown it."""
    shape = _shape_of(connection, row)
    return bool(shape.speeds) or shape.template is not None


def _past(connection: View, scope: Scope, row: Record, now: int) -> Json:
    """What it waited for before, and by whom it was stopped."""
    return {
        "past": past_reasons(connection, scope, row, now),
        "evictions": eviction_views(connection, scope, row["id"]),
    }


def comparison(
    connection: View, snapshots: FullSnapshots, row: Record, other: Record, now: int
) -> Json:
    """Why one comes before the other. Both rows come from the repository, within the scope."""
    snapshot, policy = snapshots.full(connection, now)
    return compared(connection, snapshot, policy, now, row, other)


def _verdict(row: Record) -> Json | None:
    """Why the last attempt of a finished workload did not succeed."""
    if row["outcome"] in (None, "succeeded") or not row["verdict_json"]:
        return None
    found: Json = msgspec.json.decode(row["verdict_json"])
    return found


def _waiting(connection: View, scope: Scope, snapshots: FullSnapshots, row: Record, now: int) -> Json:
    snapshot, policy = snapshots.full(connection, now)
    shape = _shape_of(connection, row)
    item = item_of(snapshot, shape, row)
    found = explain(snapshot, policy, now, shape, item)
    remedies: tuple[Remedy, ...] = ()
    if found.placement is None and found.hold is None:
        others = elsewhere(routes(connection), shape)
        remedies = smallest(snapshot, policy, now, shape, item, others, waits=True)
    decision, reasons = decision_of(found, can_ever_fit(snapshot, policy, shape))
    if decision == "waits":
        reasons = (*reasons, *starving_reasons(row, now))
    place, ahead = place_in_queue(connection, scope, snapshot, policy, now, row, shape)
    looked = snapshot.last_looked.get(shape.key)
    if looked is None:
        stored = repository.open_reasons(connection, [row["shape_id"]]).get(row["shape_id"])
        looked = stored["t0"] if stored else None
    scoped = (scoped_reason(_with_outage(connection, reason), scope) for reason in reasons)
    shown = with_names(connection, scope, scoped)
    position = place if row["phase"] == Phase.QUEUED else None
    return {
        **_answer(decision, shown, position, ahead, looked, found.approximate, policy.version),
        "reservation": _place_on_timeline(found.reservation),
        "models": models_view(found.models) or _kept(snapshot, shape, found),
        "remedies": [remedy_view(remedy, snapshot, policy, scope) for remedy in remedies],
        **_past(connection, scope, row, now),
    }


def _kept(snapshot: Snapshot, shape: Shape, found: Explanation) -> Json | None:
    """On which model its place is, and how fast that is, where no assignment chose it."""
    place = found.placement or found.hold
    return None if place is None else known_models(snapshot, shape, place.members)


def _place_on_timeline(place: Reservation | None) -> Json | None:
    """When a place is planned for it at the latest, as things stand."""
    return None if place is None else {"starts_at": place.starts_at, "ends_at": place.ends_at}


def decision_of(found: Explanation, never: tuple[Reason, ...]) -> tuple[str, tuple[Reason, ...]]:
    """can-start, never-fits or waits, with all reasons. `never`: why it could not start whatever ends."""
    if found.placement is not None:
        return "can-start", found.reasons
    if never and found.hold is None:
        return "never-fits", never
    return "waits", found.reasons


def _with_outage(connection: View, reason: Reason) -> Reason:
    """A reason of capacity that is out of service says why it is."""
    if reason.flavor is None or not any(holder.kind == "unavailable" for holder in reason.holders):
        return reason
    found = outages(connection, reason.flavor)
    return replace(reason, params={**reason.params, "outage": found[0]}) if found else reason


def _answer(
    decision: str,
    reasons: tuple[Reason, ...],
    position: int | None,
    ahead: list[Json],
    looked: int | None,
    approximate: bool,
    policy_version: int | None,
) -> Json:
    return {
        "decision": decision,
        "reasons": [reason_view(reason) for reason in reasons],
        "position": position,
        "ahead": ahead,
        "last_evaluated_at": looked,
        "wakes_on": sorted({event for reason in reasons for event in reason.wakes_on}),
        "approximate": approximate,
        "policy_version": policy_version,
        "verdict": None,
        "scaled": None,
        "reservation": None,
        "models": None,
        "remedies": [],
    }
