"""Declared objects: apply, diff, export, read, retire.

An apply is one unit: all its documents change together or none does. The whole result is checked as one
world, so documents may come in any order. Every apply moves the counter `declared_version` from the value
it was planned on; one that was overtaken is planned again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.evidence.leaf import Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services import guarantees
from steelyard.services.declared_step import DECLARED_VERSION, Applied, DeclaredStep
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import APPLY_ORDER, Kind, QueueSpec, QuotaSpec
from steelyard.services.known_names import check_names
from steelyard.services.labels import check_documents
from steelyard.services.lowering import leaving_by, says_more
from steelyard.services.policy import Since, trees_of
from steelyard.services.pool_document import in_sight, with_known_purpose
from steelyard.services.quota_holders import held_now
from steelyard.services.quota_sums import Over, becoming_over, check_children
from steelyard.services.references import World, check, check_administrator_left, check_not_used
from steelyard.services.warnings import Warned, over_warnings, queue_warnings, quota_warnings
from steelyard.services.written import check_reason
from steelyard.store import declared as rows
from steelyard.store.accounts import account_names
from steelyard.store.database import View
from steelyard.store.declared import DeclaredRow
from steelyard.store.store import Store
from steelyard.store.unit import Unit

MAX_PLANS = 6
_LIMITING = frozenset({Kind.QUEUE, Kind.COHORT, Kind.QUOTA})
_PLANNING = threading.Lock()
#: Told the unit and the results before the unit is written, e.g. to record an answer in it.
OnUnit = Callable[[Unit, "list[Applied]"], None]


@dataclass(frozen=True, slots=True)
class Declared:
    """One version of a declared object, for readers."""

    kind: str
    name: str
    labels: dict[str, str]
    version: int
    valid_from: int
    valid_to: int | None
    spec: dict[str, Any]


def apply(
    store: Store,
    principal: Principal,
    documents: Sequence[Document],
    *,
    dry_run: bool = False,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
    reason: str | None = None,
) -> list[Applied]:
    """Make the declared objects be as the documents say, atomically; results in apply order.

    `reason`: why, for the leaves. Raises ForbiddenError, InvalidError (`reference-missing`, `cohort-cycle`,
    …), ConflictError.
    """
    for document in documents:
        authorise(principal, Verb.MANAGE, document.kind.value.lower())
    said = None if reason is None else check_reason(reason)
    return _repeat(store, lambda: _apply_once(store, principal, documents, dry_run, origin, on_unit, said))


def plan_apply(
    view: View,
    store: Store,
    unit: Unit,
    documents: Sequence[Document],
    *,
    extra_users: frozenset[str] = frozenset(),
    origin: Origin | None = None,
    reason: str | None = None,
) -> list[Applied]:
    """Add to `unit` what the documents change, for use cases that change more in the same unit.

    `extra_users` are accounts that the unit itself makes. The caller has authorised, and plans anew when
    the unit turns out stale.
    """
    ordered = sorted(documents, key=lambda document: (APPLY_ORDER[document.kind], document.name))
    before = load_world(view)
    after = {**before, **{document.key: document for document in ordered}}
    check(after, account_names(view) | extra_users)
    check_administrator_left(before, after)
    changed = [d for d in ordered if d.key not in before or before[d.key].digest != d.digest]
    if any(d.kind in (Kind.QUEUE, Kind.COHORT) for d in changed):
        guarantees.move(unit, guarantees.check_within(view, before.values(), after.values()))
    check_documents(view, after, changed)
    check_names(view, after, changed)
    check_children(before, after)
    step = DeclaredStep(view, store, unit, ordered, changed, origin, reason)
    warned = _lowered(view, before, after, store.now()) if any(d.kind in _LIMITING for d in changed) else []
    named = {_node(document) for document in ordered if document.kind in _LIMITING}
    results = []
    for document in ordered:
        result = step.change(before.get(document.key), document)
        results.append(replace(result, warnings=tuple(_warnings(after, document, warned, named))))
    return results


def _lowered(view: View, before: World, after: World, now: int) -> list[tuple[str, Warned]]:
    """Who would be above their limits after a change, and what becomes of that."""
    usage = rows.usage_counters(view)
    since = Since((row.limit for row in rows.open_limits(view)), now)
    was, trees = trees_of(before.values(), since), trees_of(after.values(), since)
    over = list(becoming_over(was, trees, usage))
    leaving = leaving_by(view, (was, before), (trees, after), now) if over or says_more(was, trees) else {}
    if leaving:  # a node further up is within its limit when those have left
        known = {(one.tree, one.node, one.subject) for one in over}
        over = [one for one in over if (one.tree, one.node, one.subject) in leaving]
        over += [Over(*key, each.limit.limit, each.limit.used) for key, each in leaving.items()
                 if key not in known and each.leaving]  # fmt: skip
    return over_warnings(over, held_now(view, after), leaving) if over else []


def _warnings(
    world: World, document: Document, lowered: list[tuple[str, Warned]], named: Collection[str]
) -> Iterator[Warned]:
    """What is worth saying of one document. What is about a node that none of the `named` stands for is said
    with the first that changes limits."""
    spec = document.spec
    if isinstance(spec, QuotaSpec):
        yield from quota_warnings(world, spec)
    elif isinstance(spec, QueueSpec):
        yield from queue_warnings(world, document.name)
    for entry in list(lowered) if document.kind in _LIMITING else ():
        if entry[0] == _node(document) or entry[0] not in named:
            lowered.remove(entry)
            yield entry[1]


def _node(document: Document) -> str:
    """The node of a tree that a document stands for."""
    return document.spec.node if isinstance(document.spec, QuotaSpec) else document.name


def retire(
    store: Store,
    principal: Principal,
    kind: str,
    name: str,
    *,
    if_match: int | None = None,
    dry_run: bool = False,
    origin: Origin | None = None,
    on_unit: OnUnit | None = None,
) -> Applied:
    """End an object. Raises NotFoundError, ConflictError `object-in-use` while anything names it or
    works in it, `version-mismatch` when it is not at `if_match`, ForbiddenError."""
    wanted = parse_kind(kind)
    authorise(principal, Verb.MANAGE, wanted.value.lower())

    def once() -> list[Applied]:
        unit = Unit(actor_of(principal))
        with store.read() as view:
            world = load_world(view)
            document = world.get((wanted.value, name))
            if document is None:
                raise NotFoundError("not-found", kind=wanted.value, id=name[:63])
            rest = {key: other for key, other in world.items() if key != document.key}
            check_not_used(rest, document)
            check_administrator_left(world, rest)
            _check_idle(view, document)
            step = DeclaredStep(view, store, unit, [document], [document], origin)
            step.expect(document, if_match)
            results = [step.retire(document)]
        return _finish(store, unit, results, dry_run, on_unit)

    return _repeat(store, once)[0]


def export(store: Store, principal: Principal) -> list[dict[str, Any]]:
    """Every document within the principal's scope, in apply order: applying them changes nothing."""
    seen = scope(principal, Verb.VIEW, "declared")
    with store.read() as view:
        found = rows.current(view, seen)
    found.sort(key=lambda row: (APPLY_ORDER[Kind(row.kind)], row.name))
    shown = [in_sight(row.spec, seen) if row.kind == Kind.POOL else row.spec for row in found]
    return [
        export_document(row.kind, row.name, row.labels, spec) for row, spec in zip(found, shown, strict=True)
    ]


