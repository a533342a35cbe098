"""How fast a workload says that it is on each model of device, and whether it may be moved between them.

`throughput` of a document names models, each with how much it gets done there in a unit of its own (steps a
second, tokens a minute). What is compared is each model with the best of them. A name alone moves nothing:
every model that is named must be verified, by a standing record of a real run of the same kind that had the
same image or runtime; where all devices of a model are simulated there is nothing to verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from steelyard.model.errors import InvalidError
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS
from steelyard.model.units import WHOLE_DEVICE, parse_quantity
from steelyard.model.workloads import Role, WorkloadSpec
from steelyard.scheduling import FlavorView
from steelyard.scheduling.admission import WAKE_POOL
from steelyard.services.reading import DocumentReader, shown
from steelyard.store.closings import verifications
from steelyard.store.database import View

#: Models that one document may name.
MAX_MODELS = 16
MAX_MODEL = 128
_UNIT = "gpu"  # thousandths, as of devices
_decode = msgspec.json.decode

#: What a program finds around it: runtime, image, environment of Python.
Software = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one standing record says: a kind ran well on a model, as these."""

    kind: str
    model: str
    software: frozenset[Software]


def read_throughput(r: DocumentReader) -> tuple[tuple[str, int], ...]:
    """(model, thousandths of the document's unit), sorted by model; at least two models, or none."""
    keys = r.left()
    if keys and not 2 <= len(keys) <= MAX_MODELS:
        r.wrong("field-out-of-bounds", r.path, low=2, high=MAX_MODELS)
    found = []
    for key in sorted(keys):
        raw, path = r.take(key), r.at(shown(key))
        if not 0 < len(key) <= MAX_MODEL or not key.isprintable():
            r.wrong("field-invalid", path, expected="model")
        found.append((key, r.attempt(1, partial(_amount, raw, path))))
    return tuple(found)


def _amount(raw: object, path: str) -> int:
    try:
        amount = parse_quantity(_UNIT, raw)
    except InvalidError:
        amount = 0
    if amount == 0:
        raise InvalidError("field-invalid", path=path, expected="a number of at least 0.001")
    return amount


def is_on_accelerators(roles: Iterable[Role]) -> bool:
    """Whether anything is asked for that has models."""
    return any(_accelerated(role) for role in roles)


def _accelerated(role: Role) -> bool:
    return any(device_class in ACCELERATORS for device_class, _ in role.request.amounts)


def speeds_of(spec: WorkloadSpec) -> tuple[tuple[str, int], ...]:
    """By model, thousandths of the best one's; at least one."""
    best = max((amount for _, amount in spec.throughput), default=0)
    return tuple((model, max(1, amount * WHOLE_DEVICE // best)) for model, amount in spec.throughput)


def records_of(view: View) -> tuple[Shown, ...]:
    """What stands verified."""
    return tuple(
        Shown(row["kind"], row["model"], _software_of(row["software_json"]))
        for row in verifications(view, standing=True)
    )


def _software_of(body: str) -> frozenset[Software]:
    roles = _decode(body).get("roles", {}).values()
    return frozenset((role.get("runtime"), role.get("image"), role.get("venv")) for role in roles)


def unverified(
    spec: WorkloadSpec, records: Iterable[Shown], flavors: Mapping[str, FlavorView]
) -> tuple[Reason, ...]:
    """A reason for each model that is named and on which nobody has shown that such a workload runs."""
    if not spec.throughput:
        return ()
    wanted = {(role.runtime.value, role.image, role.venv) for role in spec.roles if _accelerated(role)}
    on = [flavor for flavor in flavors.values() if flavor.device_class in ACCELERATORS]
    good = {flavor.model for flavor in on if flavor.simulated}
    good |= {
        record.model for record in records if record.kind == spec.kind.value and wanted <= record.software
    }
    there = ", ".join(sorted(model for model in good if model))[:200]
    images = ", ".join(sorted({image or venv or runtime for runtime, image, venv in wanted}))[:200]
    return tuple(
        Reason(
            ReasonCode.MODEL_UNVERIFIED, "admission", "workload", wakes_on=(WAKE_POOL,),
            params={"kind": spec.kind.value, "model": model, "software": images, "known": there or None},
        )
        for model, _ in spec.throughput
        if model not in good
    )  # fmt: skip
