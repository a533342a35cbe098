"""The nodes and devices that a simulation declares, spelled out; every fact is marked simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from steelyard.engines.simulated.spec import DeviceGroup, NodeGroup, SimulationSpec
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource
from steelyard.model.resources import (
    Availability,
    DeviceClass,
    Fact,
    FoundDevice,
    FoundNode,
    Provenance,
    UnavailableReason,
)
from steelyard.model.units import WHOLE_DEVICE

SOURCE = "cluster-document"
CPU_FAMILY = "cpu"
MEMORY_FAMILY = "memory"
MODEL = "simulated"
_WORST = (Health.MISSING, Health.UNHEALTHY, Health.UNKNOWN, Health.DEGRADED, Health.HEALTHY)


@dataclass(frozen=True, slots=True)
class Layout:
    """All nodes by name as they are when nothing is wrong."""

    nodes: dict[str, FoundNode]

    @classmethod
    def of(cls, spec: SimulationSpec, at: int) -> Layout:
        """Expands the groups; `at` is when the simulation was declared, the time of every fact."""
        nodes = {}
        for group in spec.nodes:
            for index in range(group.count):
                node = _node(group, f"{group.prefix}-{index}", at)
                nodes[node.name] = node
        return cls(nodes)


def cpu_uid(node: str) -> str:
    """The device that stands for a node's cores."""
    return f"{node}/cpu"


def memory_uid(node: str) -> str:
    """The device that stands for a node's memory."""
    return f"{node}/memory"


def seen_now(
    node: FoundNode,
    *,
    lost: bool,
    gone: bool,
    missing: frozenset[str],
    signs: Callable[[str], tuple[Sign, ...]],
    strangers: Callable[[str], tuple[DeviceHolder, ...]],
) -> FoundNode:
    """The node as the inventory shows it: lost, with devices missing, ill, or with somebody on them."""
    if lost:
        text = "the node is gone" if gone else "the node does not answer"
        devices = tuple(
            replace(device, availability=Availability.UNPLANNED, reason=UnavailableReason.NODE_LOST.value)
            for device in node.devices
        )
        return replace(
            node,
            devices=devices,
            availability=Availability.UNPLANNED,
            reason=UnavailableReason.NODE_LOST.value,
            reason_text=text,
        )
    devices = tuple(
        _missing(device)
        if device.uid in missing or device.parent_uid in missing
        else _as_said(device, signs(device.uid), strangers(device.uid))
        for device in node.devices
    )
    return node if devices == node.devices else replace(node, devices=devices)


def _missing(device: FoundDevice) -> FoundDevice:
    text = "the device is not there any more"
    sign = Sign(SignCode.NOT_FOUND, Health.MISSING, SignSource.BUS, text)
    return replace(device, health=Health.MISSING, signs=(sign,), reason_text=text)


def _as_said(device: FoundDevice, signs: tuple[Sign, ...], holders: tuple[DeviceHolder, ...]) -> FoundDevice:
    if not signs and not holders:
        return device
    ordered = tuple(sorted(signs, key=lambda sign: _WORST.index(sign.health)))
    health = ordered[0].health if ordered else device.health
    return replace(device, health=health, signs=ordered, holders=holders)


def _node(group: NodeGroup, name: str, at: int) -> FoundNode:
    devices = [
        _device(cpu_uid(name), DeviceClass.CPU, group.cpu, CPU_FAMILY, MODEL, None, at),
        _device(memory_uid(name), DeviceClass.MEMORY, group.memory, MEMORY_FAMILY, MODEL, None, at),
    ]
    numbers: dict[DeviceClass, int] = {}
    for like in group.devices:
        for _ in range(like.count):
            number = numbers.get(like.device_class, 0)
            numbers[like.device_class] = number + 1
            devices.extend(_accelerator(like, f"{name}/{like.device_class.value}-{number}", at))
    return FoundNode(
        name, dict(group.labels), tuple(devices), facts={"name": Fact(name, Provenance.SIMULATED, SOURCE, at)}
    )


def _accelerator(like: DeviceGroup, uid: str, at: int) -> list[FoundDevice]:
    found = [_device(uid, like.device_class, WHOLE_DEVICE, like.family, like.model, like.memory, at)]
    for part in range(like.parts):
        child = _device(
            f"{uid}.{part}",
            like.device_class,
            WHOLE_DEVICE,
            like.family,
            like.part_model or like.model,
            like.part_memory,
            at,
        )
        found.append(replace(child, parent_uid=uid))
    return found


def _device(
    uid: str, device_class: DeviceClass, capacity: int, family: str, model: str, memory: int | None, at: int
) -> FoundDevice:
    facts = {
        "capacity": Fact(capacity, Provenance.SIMULATED, SOURCE, at),
        "family": Fact(family, Provenance.SIMULATED, SOURCE, at),
        "model": Fact(model, Provenance.SIMULATED, SOURCE, at),
    }
    if memory is not None:
        facts["memory"] = Fact(memory, Provenance.SIMULATED, SOURCE, at)
    return FoundDevice(uid, device_class, capacity, family, model, memory=memory, facts=facts, holders=())
