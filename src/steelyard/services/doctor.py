"""Is everything in order? Checks that look and change nothing; each answers with a code and parameters.

`ok` True: it is; False: it is not; None: it can't be told, or does not apply here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from steelyard.engines.port import Capabilities, Engine
from steelyard.evidence.merkle import inclusion_proof, verify_inclusion
from steelyard.identity.authorise import authorise
from steelyard.model.errors import Param, SteelyardError
from steelyard.model.organisation import Principal, Verb
from steelyard.model.units import SECOND
from steelyard.services.audit import LogKey
from steelyard.services.inventory import clusters
from steelyard.services.quota_inventory import ghosts
from steelyard.services.quota_sums import unit_of_subject
from steelyard.services.topology_levels import lacking
from steelyard.store.database import View
from steelyard.store.doctor import database_facts
from steelyard.store.installation import read_lease
from steelyard.store.leaves import bodies, count_leaves, leaf_hash, log_row, tile_reader
from steelyard.store.releases import open_releases
from steelyard.store.store import Store

LEASE = "control"
LAST_LEAVES = 256
LOW_DISK_MIB = 1024
CLOCK_TOLERANCE = 2 * SECOND
_SAID = {True: "ok", False: "failed", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. Its sentence is the text `doctor.CODE`."""

    id: str
    ok: bool | None
    code: str
    params: dict[str, Param]


def examine(
    store: Store,
    principal: Principal,
    engines: Mapping[str, Engine],
    folder: Path | None,
    signer: LogKey | None = None,
) -> list[Check]:
    """Every check. Raises ForbiddenError unless the principal is bound to the whole installation."""
    authorise(principal, Verb.VIEW, "doctor")
    found: list[Check] = []
    looks: list[tuple[str, Callable[[View], list[Check]]]] = [
        ("database", lambda view: [_database(store, view)]),
        ("log", lambda view: [_log(view)]),
        ("lease", lambda view: [_lease(store, view)]),
        ("clock", lambda view: [_clock(store, view)]),
        ("cluster", lambda view: _clusters(store, view, engines)),
        ("quarantine", lambda view: [_quarantine(view)]),
        ("quota", lambda view: [_quota(view)]),
        ("topology", _topology),
    ]
    for name, look in looks:
        try:
            with store.read() as view:
                found += look(view)
        except Exception as error:  # a check that can't be made is an answer, not the end of the others
            found.append(Check(name, False, "check-failed", {"check": name, "cause": type(error).__name__}))
    return [*found, _key(store, signer), _writer(store), _disk(folder)]


def _database(store: Store, view: View) -> Check:
    facts = database_facts(view)
    return Check("database", True, "database-answers", {"kind": store.engine.dialect.name, **facts})


def _key(store: Store, signer: LogKey | None) -> Check:
    """Somebody signs checkpoints: an embedded server has nobody else to do it."""
    if signer is not None and signer.able:
        return Check("key", True, "log-key-here", {})
    return Check("key", None if store.shared else False, "log-key-missing", {})


def _writer(store: Store) -> Check:
    broken = store.writer.broken
    if broken is None:
        return Check("writer", True, "writer-writes", {"commits": store.writer.commits})
    return Check("writer", False, "writer-failed", {"cause": type(broken).__name__})


def _log(view: View) -> Check:
    """The last leaves hash to what is stored, and the last one is in the tree that the log row names."""
    size, frontier = log_row(view)
    params: dict[str, Param] = {"size": size}
    if size == 0:
        return Check("log", True, "log-empty", params)
    if count_leaves(view) != size:
        return Check("log", False, "log-leaves-missing", {**params, "stored": count_leaves(view)})
    first = max(0, size - LAST_LEAVES)
    for seq, body in enumerate(bodies(view, first, size), first):
        if sha256(b"\x00" + body).digest() != leaf_hash(view, seq):
            return Check("log", False, "log-leaf-altered", {**params, "seq": seq})
    proof = inclusion_proof(size - 1, size, tile_reader(view))
    if not verify_inclusion(leaf_hash(view, size - 1), size - 1, size, proof, frontier.root()):
        return Check("log", False, "log-head-wrong", params)
    return Check("log", True, "log-head-verifies", {**params, "root": frontier.root().hex()[:16]})


def _lease(store: Store, view: View) -> Check:
    row, now = read_lease(view, LEASE), store.now()
    if row is None:
        return Check("lease", None, "lease-never-held", {})
    params: dict[str, Param] = {"holder": row.holder, "epoch": row.epoch}
    if row.expires_at <= now:
        return Check("lease", False, "lease-expired", {**params, "since": row.expires_at})
    return Check("lease", True, "lease-held", params)


def _quarantine(view: View) -> Check:
    found = open_releases(view)
    if not found:
        return Check("quarantine", True, "quarantine-empty", {})
    since = min(row.quarantined_at for row in found)
    return Check("quarantine", False, "quarantine-open", {"count": len(found), "since": since})


