"""Flags on nodes and devices: who took what out of service, when, why, and who gave it back.

A flag is an object with a row and a stream of its own. Setting one and lifting it is all that is done here;
the holder of the control lease follows the log and lets it act: what is flagged is not offered, and what runs
there is asked to leave where the flag says so (`drain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard.evidence.leaf import Head, LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError
from steelyard.model.health import DeviceFlag
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Verb
from steelyard.services.live_records import LiveFlag
from steelyard.services.places import Place, place_named
from steelyard.services.written import MAX_REASON as LONGEST_REASON
from steelyard.services.written import check_reason
from steelyard.store import flags as repository
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.inventory_past import names_of_places
from steelyard.store.scoped import Record
from steelyard.store.statements import Row
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import account_names

Json = dict[str, Any]
OnUnit = Callable[[Unit, str], None]
NOUN = "device"
MAX_REASON = LONGEST_REASON
MAX_TRIES = 5


class Act(StrEnum):
    """What an operator can do to a node or a device."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    MAINTENANCE = "maintenance"
    FENCE = "fence"


class Drain(StrEnum):
    """How what runs on something flagged is asked to leave."""

    ORDERLY = "orderly"  # each with its grace, services only as far as their guarantee allows
    AT_ONCE = "at-once"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The flag that an act sets."""

    flag: DeviceFlag
    drain: Drain | None = None


_SETS: dict[Act, Wanted] = {
    Act.CORDON: Wanted(DeviceFlag.CORDONED),
    Act.DRAIN: Wanted(DeviceFlag.CORDONED, Drain.ORDERLY),
    Act.MAINTENANCE: Wanted(DeviceFlag.MAINTENANCE),
    Act.FENCE: Wanted(DeviceFlag.QUARANTINED, Drain.AT_ONCE),
}


def act(
    store: Store,
    principal: Principal,
    what: Act,
    name: str,
    reason: str | None,
    *,
    drain: bool = False,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """Set or lift a flag on a node or device; what stands on it then. `drain`: maintenance that asks what
    runs there to leave.

    Raises ForbiddenError, NotFoundError, InvalidError `reason-missing`, `reason-invalid`, `place-ambiguous`,
    ConflictError `not-flagged`, `flag-of-release`, `flag-on-node`.
    """
    authorise(principal, Verb.MANAGE, NOUN)
    said = check_reason(reason)
    for _ in range(MAX_TRIES):
        with store.read() as view:
            place = place_named(view, name)
            standing = repository.standing_on(view, [place.id])
            above = repository.standing_on(view, [place.node_id]) if place.kind == "device" else []
        unit, now = Unit(actor_of(principal)), store.now()
        if what is Act.UNCORDON:
            _lift_all(unit, place, standing, above, principal, said, now, origin)
        else:
            wanted = _SETS[what]
            kind = Drain.ORDERLY if drain and wanted.drain is None else wanted.drain
            _set(unit, store, place, standing, Wanted(wanted.flag, kind), principal, said, now, origin)
        if not unit.drafts:
            return show(store, principal, name)
        if on_unit is not None:
            on_unit(unit, place.shown)
        try:
            store.writer.write(unit)
        except ConflictError:
            continue
        return show(store, principal, name)
    raise ConflictError("place-busy", id=name[:80])


def show(store: Store, principal: Principal, name: str) -> Json:
    """A node or a device with the flags that stand on it, its own ones and, of a device, its node's."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        place = place_named(view, name)
        flags = repository.standing_on(view, {place.id, place.node_id})
        return {**place.view(), "flags": flag_views(view, flags)}


