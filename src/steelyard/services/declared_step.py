"""One step of declared objects: what one unit writes for them, row by row and leaf by leaf."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.model.errors import ConflictError, InvalidError
from steelyard.model.organisation import Scope
from steelyard.services.derived import COUNTERS, ORG_VERSION, Deriver
from steelyard.services.diff import Change, changes
from steelyard.services.documents import Document
from steelyard.services.kinds import BindingSpec, ClusterSpec, NamespaceSpec, ProjectSpec, QuotaSpec
from steelyard.services.warnings import Warned
from steelyard.store import declared as rows
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.store import Store
from steelyard.store.unit import NO_HEAD, Unit

DECLARED_VERSION = "declared_version"
MAX_PATHS = 200


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one document. `action`: created, changed, unchanged or retired."""

    kind: str
    name: str
    action: str
    version: int
    diff: tuple[Change, ...] = ()
    warnings: tuple[Warned, ...] = ()


class DeclaredStep:
    """Writes of one unit for declared objects: rows, derived rows, counters, one leaf an object."""

    def __init__(
        self,
        view: View,
        store: Store,
        unit: Unit,
        named: Sequence[Document],
        touched: Sequence[Document],
        origin: Origin | None,
        reason: str | None = None,
    ) -> None:
        self._unit = unit
        self._store = store
        self._origin = origin
        self._said = {} if reason is None else {"reason": reason}
        self._newest = rows.newest(view, Scope.system(), [document.key for document in named])
        latest = max((row.valid_to or row.valid_from for row in self._newest.values()), default=0)
        self.at = max(store.now(), latest + 1)
        counters = rows.counters(view)
        moved = {name for document in touched for name in COUNTERS[document.kind]}
        org_version = counters.get(ORG_VERSION, 0) + (ORG_VERSION in moved)
        self._deriver = Deriver(view, unit, store.ids.next, self.at, org_version)
        if touched:
            self._move(counters.get(DECLARED_VERSION), moved)

    def _move(self, planned_on: int | None, moved: set[str]) -> None:
        if planned_on is None:
            self._unit.insert(t.counter, name=DECLARED_VERSION, value=1)
        else:
            where = {"name": DECLARED_VERSION, "value": planned_on}
            self._unit.update(t.counter, where, value=planned_on + 1)
        for name in sorted(moved):
            self._unit.upsert(t.counter, ("name",), add=("value",), name=name, value=1)

    def expect(self, document: Document, version: int | None) -> None:
        """Raises ConflictError unless the object is at the version."""
        found = self._newest[document.key].version
        if version is not None and version != found:
            raise ConflictError("version-mismatch", expected=version, found=found)

    def change(self, before: Document | None, after: Document) -> Applied:
        """Create or change one object."""
        known = self._newest.get(after.key)
        if before is not None and known is not None and before.digest == after.digest:
            return Applied(after.kind.value, after.name, "unchanged", known.version)
        _check_fixed(before, after)
        diff = _diff(before, after)
        version = known.version + 1 if known is not None else 1
        if before is not None and known is not None:
            self._unit.update(t.declared, {"id": known.id}, null=("valid_to",), valid_to=self.at)
        row = self._unit.insert(
            t.declared,
            id=self._store.ids.next(),
            kind=after.kind.value,
            name=after.name,
            valid_from=self.at,
            valid_to=None,
            version=version,
            labels_json=json.dumps(dict(after.labels)),
            spec_json=json.dumps(after.body, allow_nan=False),
            digest=after.digest,
        )
        action = "created" if before is None else "changed"
        draft = self._leaf(before, after, version, f"object.{action}", diff)
        self._unit.leaf(draft, row, known.head if known is not None else NO_HEAD)
        self._deriver.change(before, after, version)
        return Applied(after.kind.value, after.name, action, version, tuple(diff))

    def retire(self, document: Document) -> Applied:
        """End one object."""
        known = self._newest[document.key]
        row = self._unit.update(t.declared, {"id": known.id}, null=("valid_to",), valid_to=self.at)
        self._unit.leaf(self._leaf(document, None, known.version, "object.retired", []), row, known.head)
        self._deriver.change(document, None, known.version)
        diff = _diff(document, None)
        return Applied(document.kind.value, document.name, "retired", known.version, tuple(diff))

    def _leaf(
        self, before: Document | None, after: Document | None, version: int, action: str, diff: list[Change]
    ) -> LeafDraft:
        document = after or before
        assert document is not None
        older = version - 1 if after is not None else version
        return LeafDraft(
            action=action,
            object_kind=document.kind.value.lower(),
            object_id=document.name,
            version_before=older if before is not None else None,
            version_after=version if after is not None else None,
            before_digest=before.digest if before is not None else None,
            after_digest=after.digest if after is not None else None,
            project=_project(document),
            cluster=document.name if isinstance(document.spec, ClusterSpec) else None,
            origin=self._origin,
            extra={
                "changed": [change.path for change in diff[:MAX_PATHS]], "changes": len(diff), **self._said
            },
        )


def _project(document: Document) -> str | None:
    """The project in whose stream an object's leaves stand, too."""
    spec = document.spec
    if isinstance(spec, ProjectSpec):
        return document.name
    if isinstance(spec, NamespaceSpec | BindingSpec):
        return spec.project
    if isinstance(spec, QuotaSpec):
        return spec.target if spec.level == "project" else spec.project
    return None


def _check_fixed(before: Document | None, after: Document) -> None:
    """What can't change under an object that lives: a cluster's engine."""
    if before is None:
        return
    old, new = before.spec, after.spec
    if isinstance(old, ClusterSpec) and isinstance(new, ClusterSpec) and old.engine is not new.engine:
        raise InvalidError("field-fixed", path="spec.engine", kind=after.kind.value, name=after.name)


def _diff(before: Document | None, after: Document | None) -> list[Change]:
    def parts(document: Document | None) -> tuple[dict[str, str], dict[str, Any]]:
        return ({}, {}) if document is None else (dict(document.labels), document.body)

    (old_labels, old_body), (new_labels, new_body) = parts(before), parts(after)
    labels = changes(old_labels, new_labels, "metadata.labels")
    return [*labels, *changes(old_body, new_body, "spec")]
