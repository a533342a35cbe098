"""Refusals: records of requests that were turned away, also of those that never had a project.

The row and its leaf are one unit. What the requester is told and what is recorded may differ in one
case: a namespace whose project the requester may not see is told as one that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from steelyard.evidence.leaf import ActorRef, LeafDraft, Origin
from steelyard.identity.authorise import scope
from steelyard.model.errors import (
    Fault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RefusedError,
    SteelyardError,
)
from steelyard.model.failures import Verdict
from steelyard.model.ids import IdSource, parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.services.reasons import read_reasons, reason_view, scoped_reason, write_reasons
from steelyard.services.verdicts import judge_refusal, leaf_view
from steelyard.store import tables as t
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.retention import NOTHING
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit

Json = dict[str, Any]
MAX_TEXT = 63
MAX_LEAF_REASONS = 8


class Request(msgspec.Struct, frozen=True):
    """What is known of a request that was turned away; None: not known."""

    digest: str
    name: str | None = None
    namespace: str | None = None
    kind: str | None = None
    project: str | None = None
    asked: dict[str, int] | None = None
    policy_version: int = 0


def reasons_of(error: SteelyardError) -> tuple[Reason, ...]:
    """The error as reasons: a refusal's own, else one that names the error."""
    if isinstance(error, RefusedError):
        return error.reasons
    code = ReasonCode.MISSING_GRANT if isinstance(error, ForbiddenError) else ReasonCode.INVALID_REQUEST
    faults = error.faults if isinstance(error, InvalidError) else ()
    said = [(one.code, one.params) for one in faults] or [(error.code, error.params)]
    return tuple(Reason(code, "submit", params={"error": name, **params}) for name, params in said)


def told_body(error: SteelyardError) -> Json:
    """What a sender was told, as plain values, for a request that is sent again."""
    reasons = write_reasons(error.reasons) if isinstance(error, RefusedError) else None
    faults = error.faults if isinstance(error, InvalidError) else ()
    return {
        "error": type(error).__name__, "code": error.code, "params": error.params, "reasons": reasons,
        "faults": [[one.pointer, one.code, dict(one.params)] for one in faults],
    }  # fmt: skip


def told_again(body: Json) -> SteelyardError:
    """The error of a `told_body`."""
    if body["error"] == RefusedError.__name__:
        return RefusedError(body["code"], read_reasons(body["reasons"]), **body["params"])
    if body["error"] == ForbiddenError.__name__:
        return ForbiddenError(body["code"], **body["params"])
    told = InvalidError(body["code"], **body["params"])
    told.faults = tuple(Fault(*one) for one in body.get("faults") or ())
    return told


def refusal_unit(
    ids: IdSource,
    actor: ActorRef,
    principal: Principal,
    request: Request,
    reasons: Sequence[Reason],
    now: int,
    *,
    action: str = "workload.submit",
    origin: Origin | None = None,
) -> tuple[int, Unit]:
    """The refusal's id and the unit that records it."""
    number, verdict = ids.next(), judge_refusal(reasons)
    unit = Unit(actor)
    row = unit.insert(
        t.refusal, id=number, at=now, principal=principal.id, submitter=principal.name,
        project=request.project, namespace=request.namespace, name=request.name, kind=request.kind,
        request_digest=request.digest, asked_json=msgspec.json.encode(request.asked).decode(),
        reasons_json=write_reasons(tuple(reasons)),
        complete=not any(reason.approximate for reason in reasons),
        policy_version=request.policy_version, review_state="open",
        failure_signature=None if verdict is None else verdict.signature,
        failure_stage=None if verdict is None else str(verdict.stage),
    )  # fmt: skip
    unit.leaf(_leaf(number, request, reasons, verdict, action, origin), row)
    unit.result = number
    return number, unit


def _leaf(
    number: int,
    request: Request,
    reasons: Sequence[Reason],
    verdict: Verdict | None,
    action: str,
    origin: Origin | None,
) -> LeafDraft:
    return LeafDraft(
        action=action,
        object_kind="refusal",
        object_id=render("refusal", number),
        version_after=1,
        outcome="refused",
        reason_code=reasons[0].code if reasons else None,
        rule_version=request.policy_version,
        after_digest=request.digest,
        project=request.project,
        origin=origin,
        extra={
            "request_digest": request.digest,
            "namespace": request.namespace,
            "requested": request.asked,
            "reasons": [_brief(reason) for reason in reasons[:MAX_LEAF_REASONS]],
            "reason_count": len(reasons),
            "verdict": None if verdict is None else leaf_view(verdict),
        },
    )


def _brief(reason: Reason) -> Json:
    return {
        name: getattr(reason, name)
        for name in ("code", "scope", "owner", "resource", "flavor", "limit", "used", "requested", "short_by")
    }


def list_refusals(
    view: View, scope: Scope, *, project: str | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[Json], str | None]:
    """A page of refusals, the newest first, and the cursor of the next."""
    after = parse("refusal", cursor) if cursor else None
    rows = repository.list_refusals(view, scope, project=project, after=after, limit=limit)
    last = render("refusal", rows[-1]["id"]) if len(rows) == limit else None
    return [refusal_view(row, scope) for row in rows], last


def refusal_page(
    store: Store, principal: Principal, *, project: str | None, cursor: str | None, limit: int
) -> tuple[list[Json], str | None]:
    """A page of the refusals that the principal may see."""
    seen = scope(principal, Verb.VIEW, "refusal")
    with store.read() as view:
        return list_refusals(view, seen, project=project, cursor=cursor, limit=limit)


def show(store: Store, principal: Principal, refusal_id: int) -> Json:
    """One refusal. Raises NotFoundError."""
    seen = scope(principal, Verb.VIEW, "refusal")
    with store.read() as view:
        row = repository.get_refusal(view, seen, refusal_id)
    if row is None:
        raise NotFoundError("not-found", kind="refusal", id=render("refusal", refusal_id))
    return refusal_view(row, seen)


def refusal_view(row: Record, scope: Scope) -> Json:
    """A refusal as its reader may see it."""
    hidden = row["project"] is not None and not scope.allows(row["project"])
    reasons = (no_namespace(row["namespace"]),) if hidden else read_reasons(row["reasons_json"])
    return {
        "id": render("refusal", row["id"]),
        "at": row["at"],
        "submitter": row["submitter"],
        "project": None if hidden else row["project"],
        "namespace": row["namespace"],
        "name": row["name"],
        "kind": row["kind"],
        "asked": msgspec.json.decode(row["asked_json"]),
        "reasons": [reason_view(scoped_reason(reason, scope)) for reason in reasons],
        "complete": bool(row["complete"]),
        "policy_version": row["policy_version"],
        "request_digest": row["request_digest"],
        "review_state": row["review_state"],
        "purged": row["asked_json"] == NOTHING,
        "verdict": msgspec.to_builtins(judge_refusal(reasons)),
    }


def no_namespace(namespace: str | None) -> Reason:
    """There is no such namespace, or none that the requester may see."""
    return Reason(ReasonCode.NO_NAMESPACE, "submit", "namespace", namespace, params={"namespace": namespace})
