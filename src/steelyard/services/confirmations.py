"""What each part of a pool's environment is confirmed by: a real run, a support document, or nothing yet.

A run confirms a value that its workload needed, or that is the only one on offer. A document claims: it is
named beside, and what it alone speaks for stays pending. Supported is what has both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.model.resources import DeviceClass
from steelyard.model.standing import Standing
from steelyard.services.documents import stored_document
from steelyard.services.kinds import Kind
from steelyard.services.pool_rules import environment_body
from steelyard.services.pool_spec import PoolSpec, Values
from steelyard.services.support_specs import Scope, SupportDocumentSpec
from steelyard.store.database import View
from steelyard.store.live import declared_current
from steelyard.store.scoped import Record

Json = dict[str, Any]
RUN, DOCUMENT = "run", "support-document"


def support_documents(view: View) -> dict[str, SupportDocumentSpec]:
    """Every declared support document by name."""
    found = {}
    for name, body in declared_current(view, Kind.SUPPORT_DOCUMENT.value).items():
        spec = stored_document(Kind.SUPPORT_DOCUMENT.value, name, {}, msgspec.json.decode(body)).spec
        assert isinstance(spec, SupportDocumentSpec)
        found[name] = spec
    return found


def covers(scope: Scope, device_class: str, family: str | None, model: str | None) -> bool:
    """Whether a document speaks of such devices; one that names no class, family or model speaks of none."""
    if scope.device_class is None and scope.family is None and not scope.models:
        return False
    return (
        scope.device_class in (None, device_class)
        and scope.family in (None, family)
        and (not scope.models or model in scope.models)
    )


def confirmations(
    spec: PoolSpec, records: Iterable[Record], documents: dict[str, SupportDocumentSpec]
) -> list[Json]:
    """Each label and value of the environment with what confirms it. `records` are those of the pool that
    stand."""
    mine = [row for row in records if row["environment_json"] == environment_body(spec)]
    relevant = {name: doc for name, doc in documents.items() if _of_pool(spec, doc.scope)}
    found = []
    for label, values in spec.environment:
        for value in values:
            ran = any(_ran_with(row, label, value, alone=len(values) == 1) for row in mine)
            named = [name for name, doc in relevant.items() if _claims(doc.scope.environment, label, value)]
            found.append(
                {
                    "label": label,
                    "value": value,
                    "confirmed_by": [*([RUN] if ran else ()), *([DOCUMENT] if named else ())],
                    "documents": named,
                    "standing": (Standing.VERIFIED if ran else Standing.PENDING).value,
                }
            )
    return found


def _of_pool(spec: PoolSpec, scope: Scope) -> bool:
    return any(covers(scope, flavor.device_class, flavor.family, flavor.model) for flavor in spec.flavors)


def _ran_with(row: Record, label: str, value: str, *, alone: bool) -> bool:
    if alone:
        return True
    roles = msgspec.json.decode(row["software_json"]).get("roles") or {}
    return any((software.get("needs") or {}).get(label) == value for software in roles.values())


def _claims(environment: Values, label: str, value: str) -> bool:
    return any(key == label and value in values for key, values in environment)


def supported(
    device_class: DeviceClass, models: list[str], family: str | None, verified: bool,
    documents: dict[str, SupportDocumentSpec],
) -> bool:  # fmt: skip
    """A real run and a support document for every model there is."""
    return verified and all(
        any(covers(doc.scope, device_class, family, model) for doc in documents.values()) for model in models
    )
