"""Which pool and flavor each device is of: what the declared pools say, kept as intervals."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from steelyard.control.context import Context
from steelyard.services.live_records import LiveDevice, LiveNode
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.unit import Unit


@dataclass(frozen=True, slots=True)
class PoolFlavor:
    """One flavor of a declared pool, and which devices are of it."""

    pool: str
    cluster: str
    labels: tuple[tuple[str, str], ...]
    name: str
    device_class: str
    model: str | None
    family: str | None

    def takes(self, node: LiveNode, device: LiveDevice) -> bool:
        """True when the device belongs to it."""
        return (
            node.cluster == self.cluster
            and device.device_class.value == self.device_class
            and (self.model is None or self.model == device.model)
            and (self.family is None or self.family == device.family)
            and all(node.labels.get(key) == value for key, value in self.labels)
        )


def load_flavors(context: Context) -> list[PoolFlavor]:
    """The declared pools' flavors, in the order of pool name and declaration."""
    with context.store.read() as connection:
        pools = rows.declared_current(connection, "Pool")
    found = []
    for pool, body in pools.items():
        spec = msgspec.json.decode(body)
        labels = tuple(sorted(((spec.get("selector") or {}).get("labels") or {}).items()))
        for flavor in spec.get("flavors") or ():
            found.append(
                PoolFlavor(
                    pool,
                    spec["cluster"],
                    labels,
                    flavor["name"],
                    flavor["class"],
                    flavor.get("model"),
                    flavor.get("family"),
                )
            )
    return found


class Membership:
    """Keeps what is booked of pool membership up to what is declared."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._flavors = load_flavors(context)

    def load(self) -> None:
        """Something was declared: the pools are read anew."""
        self._flavors = load_flavors(self._context)

    def assign(self, unit: Unit, node: LiveNode, now: int) -> None:
        """Pool and flavor of each device of a node: an interval that is closed when it changes."""
        for device in node.devices:
            match = next((flavor for flavor in self._flavors if flavor.takes(node, device)), None)
            wanted = (None, None) if match is None else (match.pool, match.name)
            if wanted == (device.pool, device.flavor):
                continue
            if device.pool is not None:
                unit.update(
                    t.pool_member,
                    {"device_id": device.id, "pool": device.pool},
                    null=("valid_to",),
                    valid_to=now,
                )
            if match is not None:
                unit.insert(
                    t.pool_member,
                    device_id=device.id,
                    pool=match.pool,
                    flavor=match.name,
                    valid_from=now,
                    valid_to=None,
                    version=now,
                )
            device.pool, device.flavor = wanted
            if device.id in self._context.meter:
                self._context.meter.set_pool(device.id, device.pool, now)
        self._context.state.touch_node(node.id)
