"""What this installation is made of: its version, who leads, and what the engine of each cluster can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard import __version__
from steelyard.engines.port import Engine
from steelyard.identity.authorise import authorise
from steelyard.model.errors import SteelyardError
from steelyard.model.organisation import Principal, Verb
from steelyard.services.doctor import LEASE
from steelyard.services.inventory import clusters
from steelyard.store.doctor import database_facts
from steelyard.store.installation import read_lease
from steelyard.store.store import Store

Json = dict[str, Any]


def describe(store: Store, principal: Principal, engines: Mapping[str, Engine]) -> Json:
    """`{version, install_id, database, lease, clusters}`; a cluster's `can` is None where its engine is not
    driven from here or does not answer. Raises ForbiddenError unless bound to the whole installation."""
    authorise(principal, Verb.VIEW, "doctor")
    with store.read() as view:
        lease = read_lease(view, LEASE)
        found = clusters(view, store.now())
        database = {"kind": store.engine.dialect.name, **database_facts(view)}
    return {
        "version": __version__,
        "install_id": store.install_id,
        "database": database,
        "lease": None if lease is None else {"holder": lease.holder, "epoch": lease.epoch},
        "clusters": [{**cluster, "can": _abilities(engines.get(cluster["name"]))} for cluster in found],
    }


def _abilities(engine: Engine | None) -> Json | None:
    if engine is None:
        return None
    try:
        able = engine.capabilities()
    except SteelyardError:
        return None
    return {
        "limits": able.limits,
        "exec": able.can_exec,
        "update": able.can_update,
        "devices_seen": able.sees_device_processes,
        "utilisation_seen": able.sees_utilisation,
        "protocol": able.protocol,
        "isolation_mode": able.isolation_mode,
        "isolation": sorted(able.isolation),
        "not_enforced": sorted(able.not_enforced),
        "isolation_text": able.isolation_text or None,
        "problem": able.problem,
    }
