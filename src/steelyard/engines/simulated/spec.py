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

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from steelyard.engines.simulated.reader import Reader
from steelyard.model.errors import InvalidError
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import MILLISECOND

MAX_NODES = 20_000
MAX_DEVICES = 200_000
MAX_SUFFERINGS = 1_000
MAX_FOREIGN = 1_000


class FaultKind(StrEnum):
    """What a simulated cluster can be told to suffer."""

    START_FAILURE = "start-failure"
    IMAGE_FAILURE = "image-failure"
    ENVIRONMENT_FAILURE = "environment-failure"
    NODE_LOST = "node-lost"
    STUCK_RELEASE = "stuck-release"
    DEVICE_VANISHES = "device-vanishes"
    LATE_REPLY = "late-reply"
    LOST_REPLY = "lost-reply"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    STALE = "stale"
    CLUSTER_LOST = "cluster-lost"


#: Faults of a member's own way to `running`: the stage at which it ends, and the code it ends with.
STAGE_FAULTS: dict[FaultKind, tuple[str, str]] = {
    FaultKind.IMAGE_FAILURE: ("image", "image-not-found"),
    FaultKind.ENVIRONMENT_FAILURE: ("environment", "environment-mismatch"),
    FaultKind.START_FAILURE: ("launch", "start-failed"),
}
#: Faults for which `for` says how long it lasts once it has struck, where they strike at a member.
LASTING_FAULTS = frozenset({FaultKind.NODE_LOST, FaultKind.DEVICE_VANISHES, FaultKind.STUCK_RELEASE})
#: Faults of single replies, which come once unless `count` says more.
REPLY_FAULTS = frozenset({FaultKind.LOST_REPLY, FaultKind.DOUBLED, FaultKind.REORDERED})
CALLS = ("start", "stop", "observe")

_MEMBER = frozenset({"name", "role", "node", "attempt"})
#: fault → (keys of `match`, other keys) that mean something for it.
_KEYS: dict[FaultKind, tuple[frozenset[str], frozenset[str]]] = {
    FaultKind.START_FAILURE: (_MEMBER, frozenset({"at", "for", "after", "count", "code", "text"})),
    FaultKind.IMAGE_FAILURE: (_MEMBER, frozenset({"at", "for", "after", "count", "code", "text"})),
    FaultKind.ENVIRONMENT_FAILURE: (_MEMBER, frozenset({"at", "for", "after", "count", "code", "text"})),
    FaultKind.NODE_LOST: (_MEMBER, frozenset({"at", "for", "after", "count", "gone"})),
    FaultKind.STUCK_RELEASE: (_MEMBER, frozenset({"at", "for", "count"})),
    FaultKind.DEVICE_VANISHES: (_MEMBER | {"device"}, frozenset({"at", "for", "after", "count", "kills"})),
    FaultKind.LATE_REPLY: (frozenset(), frozenset({"at", "for", "delay"})),
    FaultKind.LOST_REPLY: (frozenset({"name"}), frozenset({"at", "for", "count", "calls"})),
    FaultKind.DOUBLED: (frozenset(), frozenset({"at", "for", "count"})),
    FaultKind.REORDERED: (frozenset(), frozenset({"at", "for", "count"})),
    FaultKind.STALE: (frozenset(), frozenset({"at", "for"})),
    FaultKind.CLUSTER_LOST: (frozenset(), frozenset({"at", "for"})),
}


@dataclass(frozen=True, slots=True)
class Match:
    """Whom it meets: globs over the workload's name, role, node and device uid, and the attempt's number.

    None matches everything.
    """

    name: str | None = None
    role: str | None = None
    node: str | None = None
    device: str | None = None
    attempt: int | None = None

    @property
    def by_member(self) -> bool:
        """Whether it speaks of members, so that the fault waits for one of them to run."""
        return self.name is not None or self.role is not None or self.attempt is not None


