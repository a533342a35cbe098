"""Rows derived from declared objects, as intervals: organisation edges, bindings, limits.

They change in the same unit as the object, so that no reader ever meets one without the other. A row
whose content stays the same stays open; nothing is ever updated but the one closing of `valid_to`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steelyard.model.policy import QUEUE_TREE, Limit
from steelyard.services.documents import Document
from steelyard.services.kinds import (
    BindingSpec,
    CohortSpec,
    Kind,
    NamespaceSpec,
    ProjectSpec,
    QueueSpec,
    QuotaSpec,
    TeamSpec,
)
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.declared import edges, open_bindings, open_limits
from steelyard.store.unit import Unit

POLICY_VERSION = "policy_version"
ORG_VERSION = "org_version"
INVENTORY_VERSION = "inventory_version"
ACCESS_VERSION = "access_version"
#: Moves with what pools let in, also where that follows from no document: closings, verifications.
POOL_VERSION = "pool_version"
LABEL_VERSION = "label_version"

#: Which version counters a change of a kind moves. The organisation is a quota tree, too, and who may submit
#: in a project has the limits of each user there.
COUNTERS: dict[Kind, tuple[str, ...]] = {
    Kind.CLUSTER: (INVENTORY_VERSION,),
    Kind.POOL: (INVENTORY_VERSION, POOL_VERSION),
    Kind.TEAM: (ORG_VERSION, POLICY_VERSION),
    Kind.PROJECT: (ORG_VERSION, POLICY_VERSION),
    Kind.NAMESPACE: (ORG_VERSION, POLICY_VERSION),
    Kind.PRIORITY_CLASS: (POLICY_VERSION,),
    Kind.COHORT: (POLICY_VERSION,),
    Kind.QUEUE: (POLICY_VERSION,),
    Kind.QUOTA: (POLICY_VERSION,),
    Kind.ROUTING: (POLICY_VERSION,),
    Kind.SCHEDULING_POLICY: (POLICY_VERSION,),
    Kind.CONVERSION_TABLE: (POLICY_VERSION,),
    Kind.TEMPLATE: (),
    Kind.BINDING: (ACCESS_VERSION, POLICY_VERSION),
    Kind.LABEL_VOCABULARY: (LABEL_VERSION,),
    Kind.SUPPORT_DOCUMENT: (),
    Kind.EXTENSION: (),
    Kind.OBSERVATION_SOURCE: (),
    Kind.REGISTER_ENTRY: (),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """What an organisation edge says."""

    kind: str
    child: str
    parent: str | None
    environment: str | None = None
    cost_centre: str | None = None


def edge_of(document: Document) -> Edge | None:
    """The edge that a team, project or namespace stands for."""
    spec = document.spec
    if isinstance(spec, TeamSpec):
        return Edge("team", document.name, None)
    if isinstance(spec, ProjectSpec):
        return Edge("project", document.name, spec.team)
    if isinstance(spec, NamespaceSpec):
        return Edge("namespace", document.name, spec.project, spec.environment, spec.cost_centre)
    return None


def limits_of(document: Document) -> list[Limit]:
    """The limits that a queue, cohort or quota stands for. A hard limit X is nominal 0 with borrowing
    limit X: what it limits is owned by an unbounded root (`model.policy`)."""
    spec = document.spec
    if isinstance(spec, QuotaSpec):
        return [
            Limit(
                spec.tree, spec.node, limit.subject, 0, limit.hard, None, limit.on_exceed,
                limit.lowering.effect, limit.lowering.drain_for,
            )
            for limit in spec.limits
        ]
    if isinstance(spec, CohortSpec | QueueSpec):
        return [
            Limit(
                QUEUE_TREE,
                document.name,
                item.subject,
                item.nominal,
                item.borrowing_limit,
                item.lending_limit,
                item.on_exceed,
                item.lowering.effect,
                item.lowering.drain_for,
            )
            for item in spec.limits
        ]
    return []


class Deriver:
    """Turns changes of declared objects into writes of one unit. `at` is the instant of the change."""

    def __init__(self, view: View, unit: Unit, next_id: Callable[[], int], at: int, org_version: int) -> None:
        self._unit = unit
        self._next_id = next_id
        self._at = at
        self._org_version = org_version
        self._edges = {(edge.kind, edge.child): edge for edge in edges(view, only_open=True)}
        self._bindings = {row.name: row for row in open_bindings(view)}
        self._limits = {
            (row.declared_by, row.limit.tree, row.limit.node, row.limit.subject): row
            for row in open_limits(view)
        }

    def change(self, before: Document | None, after: Document | None, version: int) -> None:
        """`before` None: created; `after` None: retired."""
        self._change_edge(before, after, version)
        self._change_limits(before, after, version)
        self._change_binding(before, after, version)

    def _change_edge(self, before: Document | None, after: Document | None, version: int) -> None:
        old = edge_of(before) if before is not None else None
        new = edge_of(after) if after is not None else None
        if old == new:
            return
        if old is not None and (known := self._edges.get((old.kind, old.child))) is not None:
            where = {"kind": old.kind, "child": old.child, "version": known.version}
            self._unit.update(t.org_edge, where, null=("valid_to",), valid_to=self._at)
        if new is not None:
            self._unit.insert(
                t.org_edge,
                kind=new.kind,
                child=new.child,
                parent=new.parent,
                valid_from=self._at,
                valid_to=None,
                version=version,
                org_version=self._org_version,
                environment=new.environment,
                cost_centre=new.cost_centre,
            )

    def _change_limits(self, before: Document | None, after: Document | None, version: int) -> None:
        document = after or before
        if document is None:
            return
        owner = f"{document.kind.value}/{document.name}"
        wanted = (
            {(limit.tree, limit.node, limit.subject): limit for limit in limits_of(after)} if after else {}
        )
        for (declared_by, *key), row in self._limits.items():
            if declared_by != owner:
                continue
            if wanted.get((key[0], key[1], key[2])) == row.limit:
                del wanted[key[0], key[1], key[2]]
            else:
                self._unit.update(t.quota_limit, {"id": row.id}, null=("valid_to",), valid_to=self._at)
        for limit in wanted.values():
            self._insert_limit(limit, owner, version)

    def _insert_limit(self, limit: Limit, owner: str, version: int) -> None:
        self._unit.insert(
            t.quota_limit,
            id=self._next_id(),
            tree=limit.tree,
            node=limit.node,
            subject=limit.subject,
            nominal=limit.nominal,
            borrowing_limit=limit.borrowing_limit,
            lending_limit=limit.lending_limit,
            on_exceed=limit.on_exceed.value,
            on_lowered=None if limit.on_lowered is None else limit.on_lowered.value,
            drain_for=limit.drain_for,
            declared_by=owner,
            valid_from=self._at,
            valid_to=None,
            version=version,
        )

    def _change_binding(self, before: Document | None, after: Document | None, version: int) -> None:
        old = before.spec if before is not None and isinstance(before.spec, BindingSpec) else None
        new = after.spec if after is not None and isinstance(after.spec, BindingSpec) else None
        if old == new:
            return
        if before is not None and old is not None and (row := self._bindings.get(before.name)) is not None:
            self._unit.update(t.binding, {"id": row.id}, null=("valid_to",), valid_to=self._at)
        if after is not None and new is not None:
            self._unit.insert(
                t.binding,
                id=self._next_id(),
                name=after.name,
                user=new.user,
                role=new.role.value,
                project=new.project,
                valid_from=self._at,
                valid_to=None,
                version=version,
            )