def standing(store: Store, principal: Principal) -> list[Json]:
    """Every flag that stands, with the name of what it is on, the oldest first."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        rows = repository.all_standing(view)
        names = names_of_places(view, {row["object_id"] for row in rows})
        shown = flag_views(view, rows)
    for row, flag in zip(rows, shown, strict=True):
        name, node = names.get(row["object_id"], ("?", "?"))
        place = {"name": name, "node": node, "cluster": row["cluster"]}
        flag.update(place, place_id=render(row["kind"], row["object_id"]))
    return shown


def _set(
    unit: Unit, store: Store, place: Place, standing: Iterable[Record], wanted: Wanted, principal: Principal,
    reason: str, now: int, origin: Origin | None,
) -> None:  # fmt: skip
    for row in standing:
        if row["flag"] == wanted.flag:
            if row["drain"] == wanted.drain or wanted.drain is None:
                return  # it stands already; who set it first is kept
            lift_row(unit, row, principal.id, reason, now, origin)
    set_row(unit, store.ids.next(), place, wanted, principal.id, reason, now, origin=origin)


def _lift_all(
    unit: Unit, place: Place, standing: list[Record], above: list[Record], principal: Principal, reason: str,
    now: int, origin: Origin | None,
) -> None:  # fmt: skip
    own = [row for row in standing if row["attempt_id"] is None]
    if not own and standing:
        release = render("release", standing[0]["attempt_id"])
        raise ConflictError("flag-of-release", id=place.shown, release=release)
    if not own and above:
        raise ConflictError("flag-on-node", id=place.shown, node=place.node)
    if not own:
        raise ConflictError("not-flagged", id=place.shown)
    for row in own:
        lift_row(unit, row, principal.id, reason, now, origin)


# --- rows and leaves, also for the control loop ----------------------------------------------------
def set_row(
    unit: Unit, flag_id: int, place: Place, wanted: Wanted, who: str, reason: str, now: int, *,
    attempt_id: int | None = None, origin: Origin | None = None, keep: Callable[[Head], None] | None = None,
) -> Row:  # fmt: skip
    """A new flag with its leaf; its row."""
    carrier = unit.insert(
        t.flag, id=flag_id, kind=place.kind, object_id=place.id, cluster=place.cluster,
        flag=wanted.flag.value, drain=None if wanted.drain is None else wanted.drain.value, valid_from=now,
        valid_to=None, version=1, set_by=who, reason=reason, attempt_id=attempt_id,
    )  # fmt: skip
    detail: Json = {"drain": carrier["drain"], "reason": reason}
    if attempt_id is not None:
        detail["release"] = render("release", attempt_id)
    draft = _draft(
        flag_id, "flag.set", place.kind, place.id, place.cluster, wanted.flag.value, detail, 1, origin
    )
    unit.leaf(draft, carrier, keep=keep)
    return carrier


def row_of(flag: LiveFlag, cluster: str) -> Record:
    """A live flag in the form of its row, as far as its end needs it."""
    return {
        "id": flag.id, "version": flag.version, "kind": flag.kind, "object_id": flag.object_id,
        "cluster": cluster, "flag": flag.flag.value, "head_n": flag.head.n, "head_seq": flag.head.seq,
        "head_hash": flag.head.hash,
    }  # fmt: skip


def lift_row(
    unit: Unit, row: Record, who: str, reason: str, now: int, origin: Origin | None = None
) -> None:
    """The end of a flag. `row`: its columns."""
    carrier = unit.update(
        t.flag, {"id": row["id"], "version": row["version"]}, null=("valid_to",), valid_to=now,
        version=row["version"] + 1, lifted_by=who, lift_reason=reason,
    )  # fmt: skip
    head = Head(row["head_n"], row["head_seq"], bytes(row["head_hash"] or b""))
    draft = _draft(
        row["id"], "flag.lift", row["kind"], row["object_id"], row["cluster"], row["flag"],
        {"reason": reason}, row["version"] + 1, origin,
    )  # fmt: skip
    unit.leaf(draft, carrier, head)


def _draft(
    flag_id: int, action: str, kind: str, object_id: int, cluster: str, flag: str, detail: Json, version: int,
    origin: Origin | None,
) -> LeafDraft:  # fmt: skip
    return LeafDraft(
        action=action,
        object_kind="flag",
        object_id=render("flag", flag_id),
        version_before=None if version == 1 else version - 1,
        version_after=version,
        cluster=cluster,
        reason_code=flag,
        origin=origin,
        extra={"on": kind, "id": render(kind, object_id), "flag": flag, **detail},
    )


# --- views -----------------------------------------------------------------------------------------
def flag_views(view: View, rows: Iterable[Record]) -> list[Json]:
    """Flags as shown: who set them when and why, and who lifted them."""
    found = list(rows)
    people = {person for row in found for person in (row["set_by"], row["lifted_by"]) if person}
    names = account_names(view, people)
    return [
        {
            "id": render("flag", row["id"]),
            "on": row["kind"],
            "flag": row["flag"],
            "drain": row["drain"],
            "by": names.get(row["set_by"], row["set_by"]),
            "reason": row["reason"],
            "since": row["valid_from"],
            "until": row["valid_to"],
            "lifted_by": names.get(row["lifted_by"], row["lifted_by"]),
            "lift_reason": row["lift_reason"],
            "release": None if row["attempt_id"] is None else render("release", row["attempt_id"]),
        }
        for row in found
    ]