def export_document(kind: str, name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """A document as a person would write it, in the form that is read now."""
    spec = with_known_purpose(spec) if kind == Kind.POOL else spec
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"kind": kind, "metadata": metadata, "spec": spec}


def list_objects(
    store: Store, principal: Principal, kind: str | None = None, at: int | None = None
) -> list[Declared]:
    """Objects within the principal's scope, now or as they were at an instant, in apply order."""
    wanted = None if kind is None else parse_kind(kind).value
    seen = scope(principal, Verb.VIEW, "declared")
    with store.read() as view:
        found = rows.current(view, seen) if at is None else rows.valid_at(view, seen, at)
    found.sort(key=lambda row: (APPLY_ORDER[Kind(row.kind)], row.name))
    return [_declared(row, seen) for row in found if wanted is None or row.kind == wanted]


def get_object(store: Store, principal: Principal, kind: str, name: str) -> Declared:
    """The current version. Raises NotFoundError where there is none within the scope."""
    newest = history(store, principal, kind, name)[0]
    if newest.valid_to is not None:
        raise NotFoundError("not-found", kind=newest.kind, id=newest.name)
    return newest


def history(store: Store, principal: Principal, kind: str, name: str) -> list[Declared]:
    """All versions, newest first. Raises NotFoundError where there is none within the scope."""
    wanted = parse_kind(kind)
    seen = scope(principal, Verb.VIEW, "declared")
    with store.read() as view:
        found = rows.history(view, seen, wanted.value, name)
    if not found:
        raise NotFoundError("not-found", kind=wanted.value, id=name[:63])
    return [_declared(row, seen) for row in found]


