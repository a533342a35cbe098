"""Pools as the scheduler takes them: the rules that are declared, and what has become of them since.

A pool may be shut by drift or by somebody, and kinds of workloads may be verified in it; neither stands in
its document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

from steelyard.scheduling import PoolView
from steelyard.services.closings import shut_params
from steelyard.services.documents import Document, stored_document
from steelyard.services.kinds import Kind
from steelyard.services.pool_spec import PoolSpec, write_values
from steelyard.store import closings
from steelyard.store import live as rows
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.workloads import account_names

Shut: TypeAlias = Mapping[str, Mapping[str, str | int | None]]
_encode = msgspec.json.Encoder(order="deterministic").encode
Verified: TypeAlias = Mapping[str, Iterable[tuple[str, str]]]


def view_of(name: str, spec: PoolSpec) -> PoolView:
    """The rules that a pool's document declares."""
    rules = spec.admission
    return PoolView(
        name,
        spec.cluster,
        offers=dict(spec.environment),
        needs={entry.device_class: entry.needs for entry in spec.fit},
        kinds=tuple(kind.value for kind in rules.kinds),
        projects=rules.projects,
        teams=rules.teams,
        environments=rules.environments,
        most=dict(rules.most),
        lends_to=spec.lends_to,
    )


def pools_of(documents: Iterable[Document]) -> dict[str, PoolView]:
    """The rules of all pools among these documents."""
    return {
        document.name: view_of(document.name, document.spec)
        for document in documents
        if isinstance(document.spec, PoolSpec)
    }


def with_state(pools: Mapping[str, PoolView], shut: Shut, verified: Verified) -> dict[str, PoolView]:
    """The same pools, shut and verified as given."""
    return {
        name: replace(pool, shut=shut.get(name), verified=frozenset(verified.get(name, ())))
        for name, pool in sorted(pools.items())
    }


def declared_pools(view: View) -> dict[str, PoolSpec]:
    """The current pools by name."""
    found = {}
    for name, body in rows.declared_current(view, Kind.POOL.value).items():
        spec = stored_document(Kind.POOL.value, name, {}, msgspec.json.decode(body)).spec
        assert isinstance(spec, PoolSpec)
        found[name] = spec
    return found


def load_pools(view: View) -> dict[str, PoolView]:
    """The pools as they are in this view."""
    specs = declared_pools(view)
    declared = {name: view_of(name, spec) for name, spec in specs.items()}
    return with_state(declared, shut_now(view), verified_now(view, specs))


def shut_now(view: View) -> dict[str, dict[str, str | int | None]]:
    """Pool → why it lets nothing new in."""
    by_pool: dict[str, list[Record]] = {}
    for row in closings.open_closings(view):
        by_pool.setdefault(row["pool"], []).append(row)
    if not by_pool:
        return {}
    names = account_names(view, {row["closed_by"] for rows in by_pool.values() for row in rows})
    return {pool: shut_params(rows, names) for pool, rows in by_pool.items()}


def verified_now(view: View, specs: Mapping[str, PoolSpec]) -> dict[str, set[tuple[str, str]]]:
    """Pool → (kind, model) of which a record stands, made in the environment that the pool has now."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in closings.verifications(view, standing=True):
        spec = specs.get(row["pool"] or "")
        if spec is not None and row["environment_json"] == environment_body(spec):
            found.setdefault(row["pool"], set()).add((row["kind"], row["model"]))
    return found


def environment_body(spec: PoolSpec) -> str:
    """A pool's environment as it stands in a verification record."""
    return _encode(write_values(spec.environment)).decode()
