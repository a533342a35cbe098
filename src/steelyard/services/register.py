"""Can we take this in? The register of workloads, answered from records and never from a name.

For each entry every pool is asked: does it take the kind, has it the environment, is there enough of it, and
has a real run verified kind, model and environment. An entry without boundaries is a plan: pending.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

from steelyard.identity.authorise import authorise
from steelyard.model.errors import NotFoundError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.reasons import Reason
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.standing import Standing, worst_of
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import FlavorView, PoolView
from steelyard.scheduling.admission import misfits
from steelyard.services.documents import stored_document
from steelyard.services.kinds import Kind
from steelyard.services.pool_rules import load_pools
from steelyard.services.reasons import reason_view
from steelyard.services.support_specs import RegisterEntrySpec
from steelyard.store import closings as repository
from steelyard.store import declared as declared_rows
from steelyard.store.database import View
from steelyard.store.declared import DeclaredRow
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
NOUN = "register"


class Answer(StrEnum):
    """Of an entry, or of one pool for it."""

    YES = "yes"
    PENDING = "pending"
    NO = "no"


_OF_STANDING = {
    Standing.VERIFIED: Answer.YES, Standing.PENDING: Answer.PENDING, Standing.REFUSED: Answer.NO,
}  # fmt: skip


def list_all(store: Store, principal: Principal) -> list[Json]:
    """Every entry with its answer, by name."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        world = _World(view)
        return [world.entry(row) for row in _rows(view)]


def show(store: Store, principal: Principal, name: str) -> Json:
    """One entry, with what each pool says. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        row = next((row for row in _rows(view) if row.name == name), None)
        if row is None:
            raise NotFoundError("not-found", kind=NOUN, id=name[:80])
        return _World(view).entry(row)


def _rows(view: View) -> list[DeclaredRow]:
    found = declared_rows.current(view, Scope.system())
    return sorted((row for row in found if row.kind == Kind.REGISTER_ENTRY), key=lambda row: row.name)


class _World:
    """What the answers rest on, in one read view."""

    def __init__(self, view: View) -> None:
        self._pools = {name: _for_anybody(pool) for name, pool in load_pools(view).items()}
        self._members: dict[str, list[Record]] = {}
        for row in repository.pool_sums(view):
            self._members.setdefault(row["pool"], []).append(row)

    def entry(self, row: DeclaredRow) -> Json:
        """An entry with its answer."""
        spec = stored_document(row.kind, row.name, row.labels, row.spec).spec
        assert isinstance(spec, RegisterEntrySpec)
        pools = [self._ask(name, pool, spec) for name, pool in self._pools.items()]
        asked = [found for found in pools if found is not None]
        standing, reasons = _whole(spec, asked)
        return {
            "name": row.name,
            "version": row.version,
            **row.spec,
            "boundaries": spec.boundaries,
            "answer": _OF_STANDING[standing].value,
            "reasons": reasons,
            "pools": [
                {**found, "answer": _OF_STANDING[Standing(found["standing"])].value} for found in asked
            ],
        }

    def _ask(self, name: str, pool: PoolView, spec: RegisterEntrySpec) -> Json | None:
        """What a pool says; None where it has nothing of the class."""
        members = self._members.get(name, [])
        primary = _primary(spec)
        devices = [row for row in members if row["device_class"] == primary]
        if not devices:
            return None
        request = MemberRequest(spec.requests, needs=spec.needs, models=spec.models)
        shape = Shape("", "", "", (), 0, (("main", 1, request),), True, spec.kind.value, None)
        flavor = FlavorView("", primary, pool.cluster, name)
        against = misfits(pool, {}, shape, request, flavor)
        fitting = [row for row in devices if not spec.models or row["model"] in spec.models]
        if not fitting:
            against.append(_reason("no-model", pool=name))
        against += _short(name, spec, members)
        pending: list[Reason] = []
        models = sorted({row["model"] for row in fitting})
        if any(bool(row["simulated"]) for row in fitting):
            pending.append(_reason("simulated", pool=name))
        elif not any((spec.kind.value, model) in pool.verified for model in models):
            shown = ", ".join(models)[:200]
            pending.append(_reason("unverified", pool=name, kind=spec.kind.value, models=shown))
        standing = Standing.REFUSED if against else Standing.PENDING if pending else Standing.VERIFIED
        reasons = [reason_view(reason) for reason in against or pending]
        return {"pool": name, "standing": standing.value, "models": models, "reasons": reasons}


def _for_anybody(pool: PoolView) -> PoolView:
    """An entry is of no project yet: what is asked is whether the pool could take it."""
    return replace(pool, projects=(), teams=(), environments=())


def _primary(spec: RegisterEntrySpec) -> DeviceClass:
    classes = [cls for cls, _ in spec.requests]
    return next((cls for cls in classes if cls in ACCELERATORS), classes[0])


def _short(pool: str, spec: RegisterEntrySpec, members: list[Record]) -> list[Reason]:
    """What there is less of than is asked, even in an empty pool."""
    found = []
    for cls, amount in spec.requests:
        there = sum(row["capacity"] for row in members if row["device_class"] == cls)
        if there and there < amount:
            params: dict[str, str | int | None] = {"pool": pool}
            found.append(
                Reason("register-too-small", NOUN, resource=cls.value, limit=there, requested=amount,
                       params=params)
            )  # fmt: skip
    return found


def _reason(code: str, resource: str | None = None, **params: str) -> Reason:
    return Reason(f"register-{code}", NOUN, resource=resource, params=dict(params))


def _whole(spec: RegisterEntrySpec, pools: list[Json]) -> tuple[Standing, list[Json]]:
    """The best of the pools; an entry without boundaries is at best pending."""
    rank = list(Standing)
    best = min((Standing(found["standing"]) for found in pools), key=rank.index, default=Standing.REFUSED)
    reasons: list[Json] = []
    if not pools:
        reasons.append(reason_view(_reason("no-class", _primary(spec).value)))
    if spec.boundaries is None:
        reasons.append(reason_view(_reason("no-boundaries")))
        if best is not Standing.REFUSED:
            best = worst_of((best, Standing.PENDING))
    if best is not Standing.VERIFIED:
        reasons += [reason for found in pools for reason in found["reasons"]]
    return best, reasons
