"""What a simulated cluster can be told to suffer: kinds of faults, whom they meet, how they are declared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from steelyard.engines.simulated.reader import Reader
from steelyard.model.errors import InvalidError
from steelyard.model.health import Health, SignCode


class FaultKind(StrEnum):
    """What a simulated cluster can be told to suffer."""

    START_FAILURE = "start-failure"
    IMAGE_FAILURE = "image-failure"
    ENVIRONMENT_FAILURE = "environment-failure"
    NODE_LOST = "node-lost"
    STUCK_RELEASE = "stuck-release"
    DEVICE_VANISHES = "device-vanishes"
    DEVICE_HEALTH = "device-health"
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
LASTING_FAULTS = frozenset(
    {FaultKind.NODE_LOST, FaultKind.DEVICE_VANISHES, FaultKind.DEVICE_HEALTH, FaultKind.STUCK_RELEASE}
)
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
    FaultKind.DEVICE_HEALTH: (
        frozenset({"node", "device"}), frozenset({"at", "for", "count", "kills", "health", "sign", "text"})
    ),
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
    health, sign   device-health: what the simulated tool says of the devices, with `text` in its words
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
    health: Health = Health.UNHEALTHY
    sign: SignCode = SignCode.VENDOR_ALARM

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


def read_sufferings(entries: list[tuple[Any, str]]) -> tuple[Suffering, ...]:
    """The declared faults, each with a key of its own."""
    seen: dict[str, int] = {}
    found = []
    for raw, path in entries:
        suffering = _suffering(raw, path)
        digest = hashlib.sha256(canonical(raw).encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        found.append(replace(suffering, key=f"{digest}-{seen[digest]}"))
    return tuple(found)


def _suffering(raw: object, path: str) -> Suffering:
    reader = Reader(raw, path)
    fault = FaultKind(choice(reader, "fault", [kind.value for kind in FaultKind]))
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
        health=Health(_one_of(reader, "health", Health, Health.UNHEALTHY)),
        sign=SignCode(_one_of(reader, "sign", SignCode, SignCode.VENDOR_ALARM)),
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


def choice(reader: Reader, key: str, allowed: list[str]) -> str:
    """One of the allowed words. Raises InvalidError."""
    value = reader.text(key)
    if value not in allowed:
        raise InvalidError("field-invalid", path=reader.at(key), expected=" | ".join(allowed))
    return value


def _one_of(reader: Reader, key: str, known: type[StrEnum], default: StrEnum) -> str:
    return choice(reader, key, [item.value for item in known]) if reader.has(key) else default.value


def canonical(raw: object) -> str:
    """What was declared, as canonical JSON."""
    return json.dumps(raw, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
