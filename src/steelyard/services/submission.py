"""The unit of work of a submit: workload, roles, first attempt, shape and leaf, all or nothing.

A service with replicas and an array are groups: several workloads of one spec, submitted together. The group
has the id of its first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import msgspec

from steelyard.evidence.leaf import ActorRef, LeafDraft, Origin, Transition
from steelyard.model.ids import IdSource, render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import OrgPlace
from steelyard.model.workloads import Shape, WorkloadSpec
from steelyard.services.shapes import shape_body, shape_id
from steelyard.store import tables as t
from steelyard.store.unit import Unit

MAX_NAME = 63
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_spec = msgspec.json.Decoder(WorkloadSpec).decode


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that every rule lets through."""

    spec: WorkloadSpec
    place: OrgPlace
    queue: str
    priority_class: str
    priority: int
    shape: Shape
    digest: str
    policy_version: int
    guarantee_version: int | None = None  # what it guarantees was judged on; None: it guarantees nothing

    def requested(self) -> dict[str, int]:
        """What the whole gang asks for, by class."""
        return {cls.value: amount for cls, amount in sorted(self.shape.totals().items())}


@dataclass(frozen=True, slots=True)
class InGroup:
    """Where a workload stands in its group; nowhere, of one that is alone."""

    group: int | None = None
    index: int | None = None
    guaranteed: bool = False
    standby: bool = False

    def detail(self) -> dict[str, Any]:
        """What its leaf says of it."""
        if self.group is None:
            return {}
        said: dict[str, Any] = {"group": render("workload", self.group), "index": self.index}
        return said | ({"guaranteed": True} if self.guaranteed else {}) | (
            {"standby": True} if self.standby else {}
        )


@dataclass(frozen=True, slots=True)
class Submitted:
    """A unit to be written, and the ids it gives."""

    workload_id: int
    attempt_id: int
    admitted: Admitted
    unit: Unit


def request_digest(document: Any, longest: int) -> str:
    """SHA-256 of a request as it was sent: its keys sorted, without white space.

    Raises ValueError for one that is longer, TypeError for what is no plain value.
    """
    text = _encode(document)
    if len(text) > longest:
        raise ValueError("too long")
    return sha256(text).hexdigest()


def write_spec(spec: WorkloadSpec) -> str:
    """The spec as it stands in the row."""
    return _encode(spec).decode()


def read_spec(text: str) -> WorkloadSpec:
    """The spec of a row: equal to the one written."""
    return _decode_spec(text)


def submit_unit(
    ids: IdSource,
    actor: ActorRef,
    admitted: Admitted,
    now: int,
    *,
    shape_known: bool = False,
    origin: Origin | None = None,
) -> Submitted:
    """All rows of a new workload and its leaf; touches nothing."""
    shape = admitted.shape
    unit = Unit(actor)
    if not shape_known:
        unit.upsert(t.shape, ("key",), id=shape_id(shape.key), key=shape.key, body_json=shape_body(shape))
    first = ids.next()
    places = _group(unit, admitted.spec, first)
    attempt_id = add_workload(unit, ids, actor.id, admitted, now, first, places[0], origin)
    for place in places[1:]:
        add_workload(unit, ids, actor.id, admitted, now, ids.next(), place, origin)
    unit.result = first
    return Submitted(first, attempt_id, admitted, unit)


def _group(unit: Unit, spec: WorkloadSpec, first: int) -> list[InGroup]:
    """The row of a group, and the places of those in it that are submitted at once."""
    if spec.replicas is not None:
        wanted = spec.replicas
        headroom = 0 if wanted.lend else max(0, wanted.guaranteed - wanted.initial)
        count = wanted.initial + headroom
        values = ("service", wanted.initial, wanted.guaranteed, wanted.most, wanted.lend)
        places = [
            InGroup(first, index, index < wanted.guaranteed, index >= wanted.initial)
            for index in range(count)
        ]
    elif spec.array is not None:
        count = 1  # the control loop submits the others: a request makes no more than its own first
        values = ("array", spec.array.parallelism, 0, spec.array.completions, False)
        places = [InGroup(first, 0)]
    else:
        return [InGroup()]
    kind, number, guaranteed, most, lend = values
    unit.insert(
        t.workload_group, id=first, kind=kind, wanted=number, guaranteed=guaranteed, most=most, lend=lend,
        next_index=count, stopped_at=None,
    )  # fmt: skip
    return places


def name_in_group(name: str, index: int | None) -> str:
    """The name of a workload of a group: the first has the group's own."""
    suffix = f".{index}" if index else ""
    return name[: MAX_NAME - len(suffix)] + suffix


def add_workload(
    unit: Unit,
    ids: IdSource,
    submitter: str,
    admitted: Admitted,
    now: int,
    workload_id: int,
    place: InGroup,
    origin: Origin | None = None,
) -> int:
    """Add the rows of one workload and its leaf, all but its shape; the id of its attempt."""
    spec = admitted.spec
    if place.index:
        spec = replace(spec, name=name_in_group(spec.name, place.index))
    phase = Phase.HELD if spec.hold else Phase.QUEUED
    attempt_id = ids.next()
    row = unit.insert(
        t.workload, id=workload_id, name=spec.name, namespace=spec.namespace,
        project=admitted.place.project, kind=spec.kind.value, queue=admitted.queue,
        priority_class=admitted.priority_class, priority=admitted.priority,
        shape_id=shape_id(admitted.shape.key), phase=phase.value, attempt=1, submitter=submitter,
        spec_json=write_spec(spec), submitted_at=now, version=1, group_id=place.group,
        group_index=place.index, guaranteed=place.guaranteed, standby=place.standby,
    )  # fmt: skip
    for ordinal, role in enumerate(spec.roles):
        unit.insert(
            t.role, workload_id=workload_id, name=role.name, ordinal=ordinal, count=role.count,
            next_index=0, request_json=_encode(role.request).decode(),
        )  # fmt: skip
    add_attempt(unit, attempt_id, row, 1, phase, now)
    unit.leaf(_leaf(admitted, workload_id, phase, place, now, origin), row)
    return attempt_id


def _leaf(
    admitted: Admitted, workload_id: int, phase: Phase, place: InGroup, now: int, origin: Origin | None
) -> LeafDraft:
    return LeafDraft(
        action="workload.submit",
        object_kind="workload",
        object_id=render("workload", workload_id),
        version_after=1,
        rule_version=admitted.policy_version,
        after_digest=admitted.digest,
        transitions=(Transition(at=now, from_=None, to=phase.value),),
        project=admitted.place.project,
        origin=origin,
        extra={
            "request_digest": admitted.digest,
            "queue": admitted.queue,
            "priority": admitted.priority,
            "requested": admitted.requested(),
            **place.detail(),
        },
    )


def add_attempt(
    unit: Unit, attempt_id: int, workload: dict[str, Any], number: int, phase: Phase, now: int
) -> None:
    """The row of a new attempt that waits."""
    unit.insert(
        t.attempt,
        id=attempt_id,
        workload_id=workload["id"],
        number=number,
        phase=phase.value,
        simulated=False,
        queue=workload["queue"],
        priority=workload["priority"],
        submitted=now,
        eligible=None if phase is Phase.HELD else now,
        version=1,
    )
