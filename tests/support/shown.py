"""An engine whose inventory a test changes: what is found is what the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from steelyard.engines.port import Engine, EngineUnavailable
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource
from steelyard.model.resources import FoundDevice, FoundNode
from tests.support.house import House

Changed = Callable[[FoundDevice], FoundDevice | None]


class Shown:
    """Passes everything on; `devices` changes what is found, by UID: None takes a device away."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.devices: dict[str, Changed] = {}
        self.more: dict[str, tuple[FoundDevice, ...]] = {}  # by node
        self.nodes: dict[str, Callable[[FoundNode], FoundNode | None]] = {}
        self.away = False  # nothing answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def observe(self, cursor: str | None) -> Any:
        """As the engine does, unless it is away."""
        self._answer()
        return self._engine.observe(cursor)

    def _answer(self) -> None:
        if self.away:
            raise EngineUnavailable("away")

    def inventory(self) -> tuple[FoundNode, ...]:
        """What the engine finds, as the test wants it."""
        self._answer()
        seen = (self._node(node) for node in self._engine.inventory())
        return tuple(node for node in seen if node is not None)

    def _node(self, node: FoundNode) -> FoundNode | None:
        if node.name in self.nodes:
            changed = self.nodes[node.name](node)
            if changed is None:
                return None
            node = changed
        found = []
        for device in node.devices:
            made = self.devices[device.uid](device) if device.uid in self.devices else device
            if made is not None:
                found.append(made)
        devices = (*found, *self.more.get(node.name, ()))
        return node if devices == node.devices else replace(node, devices=devices)


def shown(house: House, cluster: str = "sim") -> Shown:
    """The engine of a house made with `wrap=Shown`."""
    engine = house.engines[cluster]
    assert isinstance(engine, Shown)
    return engine


def look(house: House, cluster: str = "sim") -> None:
    """Its inventory is taken at the next tick, and the loop acts on it."""
    house.loop.agents[cluster].look_at_inventory()
    house.tick(2)


def ill(health: Health, code: SignCode = SignCode.VENDOR_ALARM, detail: str = "tool says so") -> Changed:
    """A device of which a tool says this."""
    sign = Sign(code, health, SignSource.TOOL, detail)
    return lambda device: replace(device, health=health, signs=(sign,))


def gone(_device: FoundDevice) -> None:
    """A device that is not found."""


def held_by(*holders: DeviceHolder) -> Changed:
    """A device with processes of others on it."""
    return lambda device: replace(device, holders=holders)
