"""Nodes, devices and flavors that are live, as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from steelyard.model.resources import ACCELERATORS, Availability
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling import FlavorView, FreeDevices, NodeView, PartDevice, Slot
from steelyard.services.live_records import SOUND, LiveDevice, LiveNode


def node_view(node: LiveNode) -> NodeView:
    """A node with what is free of it."""
    whole: dict[str, list[int]] = {}
    partial: dict[str, list[PartDevice]] = {}
    slots: list[Slot] = []
    totals: dict[str, int] = {}
    unavailable: set[int] = set()
    withheld: dict[str, dict[str, int]] = {}
    memories: dict[int, int] = {}
    parts: set[int] = set()
    for device in node.devices:
        flavor = device.flavor
        if flavor is None or device.has_children:
            continue
        device_class, number = device.device_class, device.id
        totals[flavor] = totals.get(flavor, 0) + device.capacity
        if device.parent_uid is not None:
            parts.add(number)
        is_offered = device.availability is Availability.AVAILABLE
        if is_offered and device.condition is SOUND and device.reason is None and not device.quarantined:
            free = device.capacity - device.held  # as most are
        else:
            free = device.free
            if not is_offered:
                unavailable.add(number)
            for reason, amount in device.withheld():
                kept = withheld.setdefault(flavor, {})
                kept[reason] = kept.get(reason, 0) + amount
        if device_class not in ACCELERATORS:
            slots.append(Slot(number, flavor, device_class, max(0, free)))
            continue
        if device.memory:
            memories[number] = device.memory
        of_flavor = whole.get(flavor)
        if of_flavor is None:
            of_flavor = whole[flavor] = []
        if free == device.capacity == WHOLE_DEVICE:
            of_flavor.append(number)
        elif free > 0:
            partial.setdefault(flavor, []).append(PartDevice(number, free, device.share_kind))
    accelerators = {
        flavor: FreeDevices(tuple(whole[flavor]), tuple(partial.get(flavor, ()))) for flavor in whole
    }
    offered = node.availability is Availability.AVAILABLE
    kept_back = {flavor: tuple(sorted(kept.items())) for flavor, kept in withheld.items()}
    return NodeView(
        node.id, node.name, node.cluster, offered, node.labels, accelerators, tuple(slots), totals,
        frozenset(unavailable), kept_back, memories, frozenset(parts),
    )  # fmt: skip


def flavors_of(devices: Iterable[LiveDevice]) -> dict[str, FlavorView]:
    """The flavors that these devices make, by name."""
    found: dict[str, FlavorView] = {}
    memory: dict[str, int] = {}
    for device in devices:
        if device.flavor is None or device.has_children:
            continue
        if device.device_class in ACCELERATORS and device.memory:
            memory[device.flavor] = max(device.memory, memory.get(device.flavor, 0))
        if device.flavor not in found:
            found[device.flavor] = FlavorView(
                device.flavor,
                device.device_class,
                device.cluster,
                device.pool,
                device.model,
                device.family,
                device.simulated,
            )
    return {name: replace(view, memory=memory.get(name)) for name, view in sorted(found.items())}
