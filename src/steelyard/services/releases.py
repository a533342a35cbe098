"""Releases that were not proven: what is held, by what, since when, and what an operator asks about them.

What is asked stands in the row, with its leaf; the holder of the control lease carries it out and answers in
the same row. `confirm` lets a new probe decide; `force` takes the responsibility instead, `fence` ends what
is left within the ownership mark: both want a written reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from steelyard.evidence.leaf import Head, LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise_object, scope
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError
from steelyard.model.ids import PREFIXES, parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.store import releases as repository
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import account_names

Json = dict[str, Any]
OnUnit = Callable[[Unit, str], None]
NOUN = "release"
MAX_REASON = 500
MAX_TRIES = 5
_ATTEMPT = PREFIXES["attempt"] + "_"


class Asked(StrEnum):
    """What an operator can ask."""

    CONFIRM = "confirm"
    FORCE = "force"
    FENCE = "fence"


def number_of(name: str) -> int:
    """The attempt of a release, by `rl_…` or by the attempt's own `at_…`. Raises InvalidError."""
    return parse("attempt" if name.startswith(_ATTEMPT) else "release", name)


def list_page(
    store: Store, principal: Principal, *, closed: bool | None, cursor: str | None, limit: int
) -> tuple[list[Json], str | None]:
    """Unproven releases that the principal may see, the newest first, and where the next page begins."""
    seen = scope(principal, Verb.VIEW, NOUN)
    after = None if cursor is None else parse("release", cursor)
    with store.read() as view:
        rows = repository.list_releases(view, seen, closed=closed, after=after, limit=limit)
        shown = _views(view, rows)
    return shown, shown[-1]["id"] if len(rows) == limit else None


def show(store: Store, principal: Principal, attempt_id: int) -> Json:
    """One unproven release. Raises NotFoundError."""
    with store.read() as view:
        return _views(view, [_find(view, principal, attempt_id)])[0]


def _find(view: View, principal: Principal, attempt_id: int) -> Record:
    row = repository.get_release(view, scope(principal, Verb.VIEW, NOUN), attempt_id)
    if row is None:
        raise NotFoundError("not-found", kind=NOUN, id=render("release", attempt_id))
    return row


def ask(
    store: Store,
    principal: Principal,
    attempt_id: int,
    asked: Asked,
    reason: str | None,
    *,
    if_match: int | None = None,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Json:
    """Note what is asked; the answer comes in `answer` of a later version.

    Raises ConflictError `release-closed`, `release-asked` while another question is open, ForbiddenError,
    InvalidError `release-reason-missing`.
    """
    name = render("release", attempt_id)
    for _ in range(MAX_TRIES):
        with store.read() as view:
            row = _find(view, principal, attempt_id)
        authorise_object(principal, Verb.MANAGE, NOUN, row["project"], name)
        said = _reason(asked, reason)
        if if_match is not None and if_match != row["version"]:
            raise ConflictError("version-mismatch", expected=if_match, version=row["version"])
        if row["closed_at"] is not None:
            raise ConflictError("release-closed", id=name, state=row["state"])
        if row["asked"] == asked.value:
            return show(store, principal, attempt_id)
        if row["asked"] is not None:
            raise ConflictError("release-asked", id=name, asked=row["asked"])
        unit = _unit(principal, row, asked, said, store.now(), origin)
        if on_unit is not None:
            on_unit(unit, name)
        try:
            store.writer.write(unit)
        except ConflictError:
            if if_match is not None:
                raise
            continue
        return show(store, principal, attempt_id)
    raise ConflictError("release-busy", id=name)


def _reason(asked: Asked, reason: str | None) -> str | None:
    said = (reason or "").strip()
    if not said and asked is not Asked.CONFIRM:
        raise InvalidError("release-reason-missing", asked=asked.value)
    if len(said) > MAX_REASON or not said.isprintable():
        raise InvalidError("release-reason-invalid", most=MAX_REASON)
    return said or None


def _unit(
    principal: Principal, row: Record, asked: Asked, reason: str | None, now: int, origin: Origin | None
) -> Unit:
    unit = Unit(actor_of(principal))
    carrier = unit.update(
        t.unproven_release,
        {"attempt_id": row["attempt_id"], "version": row["version"]},
        version=row["version"] + 1,
        asked=asked.value,
        asked_by=principal.id,
        asked_reason=reason,
        asked_at=now,
    )
    draft = LeafDraft(
        action=f"release.{asked.value}-asked",
        object_kind=NOUN,
        object_id=render("release", row["attempt_id"]),
        version_before=row["version"],
        version_after=row["version"] + 1,
        project=row["project"],
        origin=origin,
        extra={"attempt": render("attempt", row["attempt_id"]), "reason": reason},
    )
    unit.leaf(draft, carrier, Head(row["head_n"], row["head_seq"], bytes(row["head_hash"])))
    return unit


# --- views -----------------------------------------------------------------------------------------
def _views(view: View, rows: list[Record]) -> list[Json]:
    held = repository.quarantined_by(view, [row["attempt_id"] for row in rows])
    names = account_names(view, {person for row in rows for person in people_of(row)})
    return [_view(row, held.get(row["attempt_id"], []), names) for row in rows]


def people_of(row: Record) -> set[str]:
    """Ids of those who asked something or closed it."""
    answer = _json(row["answer_json"]) or {}
    return {person for person in (row["asked_by"], row["closed_by"], answer.get("by")) if person}


def _view(row: Record, held: list[Record], names: Mapping[str, str]) -> Json:
    return {
        **outline(row, names),
        "workload": render("workload", row["workload_id"]),
        "name": row["name"],
        "namespace": row["namespace"],
        "project": row["project"],
        "number": row["number"],
        "clusters": msgspec.json.decode(row["clusters_json"]),
        "held": [
            {
                "device": render("device", item["device_id"]),
                "uid": item["uid"],
                "cluster": item["cluster"],
                "class": item["class"],
                "quantity": item["quantity"],
                "t0": item["t0"],
                "t1": item["t1"],
            }
            for item in held
        ],
    }


def outline(row: Record, names: Mapping[str, str]) -> Json:
    """What a release says of itself, without what it holds: also part of its attempt's page."""
    answer = _json(row["answer_json"])
    if answer is not None:
        answer = {**answer, "by": names.get(answer["by"], answer["by"])}
    asked = None
    if row["asked"] is not None:
        by = names.get(row["asked_by"], row["asked_by"])
        asked = {"asked": row["asked"], "by": by, "reason": row["asked_reason"], "at": row["asked_at"]}
    return {
        "id": render("release", row["attempt_id"]),
        "attempt": render("attempt", row["attempt_id"]),
        "state": row["state"],
        "quarantined_at": row["quarantined_at"],
        "reasons": msgspec.json.decode(row["reasons_json"]),
        "seen": msgspec.json.decode(row["seen_json"]),
        "asked": asked,
        "answer": answer,
        "fenced_at": row["fenced_at"],
        "closed_at": row["closed_at"],
        "closed_by": names.get(row["closed_by"], row["closed_by"]),
        "receipt": _json(row["receipt_json"]),
        "version": row["version"],
    }


def _json(body: str | None) -> Any:
    return None if body is None else msgspec.json.decode(body)
