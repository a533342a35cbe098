"""An engine whose inventory is what the test says it is: other labels, models and drivers, real or not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.engines.port import Engine
from steelyard.model.resources import DeviceClass, Fact, FoundDevice, FoundNode, Provenance


@dataclass(slots=True)
class Found:
    """What is changed in what the inner engine reports. Names are of nodes and UIDs of devices."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    drivers: dict[str, str] = field(default_factory=dict)
    detected: bool = False  # as if it were real


class FoundEngine:
    """Passes everything on to `inner`, but for the inventory."""

    def __init__(self, inner: Engine, found: Found) -> None:
        self.inner, self.found = inner, found
        self.cluster = inner.cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def inventory(self) -> tuple[FoundNode, ...]:
        """See `Engine`."""
        return tuple(self._node(node) for node in self.inner.inventory())

    def _node(self, node: FoundNode) -> FoundNode:
        labels = {**node.labels, **self.found.labels.get(node.name, {})}
        devices = tuple(self._device(device) for device in node.devices)
        facts = {key: self._fact(fact) for key, fact in node.facts.items()}
        return replace(node, labels=labels, devices=devices, facts=facts)

    def _device(self, device: FoundDevice) -> FoundDevice:
        facts = {key: self._fact(fact) for key, fact in device.facts.items()}
        driver = self.found.drivers.get(device.uid)
        if driver is not None:
            facts["driver"] = Fact(driver, Provenance.DETECTED, "test", 0)
        return replace(
            device,
            model=self.found.models.get(device.uid, device.model),
            device_class=self.found.classes.get(device.uid, device.device_class),
            facts=facts,
        )

    def _fact(self, fact: Fact) -> Fact:
        return replace(fact, provenance=Provenance.DETECTED) if self.found.detected else fact
