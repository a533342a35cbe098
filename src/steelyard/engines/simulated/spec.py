"""What a simulated cluster is and what it is to suffer: `spec.simulation` of its declared Cluster document.

    simulation:
      nodes:                 # groups of like nodes
        - {count: 4, prefix: sim-a, cpu: "32", memory: 256Gi, labels: {zone: a},
           devices: [{class: gpu, family: nvidia, model: A100-80G, count: 8, memory: 80Gi}]}
      timing: {provision: 50ms, image: 0, environment: 0, launch: 20ms, stop: 20ms, release: 10ms}
      foreign:               # what is there and is not ours
        - {kind: process, id: "4711", node: sim-a-0, devices: [sim-a-0/gpu-7], text: somebody's own}
      suffer:                # see `Suffering`
        - {fault: image-failure, match: {name: "train-*", attempt: 1}, count: 1}

Strict: an unknown key, a wrong type or a number out of bounds is an InvalidError that names its path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from steelyard.engines.simulated.faults import Suffering, canonical, choice, read_sufferings
from steelyard.engines.simulated.reader import Reader
from steelyard.model.errors import InvalidError
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import MILLISECOND

MAX_NODES = 20_000
MAX_DEVICES = 200_000
MAX_SUFFERINGS = 1_000
MAX_FOREIGN = 1_000


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Like devices of one node. `parts` children of `part_model` make the parent not allocatable itself."""

    device_class: DeviceClass
    family: str
    model: str
    count: int
    memory: int | None
    parts: int
    part_model: str | None
    part_memory: int | None


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Like nodes `PREFIX-0 … PREFIX-(count-1)`; cpu in milli-cores, memory in MiB."""

    prefix: str
    count: int
    cpu: int
    memory: int
    labels: tuple[tuple[str, str], ...]
    devices: tuple[DeviceGroup, ...]

    @property
    def devices_per_node(self) -> int:
        """All devices of a node, its cpu and memory among them."""
        return 2 + sum(group.count * (1 + group.parts) for group in self.devices)


@dataclass(frozen=True, slots=True)
class ForeignThing:
    """Something that is not ours; it occupies `devices` whole, and of its node's cores and memory so much."""

    kind: str
    id: str
    node: str
    text: str
    devices: tuple[str, ...]
    cpu: int = 0  # milli-cores
    memory: int = 0  # MiB


@dataclass(frozen=True, slots=True)
class Timing:
    """How long each stage takes, µs."""

    provision: int = 50 * MILLISECOND
    image: int = 0
    environment: int = 0
    launch: int = 20 * MILLISECOND
    stop: int = 20 * MILLISECOND
    release: int = 10 * MILLISECOND


@dataclass(frozen=True, slots=True)
class SimulationSpec:
    """The whole of `spec.simulation`; `raw` is what was declared, as canonical JSON text."""

    nodes: tuple[NodeGroup, ...]
    timing: Timing = Timing()
    foreign: tuple[ForeignThing, ...] = ()
    suffer: tuple[Suffering, ...] = ()
    raw: str = field(default="", compare=False)


def parse_simulation(raw: object, path: str = "spec.simulation") -> SimulationSpec:
    """The declared simulation. Raises InvalidError with the path of the first thing that is wrong."""
    reader = Reader(raw, path)
    nodes = tuple(_node_group(entry, where) for entry, where in reader.items("nodes", MAX_NODES))
    if not nodes:
        raise InvalidError("field-missing", path=reader.at("nodes"))
    _check_bounds(nodes, reader.at("nodes"))
    timing = _timing(reader.take("timing", {}), reader.at("timing"))
    foreign = tuple(_foreign(entry, where) for entry, where in reader.items("foreign", MAX_FOREIGN))
    suffer = read_sufferings(reader.items("suffer", MAX_SUFFERINGS))
    reader.finish()
    return SimulationSpec(nodes, timing, foreign, suffer, canonical(raw))


def _check_bounds(nodes: tuple[NodeGroup, ...], path: str) -> None:
    if sum(group.count for group in nodes) > MAX_NODES:
        raise InvalidError("field-out-of-bounds", path=path, low=1, high=MAX_NODES)
    if sum(group.count * group.devices_per_node for group in nodes) > MAX_DEVICES:
        raise InvalidError("field-out-of-bounds", path=f"{path}[].devices", low=0, high=MAX_DEVICES)
    prefixes = [group.prefix for group in nodes]
    for index, prefix in enumerate(prefixes):
        if prefix in prefixes[:index]:
            raise InvalidError("field-invalid", path=f"{path}[{index}].prefix", expected="unique prefix")


def _node_group(raw: object, path: str) -> NodeGroup:
    reader = Reader(raw, path)
    labels = Reader(reader.take("labels", {}), reader.at("labels"))
    group = NodeGroup(
        prefix=_prefix(reader),
        count=reader.integer("count", 1, low=1, high=MAX_NODES),
        cpu=reader.quantity("cpu", "cpu", "8"),
        memory=reader.quantity("memory", "memory", "32Gi"),
        labels=tuple(sorted((key, labels.text(key)) for key in labels.left())),
        devices=tuple(_device_group(entry, where) for entry, where in reader.items("devices", 64)),
    )
    reader.finish()
    return group


def _prefix(reader: Reader) -> str:
    prefix = reader.text("prefix", limit=63)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", prefix):
        raise InvalidError("field-invalid", path=reader.at("prefix"), expected="letters, digits, . _ -")
    return prefix


def _device_group(raw: object, path: str) -> DeviceGroup:
    reader = Reader(raw, path)
    device_class = choice(reader, "class", [item.value for item in ACCELERATORS])
    parts, part_model, part_memory = 0, None, None
    family, model = reader.text("family", limit=63), reader.text("model", limit=63)
    count = reader.integer("count", 1, low=1, high=1024)
    memory = reader.quantity("memory", "memory") if reader.has("memory") else None
    if reader.has("partitions"):
        inner = Reader(reader.take("partitions"), reader.at("partitions"))
        parts, part_model = inner.integer("count", None, low=1, high=64), inner.text("model", limit=63)
        part_memory = inner.quantity("memory", "memory") if inner.has("memory") else None
        inner.finish()
    reader.finish()
    return DeviceGroup(
        DeviceClass(device_class), family, model, count, memory, parts, part_model, part_memory
    )


def _timing(raw: object, path: str) -> Timing:
    reader, default = Reader(raw, path), Timing()
    timing = Timing(
        provision=reader.duration("provision", default.provision),
        image=reader.duration("image", default.image),
        environment=reader.duration("environment", default.environment),
        launch=reader.duration("launch", default.launch),
        stop=reader.duration("stop", default.stop),
        release=reader.duration("release", default.release),
    )
    reader.finish()
    return timing


def _foreign(raw: object, path: str) -> ForeignThing:
    reader = Reader(raw, path)
    devices = []
    for entry, where in reader.items("devices", 1024):
        if not isinstance(entry, str):
            raise InvalidError("field-invalid", path=where, expected="text")
        devices.append(entry)
    thing = ForeignThing(
        kind=reader.text("kind", "process", limit=63),
        id=reader.text("id"),
        node=reader.text("node"),
        text=reader.text("text", "not ours"),
        devices=tuple(devices),
        cpu=reader.quantity("cpu", "cpu") if reader.has("cpu") else 0,
        memory=reader.quantity("memory", "memory") if reader.has("memory") else 0,
    )
    reader.finish()
    return thing