def _quota(view: View) -> Check:
    """Quota that has no devices behind it is no fault of the product: it is told, and judged by people."""
    found = ghosts(view)
    if not found:
        return Check("quota", True, "quota-has-devices", {})
    worst = max(found, key=lambda one: (one.ghost, one.subject))
    params: dict[str, Param] = {
        "count": len(found), "subject": worst.subject, "resource": unit_of_subject(worst.subject),
        "owned": worst.owned, "offered": worst.offered, "ghost": worst.ghost,
    }  # fmt: skip
    return Check("quota", None, "quota-without-devices", params)


def _topology(view: View) -> list[Check]:
    """Nodes without the label of a declared level are in no domain of it: told, and judged by people."""
    found = lacking(view)
    if not found:
        return [Check("topology", True, "topology-labelled", {})]
    return [
        Check(
            f"topology/{one.level}", None, "topology-label-missing",
            {"level": one.level, "count": one.count, "nodes": ", ".join(one.nodes)},
        )
        for one in found
    ]  # fmt: skip


def _clock(store: Store, view: View) -> Check:
    """The newest leaf is not from the future: else this machine's own clock went back."""
    size, _ = log_row(view)
    ahead = store.writer.last_ts - store.wall() if size else 0
    if ahead > CLOCK_TOLERANCE:
        return Check("clock", False, "clock-behind-log", {"behind_us": ahead})
    return Check("clock", True, "clock-agrees", {})


def _clusters(store: Store, view: View, engines: Mapping[str, Engine]) -> list[Check]:
    found = []
    for cluster in clusters(view, store.now()):
        params: dict[str, Param] = {"cluster": cluster["name"], "observed_at": cluster["observed_at"]}
        if cluster["reachable"] is None:
            found.append(Check(f"cluster/{cluster['name']}", None, "cluster-never-observed", params))
        elif cluster["reachable"]:
            found.append(Check(f"cluster/{cluster['name']}", True, "cluster-answers", params))
        else:
            found.append(Check(f"cluster/{cluster['name']}", False, "cluster-silent", params))
        if cluster["engine"] == "local":
            engine = engines.get(cluster["name"])
            found += [*_runner(cluster["name"], engine), *_device_steps(cluster["name"], engine)]
    return found


def _runner(cluster: str, engine: Engine | None) -> list[Check]:
    """The local engine's supervisor answers, and how it bounds and separates what it runs."""
    params: dict[str, Param] = {"cluster": cluster}
    if engine is None:
        return [Check(f"runner/{cluster}", None, "runner-not-here", params)]
    try:
        able = engine.capabilities()
    except SteelyardError as error:
        return [Check(f"runner/{cluster}", False, "runner-silent", {**params, "cause": error.code})]
    if able.problem is not None:
        return [Check(f"runner/{cluster}", False, able.problem, {**params, **dict(able.problem_params)})]
    answer = {**params, "limits": able.limits, "isolation": able.isolation_mode, "protocol": able.protocol}
    return [Check(f"runner/{cluster}", True, "runner-answers", answer), _isolation(cluster, able)]


def _device_steps(cluster: str, engine: Engine | None) -> list[Check]:
    """How far the finding of each family of accelerators came: the first failed step is where to begin."""
    try:
        steps = () if engine is None else engine.device_steps()
    except SteelyardError as error:
        params: dict[str, Param] = {"check": f"devices/{cluster}", "cause": error.code}
        return [Check(f"devices/{cluster}", False, "check-failed", params)]
    return [
        Check(
            f"devices/{cluster}/{step.family}/{step.name}",
            step.ok,
            f"device-{step.name}-{_SAID[step.ok]}",
            {"cluster": cluster, "family": step.family, **step.params},
        )
        for step in steps
    ]


def _isolation(cluster: str, able: Capabilities) -> Check:
    """What is kept apart between projects, what is not, and why it is not more."""
    why_not = [f"{mode}: {why}" for mode, why in able.isolation_modes if why is not None]
    params: dict[str, Param] = {
        "cluster": cluster,
        "mode": able.isolation_mode,
        "enforced": ", ".join(able.isolation) or "-",
        "missing": ", ".join(able.not_enforced) or None,
        "reasons": able.isolation_text or "; ".join(why_not) or None,
    }
    name = f"isolation/{cluster}"
    if able.isolation:
        return Check(name, True, "isolation-enforced", params)
    if able.isolation_mode == "none":
        return Check(name, None, "isolation-none", params)
    return Check(name, False, "isolation-unavailable", params)


def _disk(folder: Path | None) -> Check:
    if folder is None:
        return Check("disk", None, "disk-unknown", {})
    try:
        free = shutil.disk_usage(folder).free >> 20
    except OSError as error:
        return Check("disk", False, "disk-unreadable", {"cause": error.strerror or ""})
    code = "disk-low" if free < LOW_DISK_MIB else "disk-free"
    return Check("disk", code == "disk-free", code, {"free_mib": free})
