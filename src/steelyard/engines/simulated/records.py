"""What was asked of a simulated cluster, as records: the journal's lines and the only way its state changes.

The cluster is deterministic: the same records with the same times give the same state. What was chosen at
the time (devices, faults, progress to resume from) stands in the record, so that a shortened journal
chooses nothing anew.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from steelyard.engines.port import Signal


class MemberRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One member of a start. `faults` are keys of the sufferings that it was dealt."""

    id: str
    role: str
    index: int
    node: str
    claims: tuple[tuple[str, int], ...]
    expect: dict[str, str] = {}
    faults: tuple[str, ...] = ()
    progress: int = 0  # µs of running that a checkpoint saves


class Born(msgspec.Struct, frozen=True, tag="born"):
    """The first line: whose journal this is."""

    at: int
    cluster: str
    version: int = 1


class Declared(msgspec.Struct, frozen=True, tag="declared"):
    """A simulation was applied: `spec.simulation` as canonical JSON text."""

    at: int
    spec: str


class Started(msgspec.Struct, frozen=True, omit_defaults=True, tag="start"):
    """An attempt was accepted."""

    at: int
    attempt_id: str
    name: str
    number: int
    install_id: str
    members: tuple[MemberRecord, ...]
    grace: int
    time_limit: int | None = None
    service: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """An attempt was refused for good."""

    at: int
    attempt_id: str
    code: str
    text: str


class Stopped(msgspec.Struct, frozen=True, tag="stop"):
    """A stop was asked for."""

    at: int
    attempts: tuple[str, ...]
    grace: int


class Signalled(msgspec.Struct, frozen=True, tag="signal"):
    """A signal was sent."""

    at: int
    attempt_id: str
    signal: Signal


class Forgotten(msgspec.Struct, frozen=True, tag="forget"):
    """Ends that the control plane has booked."""

    at: int
    attempts: tuple[str, ...]


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    """Sufferings with a count that were used up outside of a start."""

    at: int
    key: str
    times: int


class Kept(msgspec.Struct, frozen=True, tag="log"):
    """The log of a member whose attempt is no longer in the journal."""

    at: int
    member_id: str
    text: str


class Saved(msgspec.Struct, frozen=True, tag="progress"):
    """What the last checkpoint of such a member saves, µs of running."""

    at: int
    attempt_id: str
    role: str
    index: int
    progress: int


class Namespaced(msgspec.Struct, frozen=True, tag="namespace"):
    """A namespace was made."""

    at: int
    namespace: str
    project: str


Record: TypeAlias = (
    Born | Declared | Started | Refused | Stopped | Signalled | Forgotten | Spent | Kept | Saved | Namespaced
)