def parse_kind(text: str) -> Kind:
    """The kind, in any case (`queue`, `Queue`). Raises InvalidError."""
    for kind in Kind:
        if kind.value.lower() == text.lower():
            return kind
    raise InvalidError("kind-unknown", kind=text[:60])


def load_world(view: View) -> dict[tuple[str, str], Document]:
    """Every current document, parsed."""
    found = [
        stored_document(row.kind, row.name, row.labels, row.spec)
        for row in rows.current(view, Scope.system())
    ]
    return {document.key: document for document in found}


# --- one unit --------------------------------------------------------------------------------------
def _repeat(store: Store, once: Callable[[], list[Applied]]) -> list[Applied]:
    """Plan again when another apply was faster; the last conflict is the caller's. On this server one
    plans and commits at a time, so that only other servers can be faster."""
    with _PLANNING:
        for _ in range(MAX_PLANS - 1):
            seen = _versions(store)
            try:
                return once()
            except ConflictError:
                if _versions(store) == seen:
                    raise
        return once()


def _versions(store: Store) -> tuple[int, int]:
    """What an apply is planned on: what is declared, and what is guaranteed."""
    with store.read() as view:
        found = rows.counters(view)
    return found.get(DECLARED_VERSION, 0), found.get(guarantees.GUARANTEE_VERSION, 0)


def _apply_once(
    store: Store,
    principal: Principal,
    documents: Sequence[Document],
    dry_run: bool,
    origin: Origin | None,
    on_unit: OnUnit | None,
    reason: str | None,
) -> list[Applied]:
    unit = Unit(actor_of(principal))
    with store.read() as view:
        results = plan_apply(view, store, unit, documents, origin=origin, reason=reason)
    return _finish(store, unit, results, dry_run, on_unit)


def _finish(
    store: Store, unit: Unit, results: list[Applied], dry_run: bool, on_unit: OnUnit | None
) -> list[Applied]:
    if dry_run:
        return results
    if on_unit is not None:
        on_unit(unit, results)
    if unit.writes:
        store.writer.write(unit)
    return results


def _check_idle(view: View, document: Document) -> None:
    """Raises ConflictError while something works in the object."""
    name = document.name
    busy = {
        Kind.NAMESPACE: lambda: rows.live_workloads(view, namespace=name),
        Kind.PROJECT: lambda: rows.live_workloads(view, project=name),
        Kind.QUEUE: lambda: rows.live_workloads(view, queue=name),
        Kind.PRIORITY_CLASS: lambda: rows.live_workloads(view, priority_class=name),
        Kind.CLUSTER: lambda: rows.live_attempts(view, name),
    }.get(document.kind)
    count = busy() if busy is not None else 0
    if count:
        raise ConflictError(
            "object-in-use", kind=document.kind.value, name=name, by_kind="Workload", by=str(count)
        )


def _declared(row: DeclaredRow, seen: Scope) -> Declared:
    spec = in_sight(with_known_purpose(row.spec), seen) if row.kind == Kind.POOL else row.spec
    return Declared(row.kind, row.name, row.labels, row.version, row.valid_from, row.valid_to, spec)
