"""Pools for readers and operators: rules, members declared and found, what shuts them, what is verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steelyard.evidence.leaf import Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import ConflictError, NotFoundError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.pools import ClosingCause
from steelyard.model.resources import ACCELERATORS, Availability, DeviceClass
from steelyard.model.standing import Standing, worst_of
from steelyard.services.closings import close_row, drift_view, findings_body, open_row, read_findings
from steelyard.services.confirmations import confirmations, support_documents, supported
from steelyard.services.pool_document import projects_in_sight, teams_in_sight
from steelyard.services.pool_rules import declared_pools, verified_now
from steelyard.services.pool_spec import FlavorSpec, PoolSpec, write_values
from steelyard.services.written import check_reason
from steelyard.store import closings as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.workloads import account_names

Json = dict[str, Any]
NOUN = "pool"
MOST_CLOSINGS = 50
MAX_TRIES = 5


def list_all(store: Store, principal: Principal) -> list[Json]:
    """Every pool in short."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        world = _World(view)
        return [world.outline(name) for name in world.specs]


def show(store: Store, principal: Principal, name: str) -> Json:
    """One pool whole. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "declared")
    with store.read() as view:
        world = _World(view)
        if name not in world.specs:
            raise NotFoundError("not-found", kind=NOUN, id=name[:80])
        rows = repository.closings_of(view, name, MOST_CLOSINGS)
        names = account_names(view, {p for row in rows for p in (row["closed_by"], row["opened_by"]) if p})
        return {**world.page(name, seen), "closings": [_closing(row, names) for row in rows]}


def close(
    store: Store, principal: Principal, name: str, reason: str | None, *, origin: Origin | None = None
) -> Json:
    """Let nothing new into a pool. Raises ForbiddenError, NotFoundError, InvalidError `reason-missing`,
    ConflictError `pool-is-closed`."""
    said = _allowed(store, principal, name, reason)
    unit = Unit(actor_of(principal))
    with store.read() as view:
        mine = [row for row in repository.open_closings(view) if row["pool"] == name]
    if any(row["cause"] == ClosingCause.OPERATOR for row in mine):
        raise ConflictError("pool-is-closed", name=name)
    number, now = store.ids.next(), store.now()
    close_row(
        unit, number, name, ClosingCause.OPERATOR, findings_body(()), principal.id, said, now, origin
    )
    store.writer.write(unit)
    return show(store, principal, name)


def open_again(
    store: Store, principal: Principal, name: str, reason: str | None, *, origin: Origin | None = None
) -> Json:
    """End what shuts a pool; a drift is accepted as it is, and closes it again when it becomes another.

    Raises ForbiddenError, NotFoundError, InvalidError `reason-missing`, ConflictError `pool-is-open`.
    """
    said = _allowed(store, principal, name, reason)
    for _ in range(MAX_TRIES):
        unit, now = Unit(actor_of(principal)), store.now()
        with store.read() as view:
            mine = [row for row in repository.open_closings(view) if row["pool"] == name]
        if not mine:
            raise ConflictError("pool-is-open", name=name)
        for row in mine:
            open_row(unit, row, principal.id, said, now, origin)
        try:
            store.writer.write(unit)
        except ConflictError:  # the drift became another meanwhile
            continue
        return show(store, principal, name)
    raise ConflictError("pool-busy", name=name)


def _allowed(store: Store, principal: Principal, name: str, reason: str | None) -> str:
    authorise(principal, Verb.MANAGE, NOUN)
    said = check_reason(reason)
    with store.read() as view:
        if name not in declared_pools(view):
            raise NotFoundError("not-found", kind=NOUN, id=name[:80])
    return said


# --- views ---------------------------------------------------------------------------------------------
class _World:
    """What all pools' views are made of, in one read view."""

    def __init__(self, view: View) -> None:
        self.specs = dict(sorted(declared_pools(view).items()))
        self._verified = verified_now(view, self.specs)
        self._records = repository.verifications(view, standing=True)
        self._documents = support_documents(view)
        self._view = view
        self._members: dict[str, list[Record]] = {}
        for row in repository.pool_sums(view):
            self._members.setdefault(row["pool"], []).append(row)
        self._shut: dict[str, list[Record]] = {}
        for row in repository.open_closings(view):
            self._shut.setdefault(row["pool"], []).append(row)
        people = {row["closed_by"] for rows in self._shut.values() for row in rows}
        self._names = account_names(view, people)

    def outline(self, name: str) -> Json:
        """A pool in short."""
        spec, members = self.specs[name], self._members.get(name, [])
        parts = [self._flavor(name, spec, flavor, members) for flavor in spec.flavors]
        return {
            "name": name,
            "cluster": spec.cluster,
            "purpose": spec.purpose.value,
            "owner": spec.owner,
            "on_call": spec.on_call,
            "open": name not in self._shut,
            "shut_by": [_closing(row, self._names) for row in self._shut.get(name, ())],
            "standing": worst_of(Standing(part["standing"]) for part in _judged(parts)).value,
            "simulated": any(bool(row["simulated"]) for row in members),
            "flavors": parts,
        }

    def page(self, name: str, seen: Scope) -> Json:
        """A pool whole; of the projects and teams that it lets in, those that the reader may see."""
        spec, rules = self.specs[name], self.specs[name].admission
        classes = sorted({flavor.device_class for flavor in spec.flavors})
        owners = {cls: spec.operated_by(cls) for cls in classes}
        return {
            **self.outline(name),
            "about": spec.about,
            "selector": dict(spec.selector),
            "environment": {key: list(values) for key, values in spec.environment},
            "confirmations": confirmations(
                spec, [row for row in self._records if row["pool"] == name], self._documents
            ),
            "fit": [
                {"class": entry.device_class.value, "needs": write_values(entry.needs)} for entry in spec.fit
            ],
            "admission": {
                "kinds": [kind.value for kind in rules.kinds],
                "projects": projects_in_sight(rules.projects, seen),
                "teams": teams_in_sight(rules.teams, seen),
                "environments": list(rules.environments),
                "max_per_request": {cls.value: amount for cls, amount in rules.most},
            },
            "lending": {
                "to": list(spec.lends_to),
                "verified": [
                    {"kind": kind, "model": model} for kind, model in sorted(self._verified.get(name, ()))
                ],
            },
            "operations": [
                {"class": cls.value, "owner": owner, "on_call": on_call}
                for cls, (owner, on_call) in owners.items()
            ],
            "members": members_view(spec, repository.pool_nodes(self._view, name)),
        }

    def _flavor(self, pool: str, spec: PoolSpec, flavor: FlavorSpec, members: Iterable[Record]) -> Json:
        mine = [row for row in members if row["flavor"] == flavor.name]
        verified = self._verified.get(pool, set())
        models = sorted({row["model"] for row in mine})
        standing = _standing(spec, models, verified, mine)
        shown = standing is Standing.VERIFIED
        return {
            "name": flavor.name,
            "class": flavor.device_class.value,
            "family": flavor.family,
            "model": flavor.model,
            "models": models,
            "devices": sum(row["devices"] for row in mine),
            "available": sum(row["devices"] for row in mine if row["availability"] == Availability.AVAILABLE),
            "verified_kinds": sorted({kind for kind, model in verified if model in models}),
            "standing": standing.value,
            "supported": supported(flavor.device_class, models, flavor.family, shown, self._documents),
        }


