"""Use cases of workloads: submit, look at, cancel, retry, hold, release.

Each authorises first. A change is built on the row as it was read; where the row changed meanwhile it is
read again, unless the caller named the version it means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from steelyard.evidence.leaf import ActorRef, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise_object, scope
from steelyard.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    SteelyardError,
)
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Principal, Verb
from steelyard.model.workloads import WorkloadKind
from steelyard.services.admission import MAX_DOCUMENT, NOUN, Turned, in_sight, plan_submit
from steelyard.services.explain import comparison, explanation
from steelyard.services.ground import Grounds, SubmitSnapshots
from steelyard.services.groups import release_held, stop_unit
from steelyard.services.organisation import load_history
from steelyard.services.overtaken import again_when_overtaken, write_planned
from steelyard.services.preview import preview
from steelyard.services.refusals import Request, reasons_of, refusal_unit
from steelyard.services.shapes import read_shape
from steelyard.services.submission import Submitted, request_digest
from steelyard.services.views import workload_rows, workload_view
from steelyard.services.waits import slices_until
from steelyard.services.workload_changes import (
    WITHDRAWN_FROM,
    cancel_unit,
    hold_unit,
    release_unit,
    retry_unit,
    withdraw_unit,
)
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import WorkloadFilter

Json = dict[str, Any]
#: Told the unit and the rendered id before the unit is written, e.g. to record an answer in it.
OnUnit = Callable[[Unit, str], None]
#: The same for a request that is turned away, with what its sender is told.
OnTurned = Callable[[Unit, SteelyardError], None]
MAX_TRIES = 5


@dataclass(slots=True)
class Desk:
    """What the use cases of workloads need; one a server."""

    store: Store
    snapshots: SubmitSnapshots
    grounds: Grounds = field(init=False)
    known_shapes: set[str] = field(default_factory=set)
    guaranteeing: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.grounds = Grounds(self.store, self.snapshots)

    def plan(
        self, principal: Principal, document: object, *, origin: Origin | None = None
    ) -> Submitted | Turned:
        """The unit of a submit, to be written by the caller: many may be under way at once."""
        return plan_submit(
            self.store.ids,
            self.grounds,
            principal,
            document,
            self.store.now(),
            origin=origin,
            known_shapes=self.known_shapes,
        )


# --- submit ----------------------------------------------------------------------------------------
def submit(
    desk: Desk,
    principal: Principal,
    document: object,
    *,
    dry_run: bool = False,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
    on_turned: OnTurned | None = None,
) -> Json:
    """The view of the new workload; of a dry run what would happen (`would`, `reasons`, `placement`).

    Raises RefusedError, ForbiddenError or InvalidError; the parameter `refusal` names the record of it.
    """
    if dry_run:
        return preview(desk.store, desk.snapshots, desk.plan(principal, document, origin=origin))
    act = partial(_submit_once, desk, principal, document, origin, on_unit, on_turned)
    return again_when_overtaken(desk.guaranteeing, act)


def _submit_once(
    desk: Desk,
    principal: Principal,
    document: object,
    origin: Origin | None,
    on_unit: OnUnit | None,
    on_turned: OnTurned | None,
) -> Json:
    planned = desk.plan(principal, document, origin=origin)
    if isinstance(planned, Turned):
        told = planned.told()
        if on_turned is not None:
            on_turned(planned.unit, told)
        desk.store.writer.write(planned.unit)
        raise told
    if on_unit is not None:
        on_unit(planned.unit, render("workload", planned.workload_id))
    write_planned(desk.store, planned)
    return show(desk, principal, planned.workload_id)


# --- look ------------------------------------------------------------------------------------------
def find(view: View, principal: Principal, workload_id: int) -> Record:
    """The row, if the principal may view it. Raises NotFoundError."""
    row = repository.get_workload(view, scope(principal, Verb.VIEW, NOUN), workload_id)
    if row is None:
        raise NotFoundError("not-found", kind=NOUN, id=render("workload", workload_id))
    return row


def show(desk: Desk, principal: Principal, workload_id: int) -> Json:
    """The page of a workload."""
    now = desk.store.now()
    with desk.store.read() as view:
        row = find(view, principal, workload_id)
        return workload_view(view, scope(principal, Verb.VIEW, NOUN), row, load_history(view), now)


def list_page(
    desk: Desk,
    principal: Principal,
    wanted: WorkloadFilter,
    *,
    cursor: str | None = None,
    limit: int = 50,
    order: str = "newest",
) -> tuple[list[Json], str | None]:
    """A page of rows and the cursor of the next."""
    seen = scope(principal, Verb.VIEW, NOUN)
    after = parse("workload", cursor) if cursor else None
    with desk.store.read() as view:
        rows = repository.list_workloads(view, seen, wanted, after=after, limit=limit, order=order)
        shown = workload_rows(view, seen, rows, load_history(view), desk.store.now())
    return shown, render("workload", rows[-1]["id"]) if len(rows) == limit else None


def explain_workload(desk: Desk, principal: Principal, workload_id: int) -> Json:
    """Why it waits, asked of the same `decide` that the loop calls."""
    with desk.store.read() as view:
        row = find(view, principal, workload_id)
        seen = scope(principal, Verb.VIEW, NOUN)
        return explanation(view, seen, desk.snapshots, row, desk.store.now())


def compare_workloads(desk: Desk, principal: Principal, workload_id: int, other_id: int) -> Json:
    """Why one waiting workload comes before another, by named factors."""
    with desk.store.read() as view:
        row, other = find(view, principal, workload_id), find(view, principal, other_id)
        return comparison(view, desk.snapshots, row, other, desk.store.now())


# --- change ----------------------------------------------------------------------------------------
Build = Callable[[View, ActorRef, Record, int], Unit | None]


def change(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    action: str,
    if_match: int | None,
    origin: Origin | None,
    build: Build,
    on_unit: OnUnit | None,
) -> Json:
    """Authorises, builds on the row as it is, and writes; the page of the workload afterwards. `build` gives
    None where there is nothing to be changed."""
    name = render("workload", workload_id)
    for _ in range(MAX_TRIES):
        with desk.store.read() as view:
            row = find(view, principal, workload_id)
        try:
            authorise_object(principal, Verb.CHANGE, NOUN, row["project"], name, owner=row["submitter"])
        except ForbiddenError as error:
            _record_denial(desk, principal, row, action, error, origin)
            raise
        with desk.store.read() as view:
            if if_match is not None and if_match != row["version"]:
                raise ConflictError("version-mismatch", expected=if_match, version=row["version"])
            now = max(desk.store.now(), row["attempt_submitted"])
            unit = build(view, actor_of(principal), row, now)
        if unit is None:
            return show(desk, principal, workload_id)
        if on_unit is not None:
            on_unit(unit, name)
        try:
            desk.store.writer.write(unit)
        except ConflictError:
            if if_match is not None:
                raise
            continue
        return show(desk, principal, workload_id)
    raise ConflictError("workload-busy", id=name)


def cancel(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """A workload that waits is withdrawn at once; one that has or is kept something is asked to stop. The
    first workload of a service or an array stands for all of it.

    Asking twice changes nothing. Raises ConflictError `workload-finished`.
    """

    def build(view: View, actor: ActorRef, row: Record, now: int) -> Unit | None:
        if row["group_id"] == row["id"]:
            unit = stop_unit(view, actor, row, now, origin)
            if unit is not None or row["phase"] != Phase.FINISHED:
                return unit
        if row["phase"] == Phase.FINISHED:
            raise ConflictError("workload-finished", id=render("workload", workload_id))
        if row["phase"] in WITHDRAWN_FROM:
            return withdraw_unit(actor, row, slices_until(view, row, now), now, origin)
        return None if row["cancel_requested_at"] is not None else cancel_unit(actor, row, now, origin)

    return change(desk, principal, workload_id, "workload.cancel", if_match, origin, build, on_unit)


def retry(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """The next attempt of a finished workload. What could never start now is refused, and recorded."""

    def build(_view: View, actor: ActorRef, row: Record, now: int) -> Unit | None:
        if row["group_id"] is not None and row["kind"] == WorkloadKind.INFERENCE:
            raise ConflictError("replica-not-retried", id=render("workload", workload_id))
        unit = retry_unit(desk.store.ids, actor, row, now, origin)
        judge_again(desk, principal, row, now, "workload.retry", origin)
        return unit

    return change(desk, principal, workload_id, "workload.retry", if_match, origin, build, on_unit)


def _record_denial(
    desk: Desk, principal: Principal, row: Record, action: str, error: SteelyardError, origin: Origin | None
) -> None:
    """Who tried what it may not stands in the audit, too."""
    name = render("workload", row["id"])
    request = Request(
        request_digest({"action": action, "workload": name}, MAX_DOCUMENT),
        row["name"],
        row["namespace"],
        row["kind"],
        row["project"],
    )
    _refuse(desk, principal, request, error, action, origin)


def _refuse(
    desk: Desk,
    principal: Principal,
    request: Request,
    error: SteelyardError,
    action: str,
    origin: Origin | None,
) -> None:
    """Write the record and name it in the error."""
    number, unit = refusal_unit(
        desk.store.ids,
        actor_of(principal),
        principal,
        request,
        reasons_of(error),
        desk.store.now(),
        action=action,
        origin=origin,
    )
    desk.store.writer.write(unit)
    error.params["refusal"] = render("refusal", number)


def judge_again(
    desk: Desk, principal: Principal, row: Record, now: int, action: str, origin: Origin | None
) -> None:
    """May one more like this workload come in? Raises RefusedError, with its record."""
    ground = desk.grounds.current(now)
    with desk.store.read() as view:
        body = repository.shape_bodies(view, [row["shape_id"]])[row["shape_id"]]
    shape = read_shape(body)
    reasons = desk.grounds.judge(ground, shape)
    if not reasons:
        return
    error: SteelyardError = RefusedError("refused", reasons)
    asked = {device_class.value: amount for device_class, amount in sorted(shape.totals().items())}
    request = Request(
        shape.key, row["name"], row["namespace"], row["kind"], row["project"], asked, ground.policy.version
    )
    _refuse(desk, principal, request, error, action, origin)
    raise in_sight(error, principal)


def hold(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """A queued workload is not looked at until it is released. Raises ConflictError for another phase."""

    def build(view: View, actor: ActorRef, row: Record, now: int) -> Unit | None:
        if row["phase"] == Phase.HELD:
            return None
        waits = slices_until(view, row, now) if row["phase"] == Phase.QUEUED else ()
        return hold_unit(actor, row, waits, now, origin)

    return change(desk, principal, workload_id, "workload.hold", if_match, origin, build, on_unit)


def release(
    desk: Desk,
    principal: Principal,
    workload_id: int,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """A held workload waits again; of the first of a service or an array, all that are held of it do. Raises
    ConflictError for another phase."""

    def build(view: View, actor: ActorRef, row: Record, now: int) -> Unit | None:
        unit = release_held(view, actor, row, now, origin) if row["group_id"] == row["id"] else None
        if unit is not None or row["phase"] == Phase.QUEUED:
            return unit
        waits = slices_until(view, row, now) if row["phase"] == Phase.HELD else ()
        return release_unit(actor, row, waits, now, origin)

    return change(desk, principal, workload_id, "workload.release", if_match, origin, build, on_unit)
