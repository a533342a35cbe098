"""Shapes: workloads that could take each other's place share one, and one set of reasons.

A shape's key is the SHA-256 of its canonical content and its id is the first 63 bits of the key: two
servers that meet a shape at the same time write the same row, and no lookup stands before a submit.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import msgspec

from steelyard.model.organisation import OrgPlace
from steelyard.model.workloads import Shape, WorkloadSpec
from steelyard.services.model_speeds import speeds_of

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Shape).decode


def org_path(place: OrgPlace) -> tuple[str, ...]:
    """The organisation tree's nodes of a place, from the leaf up."""
    path = (f"namespace/{place.namespace}", f"project/{place.project}")
    return path if place.team is None else (*path, f"team/{place.team}")


def make_shape(
    spec: WorkloadSpec,
    place: OrgPlace,
    queue: str,
    priority: int,
    priority_class: str | None = None,
    user: str | None = None,
) -> Shape:
    """The shape of a workload of a user in its place, its queue and with its priority."""
    shape = Shape(
        "", queue, place.project, org_path(place), priority,
        tuple((role.name, role.count, role.request) for role in spec.roles),
        spec.preemptible, spec.kind.value, place.environment, priority_class, user, spec.time_limit,
        _least(spec), spec.topology, None if spec.template is None else spec.template.partition("@")[0],
        speeds_of(spec), tuple(role.name for role in spec.roles if role.grow),
    )  # fmt: skip
    return keyed(shape)


def _least(spec: WorkloadSpec) -> tuple[int, ...]:
    """By role; empty where none is elastic, so that such shapes stay what they were."""
    if all(role.least is None for role in spec.roles):
        return ()
    return tuple(role.count if role.least is None else role.least for role in spec.roles)


def keyed(shape: Shape) -> Shape:
    """The shape with the key that its content gives it."""
    bare = replace(shape, key="") if shape.key else shape
    return replace(shape, key=sha256(_encode(bare)).hexdigest())


def shape_id(key: str) -> int:
    """The row id of a shape: the first 63 bits of its key."""
    return int(key[:16], 16) >> 1


def shape_body(shape: Shape) -> str:
    """What stands in the row."""
    return _encode(shape).decode()


def read_shape(body: str) -> Shape:
    """The shape of a row's body."""
    return _decode(body)
