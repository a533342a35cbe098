"""What is known to work on a device, and what is only claimed: records of real runs, documents, extensions,
sources of observation; and who runs it.

Without a record that stands a device is pending, whatever documents say of it. What is simulated is always.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.model.ids import render
from steelyard.model.resources import DeviceClass
from steelyard.model.standing import Standing
from steelyard.services.confirmations import covers
from steelyard.services.documents import stored_document
from steelyard.services.kinds import Kind
from steelyard.services.pool_rules import declared_pools
from steelyard.services.support_specs import (
    ExtensionSpec,
    ObservationSourceSpec,
    SupportDocumentSpec,
)
from steelyard.services.verifications import standing_of
from steelyard.store import closings as repository
from steelyard.store.database import View
from steelyard.store.live import declared_current
from steelyard.store.scoped import Record

Json = dict[str, Any]
#: Said of documents, extensions and sources alike.
NOTHING = "nothing"


def support_of(view: View, device: Record, now: int) -> Json:
    """`standing`, and what there is beside it; `device` is its row with pool and class."""
    family, model = device["family"], device["model"]
    records = [
        row for row in repository.verifications(view) if (row["family"], row["model"]) == (family, model)
    ]
    stands = any(standing_of(row, now) is Standing.VERIFIED for row in records)
    verified = stands and not device["simulated"]
    admission = repository.admission_of(view, family, model)
    return {
        "standing": (Standing.VERIFIED if verified else Standing.PENDING).value,
        "verifications": [
            {
                "id": render("verification", row["id"]),
                "kind": row["kind"],
                "environment": msgspec.json.decode(row["environment_json"]),
                "standing": standing_of(row, now).value,
            }
            for row in records
        ],
        "admission": None
        if admission is None
        else {"id": render("admission", admission["id"]), "state": admission["state"]},
        "operations": _operations(view, device),
        "documents": _documents(view, device),
        "extensions": _extensions(view, device),
        "sources": _sources(view, device),
    }


def _operations(view: View, device: Record) -> Json:
    """Who runs it: of its pool, and within that of its class."""
    spec = declared_pools(view).get(device["pool"] or "")
    owner, on_call = (None, None) if spec is None else spec.operated_by(DeviceClass(device["class"]))
    return {"owner": owner, "on_call": on_call}


def _specs(view: View, kind: Kind) -> list[tuple[str, object]]:
    return [
        (name, stored_document(kind.value, name, {}, msgspec.json.decode(body)).spec)
        for name, body in declared_current(view, kind.value).items()
    ]


def _documents(view: View, device: Record) -> list[Json]:
    return [
        {
            "name": name, "issuer": spec.issuer, "date": spec.date, "scope": spec.scope.to_spec(),
            "link_state": spec.link_check.state.value, "proves": NOTHING,
        }
        for name, spec in _specs(view, Kind.SUPPORT_DOCUMENT)
        if isinstance(spec, SupportDocumentSpec)
        and covers(spec.scope, device["class"], device["family"], device["model"])
    ]  # fmt: skip


def _extensions(view: View, device: Record) -> list[Json]:
    return [
        {"name": name, "type": spec.type.value, "version": spec.version, "proves": NOTHING}
        for name, spec in _specs(view, Kind.EXTENSION)
        if isinstance(spec, ExtensionSpec)
        and spec.family in (None, device["family"])
        and spec.cluster in (None, device["cluster"])
    ]


def _sources(view: View, device: Record) -> list[Json]:
    return [
        {"name": name, "type": spec.type.value, "measures": list(spec.measures), "proves": NOTHING}
        for name, spec in _specs(view, Kind.OBSERVATION_SOURCE)
        if isinstance(spec, ObservationSourceSpec) and spec.cluster in (None, device["cluster"])
    ]
