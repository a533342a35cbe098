"""What of a node and its devices differs from what pools declare: labels, members, model, class, driver.

Pure. A pool claims nodes by a selector that is not empty or by naming them; of nodes that it does not claim
only what it takes is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from steelyard.model.health import Health
from steelyard.model.pools import DriftOf
from steelyard.model.resources import ACCELERATORS, FoundDevice, FoundNode
from steelyard.scheduling.admission import joined
from steelyard.services.pool_spec import FlavorSpec, PoolSpec

#: Keys of an environment that an engine detects of a device, too.
DETECTED = ("driver", "firmware", "cuda", "cann")
#: What is not known of such a device is not known to differ.
_UNSEEN = (Health.UNKNOWN, Health.MISSING)
MEMBER, NO_MEMBER = "member", "not a member"


class Drift(NamedTuple):
    """One difference. `where`: the node, or NODE/UID of a device."""

    what: DriftOf
    where: str
    declared: str | None
    detected: str | None


def drift_of_node(pools: Mapping[str, PoolSpec], node: FoundNode) -> dict[str, list[Drift]]:
    """Pool → what differs on a node of its cluster. `pools` are those of the node's cluster."""
    found: dict[str, list[Drift]] = {}
    chosen = {name: spec for name, spec in pools.items() if _chosen(spec, node)}
    taken = [(flavor, spec) for spec in chosen.values() for flavor in spec.flavors]
    for name, spec in pools.items():
        drift = [*_membership(spec, node)]
        if name in chosen:
            drift += [entry for device in node.devices for entry in _device(spec, node, device, taken)]
        if drift:
            found[name] = drift
    return found


def takes(flavor: FlavorSpec, device: FoundDevice) -> bool:
    """True when the device is of the flavor."""
    return (
        flavor.device_class is device.device_class
        and flavor.model in (None, device.model)
        and flavor.family in (None, device.family)
    )


def _chosen(spec: PoolSpec, node: FoundNode) -> bool:
    return all(node.labels.get(key) == value for key, value in spec.selector)


def _membership(spec: PoolSpec, node: FoundNode) -> Iterator[Drift]:
    if spec.nodes is None:
        return
    named, chosen = node.name in spec.nodes, _chosen(spec, node)
    if named and not chosen:
        for key, value in spec.selector:
            if node.labels.get(key) != value:
                yield Drift(DriftOf.LABEL, node.name, f"{key}={value}", _label(key, node.labels.get(key)))
    elif chosen and not named:
        yield Drift(DriftOf.NODE, node.name, NO_MEMBER, MEMBER)


def _label(key: str, value: str | None) -> str | None:
    return None if value is None else f"{key}={value}"


def _device(
    spec: PoolSpec, node: FoundNode, device: FoundDevice, taken: Iterable[tuple[FlavorSpec, PoolSpec]]
) -> Iterator[Drift]:
    if device.device_class not in ACCELERATORS or any(d.parent_uid == device.uid for d in node.devices):
        return
    where = f"{node.name}/{device.uid}"
    takers = [owner for flavor, owner in taken if takes(flavor, device)]
    if spec in takers:
        yield from _environment(spec, where, device)
    elif not takers and device.health not in _UNSEEN:
        yield from _model(spec, where, device)


def _environment(spec: PoolSpec, where: str, device: FoundDevice) -> Iterator[Drift]:
    for key, values in spec.environment:
        fact = device.facts.get(key) if key in DETECTED else None
        if fact is None or fact.value is None:
            continue  # what is not detected is not known to differ
        detected = str(fact.value)
        if not any(detected == value or detected.startswith(f"{value}.") for value in values):
            yield Drift(DriftOf.DRIVER, where, f"{key} {joined(values)}", f"{key} {detected}")


def _model(spec: PoolSpec, where: str, device: FoundDevice) -> Iterator[Drift]:
    """A device that no pool takes, on a node that this one claims."""
    same_model = [flavor for flavor in spec.flavors if flavor.model == device.model]
    wrong_class = next((f for f in same_model if f.device_class is not device.device_class), None)
    if wrong_class is not None:
        yield Drift(DriftOf.CLASS, where, wrong_class.device_class.value, device.device_class.value)
        return
    wanted = [f for f in spec.flavors if f.device_class is device.device_class]
    if wanted and (spec.selector or spec.nodes is not None):
        declared = joined(sorted({f.model or f.family or f.name for f in wanted}))
        yield Drift(DriftOf.MODEL, where, declared, device.model)
