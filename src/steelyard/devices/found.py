"""What is known of a machine's accelerators, as its inventory reports it: with facts, health and signs.

Each fact stands with its source and time. What changes with every look (use, temperature, power) is no fact.
What health and holders make of a device's availability is decided where flags and work are known, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.devices.catalogue import Catalogue, Family
from steelyard.devices.roster import STATIC, Known
from steelyard.model.health import DeviceHolder
from steelyard.model.resources import (
    Availability,
    DeviceClass,
    Fact,
    FoundDevice,
    Provenance,
    UnavailableReason,
)
from steelyard.model.units import WHOLE_DEVICE

_BUS = "pci bus"
Holders = Mapping[str, tuple[DeviceHolder, ...] | None]


def devices_of(
    known: Iterable[Known], holders: Holders, catalogue: Catalogue, provenance: Provenance, now: int
) -> tuple[FoundDevice, ...]:
    """Cards in the order of family, place and name, each followed by its partitions."""
    everyone = sorted(known, key=_place)
    cut = {one.parent for one in everyone if one.parent is not None}
    cards = [one for one in everyone if one.parent is None]
    parts = [one for one in everyone if one.parent is not None]
    ordered = [two for card in cards for two in (card, *(p for p in parts if p.parent == card.uid))]
    return tuple(_device(one, one.uid in cut, holders, catalogue, provenance, now) for one in ordered)


def _place(one: Known) -> tuple[str, str, int, str]:
    return one.family, one.pci or "~", one.index if one.index is not None else 1 << 30, one.uid


def _device(
    one: Known, cut: bool, holders: Holders, catalogue: Catalogue, provenance: Provenance, now: int
) -> FoundDevice:
    family = catalogue.by_name.get(one.family)
    reading = one.reading
    empty = reading is not None and bool(reading.mig) and not cut  # what it has, partitions would have
    return FoundDevice(
        uid=one.uid,
        device_class=DeviceClass.OTHER if family is None else family.device_class,
        capacity=WHOLE_DEVICE,
        family=one.family,
        model=model_of(one, family),
        parent_uid=one.parent,
        memory=None if reading is None else reading.memory,
        availability=Availability.PLANNED if empty else Availability.AVAILABLE,
        reason=UnavailableReason.PARTITIONED.value if empty else None,
        facts=_facts(one, provenance, now),
        health=one.health,
        signs=() if one.standing is None else one.standing.signs,
        holders=holders.get(one.uid),
    )


def model_of(one: Known, family: Family | None) -> str:
    """The model as its tool names it, with the partition; else what the bus's numbers stand for, or these."""
    if one.reading is not None and one.reading.model is not None:
        model = one.reading.model
        return f"{model} {one.reading.partition}" if one.reading.partition is not None else model
    if one.card is not None and one.card.device_id:
        known = None if family is None else family.model_of(one.card.device_id)
        if known is not None:
            return known
        return f"pci {one.card.vendor_id[2:]}:{one.card.device_id[2:]}"
    return "unknown"


def _facts(one: Known, provenance: Provenance, now: int) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if one.card is not None:
        of_bus = {
            "pci": one.pci,
            "pci_id": f"{one.card.vendor_id}:{one.card.device_id}",
            "kernel_driver": one.card.driver,
            "numa": one.card.numa,
            "lanes": None if one.card.link is None else one.card.link[1],
        }
        facts = {key: Fact(v, provenance, _BUS, now) for key, v in of_bus.items() if v is not None}
    reading = one.reading
    if reading is None:
        return facts
    if reading.pci is None:
        facts.pop("pci", None)  # which of the cards on the bus it is, its tool does not say
    source = f"{reading.tool} {reading.layout}"
    for key in STATIC:
        value = getattr(reading, key)
        if value is not None:
            facts[key] = Fact(value, provenance, source, now if one.read_at is None else one.read_at)
    return facts