@dataclass(frozen=True, slots=True)
class Suffering:
    """One declared fault. Durations are µs; `key` tells it from the others across restarts.

    at        from when on, counted from the moment the suffering was first applied
    duration  (`for`) how long; None: until it is taken out of the document
    after     stage faults: how long into the stage. node-lost and device-vanishes that match members: how
              long after the first such member runs, where it runs
    count     how often (members, nodes, devices or replies); None: no bound
    gone_after (`gone`) node-lost: the node's state says that it is gone, so its members ended (true: at once)
    kills     device-vanishes: members that use the device end
    delay     late-reply: how old the observations are
    """

    key: str
    fault: FaultKind
    match: Match
    at: int
    duration: int | None
    after: int | None
    count: int | None
    code: str | None
    text: str | None
    gone_after: int | None
    kills: bool
    delay: int
    calls: tuple[str, ...]

    @property
    def by_member(self) -> bool:
        """Whether it is dealt to members at their start (else it strikes when its time comes)."""
        return (
            self.fault in STAGE_FAULTS
            or self.fault is FaultKind.STUCK_RELEASE
            or (self.fault in LASTING_FAULTS and self.match.by_member)
        )

    @property
    def strikes_by_time(self) -> bool:
        """Whether it takes nodes or devices away when its time comes."""
        return self.fault in LASTING_FAULTS and not self.by_member


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
    """Something that is not ours; it occupies `devices` whole."""

    kind: str
    id: str
    node: str
    text: str
    devices: tuple[str, ...]


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
    suffer = _sufferings(reader.items("suffer", MAX_SUFFERINGS))
    reader.finish()
    return SimulationSpec(nodes, timing, foreign, suffer, _canonical(raw))


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
    device_class = _choice(reader, "class", [item.value for item in ACCELERATORS])
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
    )
    reader.finish()
    return thing


def _sufferings(entries: list[tuple[Any, str]]) -> tuple[Suffering, ...]:
    seen: dict[str, int] = {}
    found = []
    for raw, path in entries:
        suffering = _suffering(raw, path)
        digest = hashlib.sha256(_canonical(raw).encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        found.append(replace(suffering, key=f"{digest}-{seen[digest]}"))
    return tuple(found)


def _suffering(raw: object, path: str) -> Suffering:
    reader = Reader(raw, path)
    fault = FaultKind(_choice(reader, "fault", [kind.value for kind in FaultKind]))
    match_keys, other_keys = _KEYS[fault]
    match = _match(reader.take("match", {}), reader.at("match"), match_keys)
    for name in reader.left():
        if name not in other_keys:
            reader.refuse(name)
    after = reader.optional_duration("after")
    if fault is FaultKind.LATE_REPLY and not reader.has("delay"):
        raise InvalidError("field-missing", path=reader.at("delay"))
    if after is not None and fault not in STAGE_FAULTS and not match.by_member:
        raise InvalidError("field-invalid", path=reader.at("after"), expected="a match of members")
    suffering = Suffering(
        key="",
        fault=fault,
        match=match,
        at=reader.duration("at", 0),
        duration=reader.optional_duration("for"),
        after=after,
        count=_count(reader, fault, match),
        code=reader.optional_text("code", limit=63),
        text=reader.optional_text("text", limit=1000),
        gone_after=_gone(reader),
        kills=reader.flag("kills"),
        delay=reader.duration("delay", 0),
        calls=_calls(reader),
    )
    reader.finish()
    return suffering


def _match(raw: object, path: str, allowed: frozenset[str]) -> Match:
    reader = Reader(raw, path)
    for name in reader.left():
        if name not in allowed:
            reader.refuse(name)
    has_attempt = reader.has("attempt")
    return Match(
        name=reader.optional_text("name"),
        role=reader.optional_text("role"),
        node=reader.optional_text("node"),
        device=reader.optional_text("device"),
        attempt=reader.integer("attempt", None, low=1, high=1_000_000) if has_attempt else None,
    )


def _count(reader: Reader, fault: FaultKind, match: Match) -> int | None:
    once = fault in REPLY_FAULTS or (
        fault in (FaultKind.NODE_LOST, FaultKind.DEVICE_VANISHES) and match.by_member
    )
    if not reader.has("count"):
        return 1 if once else None
    return reader.integer("count", None, low=1, high=10**9)


def _gone(reader: Reader) -> int | None:
    value = reader.take("gone", False)
    if isinstance(value, bool):
        return 0 if value else None
    inner = Reader({"gone": value}, reader.path)
    return inner.duration("gone", 0)


def _calls(reader: Reader) -> tuple[str, ...]:
    entries = reader.items("calls", len(CALLS))
    for entry, where in entries:
        if entry not in CALLS:
            raise InvalidError("field-invalid", path=where, expected=" | ".join(CALLS))
    return tuple(str(entry) for entry, _ in entries) or ("start",)


def _choice(reader: Reader, key: str, allowed: list[str]) -> str:
    value = reader.text(key)
    if value not in allowed:
        raise InvalidError("field-invalid", path=reader.at(key), expected=" | ".join(allowed))
    return value


def _canonical(raw: object) -> str:
    return json.dumps(raw, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
