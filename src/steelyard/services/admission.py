"""May this workload come in? Template, form, organisation, grant, route, what could ever fit, limits.

The answer is a unit to be written either way: the workload, or the refusal with its reasons. Nothing is
written here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unicodedata import normalize

from steelyard.evidence.leaf import Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import ForbiddenError, InvalidError, RefusedError, SteelyardError
from steelyard.model.ids import IdSource, render
from steelyard.model.organisation import OrgPlace, Principal, Verb
from steelyard.model.reasons import Reason
from steelyard.model.workloads import WorkloadSpec
from steelyard.services.ground import Ground, Grounds
from steelyard.services.guarantees import move
from steelyard.services.labels import unknown_labels
from steelyard.services.model_speeds import unverified
from steelyard.services.policy import route
from steelyard.services.reading import shown
from steelyard.services.reasons import scoped_reason
from steelyard.services.refusals import Request, no_namespace, reasons_of, refusal_unit
from steelyard.services.shapes import make_shape
from steelyard.services.submission import Admitted, Submitted, request_digest, submit_unit
from steelyard.services.topology_levels import check_levels
from steelyard.services.workload_document import parse_workload
from steelyard.store.unit import Unit

NOUN = "workload"
MAX_DOCUMENT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Turned:
    """A request that was turned away: what its sender is told, and the unit that records it."""

    error: SteelyardError
    reasons: tuple[Reason, ...]  # as recorded; the sender may be told less
    refusal_id: int
    unit: Unit

    def told(self) -> SteelyardError:
        """The error, naming the record."""
        self.error.params["refusal"] = render("refusal", self.refusal_id)
        return self.error


class _Denied(Exception):
    """A refusal whose record says more than its sender is told."""

    def __init__(self, recorded: SteelyardError, told: SteelyardError, project: str | None) -> None:
        super().__init__(recorded.code)
        self.recorded = recorded
        self.told = told
        self.project = project


def plan_submit(
    ids: IdSource,
    grounds: Grounds,
    principal: Principal,
    document: object,
    now: int,
    *,
    origin: Origin | None = None,
    known_shapes: set[str] | None = None,
) -> Submitted | Turned:
    """The unit of a submit. `known_shapes` are keys whose rows are committed; the caller keeps it."""
    ground = grounds.current(now)
    digest = _digest(document)
    spec: WorkloadSpec | None = None
    try:
        if digest is None:
            raise InvalidError("document-unreadable")
        spec = parse_workload(document, grounds.template)
        admitted = admit(grounds, ground, principal, spec, now, digest)
    except _Denied as denied:
        request = _request(document, spec, digest, denied.project, ground)
        return _turned(ids, principal, request, denied.recorded, denied.told, now, origin)
    except SteelyardError as error:
        place = ground.history.place(spec.namespace, now) if spec is not None else None
        request = _request(document, spec, digest, place.project if place else None, ground)
        return _turned(ids, principal, request, error, in_sight(error, principal), now, origin)
    known = known_shapes is not None and admitted.shape.key in known_shapes
    planned = submit_unit(ids, actor_of(principal), admitted, now, shape_known=known, origin=origin)
    if admitted.guarantee_version is not None:
        move(planned.unit, admitted.guarantee_version)
    if known_shapes is not None and not known:
        key = admitted.shape.key
        planned.unit.on_commit.append(lambda: known_shapes.add(key))
    return planned


def admit(
    grounds: Grounds, ground: Ground, principal: Principal, spec: WorkloadSpec, now: int, digest: str
) -> Admitted:
    """What comes of a sound request. Raises the error that turns it away."""
    asked = unjudged(ground, principal, spec, now, digest)
    reasons, seen = grounds.judge(ground, asked.shape), None
    if not reasons and spec.replicas is not None and spec.replicas.guaranteed:
        reasons, seen = grounds.judge_guarantee(now, asked.shape, spec.replicas.guaranteed)
    if reasons:
        raise RefusedError("refused", reasons)
    return replace(asked, guarantee_version=seen)


def unjudged(ground: Ground, principal: Principal, spec: WorkloadSpec, now: int, digest: str) -> Admitted:
    """A sound request with its place, route and shape, before capacity and limits are looked at. Raises the
    error that turns it away."""
    place = ground.history.place(spec.namespace, now)
    if place is None:
        raise RefusedError("refused", (no_namespace(spec.namespace),))
    _allow(principal, place)
    unknown = unknown_labels(ground.vocabulary, spec, principal)
    if unknown:
        raise RefusedError("refused", unknown)
    check_levels(spec.topology, ground.levels)
    unshown = unverified(spec, ground.verified, ground.snapshot.flavors)
    if unshown:
        raise RefusedError("refused", unshown)
    queue, priority_class, priority, preemptible = route(
        ground.routes, place.project, spec.kind, place.environment, spec.queue, spec.priority_class
    )
    if preemptible is not None:
        spec = replace(spec, preemptible=preemptible)
    shape = make_shape(spec, place, queue, priority, priority_class, principal.name)
    return Admitted(spec, place, queue, priority_class, priority, shape, digest, ground.policy.version)


def asked_of(ground: Ground, principal: Principal, spec: WorkloadSpec, now: int, digest: str) -> Admitted:
    """As `unjudged`; what it raises is what the sender may be told."""
    try:
        return unjudged(ground, principal, spec, now, digest)
    except _Denied as denied:
        raise denied.told from None


def in_sight(error: SteelyardError, principal: Principal) -> SteelyardError:
    """The error as the principal may read it: holders of projects out of its sight have no name."""
    if not isinstance(error, RefusedError):
        return error
    seen = scope(principal, Verb.VIEW, NOUN)
    reasons = [scoped_reason(reason, seen) for reason in error.reasons]
    return RefusedError(error.code, reasons, **error.params)


def _allow(principal: Principal, place: OrgPlace) -> None:
    try:
        authorise(principal, Verb.REQUEST, NOUN, place.project)
    except ForbiddenError as error:
        told: SteelyardError = error
        if not scope(principal, Verb.VIEW, NOUN).allows(place.project):
            told = RefusedError("refused", (no_namespace(place.namespace),))
        raise _Denied(error, told, place.project) from None


def _digest(document: object) -> str | None:
    """None where the document is no plain value, or larger than any sound one."""
    try:
        return request_digest(document, MAX_DOCUMENT)
    except (TypeError, ValueError, RecursionError):
        return None


def _request(
    document: object, spec: WorkloadSpec | None, digest: str | None, project: str | None, ground: Ground
) -> Request:
    """What is known of a request: of a sound one all, of another what could be read."""
    if spec is not None:
        asked: dict[str, int] = {}
        for role in spec.roles:
            for device_class, amount in role.request.amounts:
                asked[device_class.value] = asked.get(device_class.value, 0) + amount * role.count
        return Request(
            digest or "", spec.name, spec.namespace, spec.kind.value, project, asked, ground.policy.version
        )
    metadata, body = _mapping(document, "metadata"), _mapping(document, "spec")
    return Request(
        digest or "",
        _text(metadata.get("name")),
        _text(metadata.get("namespace")),
        _text(body.get("kind")),
        None,
        None,
        ground.policy.version,
    )


def _mapping(document: object, key: str) -> dict[str, Any]:
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    """Short, printable and of one spelling, for it stands in a leaf."""
    return normalize("NFC", shown(value)) if isinstance(value, str) else None


def _turned(
    ids: IdSource,
    principal: Principal,
    request: Request,
    recorded: SteelyardError,
    told: SteelyardError,
    now: int,
    origin: Origin | None,
) -> Turned:
    reasons = reasons_of(recorded)
    number, unit = refusal_unit(ids, actor_of(principal), principal, request, reasons, now, origin=origin)
    return Turned(told, reasons, number, unit)