def _judged(parts: list[Json]) -> list[Json]:
    """The flavors by which a pool is judged: its accelerators; without any its cores. What comes with them
    on the same nodes ran in the same run."""
    accelerators = [part for part in parts if part["class"] in ACCELERATORS]
    return accelerators or [part for part in parts if part["class"] == DeviceClass.CPU] or parts


def _standing(
    spec: PoolSpec, models: list[str], verified: set[tuple[str, str]], devices: list[Record]
) -> Standing:
    """The worst of every model there is and every kind that is let in; of no device nothing is known."""
    if any(bool(row["simulated"]) for row in devices):
        return Standing.PENDING
    kinds = [kind.value for kind in spec.admission.kinds]
    parts = []
    for model in models:
        shown = {kind for kind, name in verified if name == model}
        done = set(kinds) <= shown if kinds else bool(shown)
        parts.append(Standing.VERIFIED if done else Standing.PENDING)
    return worst_of(parts)


def members_view(spec: PoolSpec, actual: list[str]) -> Json:
    """Nodes that are declared and nodes that are there, and whether both are the same set. Where none are
    declared there is nothing to be equal to."""
    if spec.nodes is None:
        return {"declared": None, "actual": actual, "equal": None, "missing": [], "extra": []}
    declared = set(spec.nodes)
    return {
        "declared": sorted(declared),
        "actual": actual,
        "equal": declared == set(actual),
        "missing": sorted(declared - set(actual)),
        "extra": sorted(set(actual) - declared),
    }


def _closing(row: Record, names: Mapping[str, str]) -> Json:
    findings = read_findings(row["findings_json"])
    return {
        "id": render("closing", row["id"]),
        "cause": row["cause"],
        "findings": [drift_view(entry) for entry in findings],
        "closed_at": row["closed_at"],
        "closed_by": names.get(row["closed_by"], row["closed_by"]),
        "reason": row["close_reason"],
        "opened_at": row["opened_at"],
        "opened_by": names.get(row["opened_by"], row["opened_by"]),
        "open_reason": row["open_reason"],
    }
