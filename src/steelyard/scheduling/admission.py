"""Whether a pool lets a request in: its rules, its environment, what it needs to be told, whether it is open.

Each condition that is not met is a reason of its own with the label, what is wanted and what was found.
Nothing here looks at what is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling.views import FlavorView, PoolView

WAKE_POOL = "pool-changed"
_TEAM = "team/"
_SHOWN = 8


def misfits(
    pool: PoolView, pools: Mapping[str, PoolView], shape: Shape, request: MemberRequest, flavor: FlavorView
) -> list[Reason]:
    """Why devices of the pool are not for the request, the environment first; empty where they are."""
    found = [*_environment(pool, request, flavor.device_class), *_told(pool, request, flavor.device_class)]
    ruled = _rules(pool, shape)
    if ruled and not found:
        ruled = _lent(pool, pools, shape, flavor, ruled)
    return found + ruled + _unverified(pool, shape, flavor)


def runs_on(shape: Shape, flavor: FlavorView) -> bool:
    """False on a model whose speed the shape does not know, where it knows any: nobody verified it there."""
    if not shape.speeds or flavor.device_class not in ACCELERATORS:
        return True
    return any(name == flavor.model and speed > 0 for name, speed in shape.speeds)


def shut_reason(pool: PoolView, device_class: DeviceClass) -> Reason:
    """The pool lets nothing new in."""
    params = {"pool": pool.name, **(pool.shut or {})}
    return Reason(
        ReasonCode.POOL_CLOSED, "admission", "pool", pool.name, device_class.value, wakes_on=(WAKE_POOL,),
        params=params,
    )  # fmt: skip


def _environment(pool: PoolView, request: MemberRequest, device_class: DeviceClass) -> Iterable[Reason]:
    """What the request needs of the environment and the pool does not offer."""
    for label, wanted in request.needs:
        offered = pool.offers.get(label, ())
        if wanted not in offered:
            yield _mismatch(pool, device_class, label, wanted, joined(offered))


def _told(pool: PoolView, request: MemberRequest, device_class: DeviceClass) -> Iterable[Reason]:
    """What a request for this class must say of itself here."""
    said = dict(request.needs)
    for label, values in pool.needs.get(device_class, ()):
        if said.get(label) not in values:
            found = _mismatch(pool, device_class, label, joined(values), said.get(label))
            yield replace(found, params={**found.params, "per": "told"})


def _mismatch(
    pool: PoolView, device_class: DeviceClass, label: str, wanted: str | None, found: str | None
) -> Reason:
    return Reason(
        ReasonCode.LABEL_MISMATCH, "admission", "pool", pool.name, device_class.value, wakes_on=(WAKE_POOL,),
        params={"pool": pool.name, "label": label, "wanted": wanted, "found": found},
    )  # fmt: skip


def _rules(pool: PoolView, shape: Shape) -> list[Reason]:
    """What the pool's rules have against it. What a shape of old does not say of itself is let pass."""
    team = next((name.removeprefix(_TEAM) for name in shape.org_path if name.startswith(_TEAM)), None)
    found = []
    for label, allowed, mine in (
        ("kind", pool.kinds, shape.kind),
        ("project", pool.projects, shape.project),
        ("team", pool.teams, team),
        ("environment", pool.environments, shape.environment),
    ):
        if allowed and mine not in allowed and not (label == "kind" and mine is None):
            found.append(_not_admitting(pool, label, joined(allowed), mine))
    totals = shape.totals()
    for device_class, most in pool.most.items():
        asked = totals.get(device_class, 0)
        if asked > most:
            found.append(_too_much(pool, device_class, most, asked))
    return found


def _not_admitting(pool: PoolView, label: str, wanted: str | None, found: str | None) -> Reason:
    return Reason(
        ReasonCode.POOL_NOT_ADMITTING, "admission", "pool", pool.name, wakes_on=(WAKE_POOL,),
        params={"pool": pool.name, "label": label, "wanted": wanted, "found": found},
    )  # fmt: skip


def _too_much(pool: PoolView, device_class: DeviceClass, most: int, asked: int) -> Reason:
    return Reason(
        ReasonCode.POOL_NOT_ADMITTING, "admission", "pool", pool.name, device_class.value,
        limit=most, requested=asked, wakes_on=(WAKE_POOL,),
        params={"pool": pool.name, "label": "maxPerRequest", "wanted": None, "found": None, "per": "most"},
    )  # fmt: skip


def _lent(
    pool: PoolView, pools: Mapping[str, PoolView], shape: Shape, flavor: FlavorView, ruled: list[Reason]
) -> list[Reason]:
    """A pool may lend to those whom another one lets in, once a real run has verified the place."""
    borrowers = [pools[name] for name in pool.lends_to if name in pools]
    if not any(not _rules(other, shape) for other in borrowers):
        return ruled
    if shape.kind is not None and flavor.model is not None and (shape.kind, flavor.model) in pool.verified:
        return []
    return [
        Reason(
            ReasonCode.LENDING_UNVERIFIED, "admission", "pool", pool.name, flavor.device_class.value,
            flavor.name, wakes_on=(WAKE_POOL,),
            params={"pool": pool.name, "kind": shape.kind, "model": flavor.model},
        )
    ]  # fmt: skip


def _unverified(pool: PoolView, shape: Shape, flavor: FlavorView) -> list[Reason]:
    """A shape that knows its speeds may be moved between models, so each of them must stand verified. Of what
    is simulated there is nothing to verify."""
    if flavor.simulated or shape.kind is None or not any(name == flavor.model for name, _ in shape.speeds):
        return []
    if (shape.kind, flavor.model) in pool.verified:
        return []
    known = joined(sorted({model for kind, model in pool.verified if kind == shape.kind}))
    return [
        Reason(
            ReasonCode.MODEL_UNVERIFIED, "admission", "pool", pool.name, flavor.device_class.value,
            flavor.name, wakes_on=(WAKE_POOL,),
            params={"kind": shape.kind, "model": flavor.model, "pool": pool.name, "known": known},
        )
    ]  # fmt: skip


def joined(values: Iterable[str]) -> str | None:
    """A few values as one text; None where there is none."""
    listed = list(values)
    more = f", +{len(listed) - _SHOWN}" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more if listed else None
