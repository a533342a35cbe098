"""What a trial asks of a candidate, in neutral verbs; each route has an adapter that speaks them.

Quantities are milli-devices, milli-cores and MiB; times µs UTC. What a candidate can't do raises
`CapabilityMissing`; what it refuses comes back as a `Refusal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

Json = dict[str, Any]
PARTS = ("held", "free", "reserved", "unavailable", "unknown")


class CapabilityMissing(Exception):
    """The candidate has no such verb, in the words of the adapter."""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource as the candidate tells it. `raw`: its own record."""

    id: str
    uid: str
    device_class: str
    cluster: str
    node: str
    model: str
    capacity: int
    parts: tuple[int, ...]  # in the order of PARTS
    state: str
    availability: str | None  # available | unavailable.planned | unavailable.unplanned | unknown
    reason: str | None
    divided: bool
    requestable: bool
    simulated: bool
    pool: str | None
    owner: str | None
    observed_at: int | None
    raw: Json

    def part(self, name: str) -> int:
        """How much of it is held, free …"""
        return self.parts[PARTS.index(name)]

    def held_by(self, task: str) -> int:
        """How much of it the candidate says a task holds."""
        return sum(one["quantity"] for one in self.raw["holders"] if one["workload"] == task)


class ClassSum(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate's sum of a class in a cluster."""

    cluster: str
    device_class: str
    capacity: int
    parts: tuple[int, ...]
    observed_at: int | None

    def part(self, name: str) -> int:
        """How much of it is held, free …"""
        return self.parts[PARTS.index(name)]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal: its code, all reasons, and the id of its record where one was made."""

    code: str
    text: str
    reasons: tuple[Json, ...]
    record: str | None


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be submitted: `command` says nothing of the candidate, `requests` are by class."""

    name: str
    namespace: str
    kind: str
    command: tuple[str, ...]
    requests: Mapping[str, str]
    clusters: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    simulated: bool = False  # it goes where nothing really runs, and has to be told to last


class TaskState(msgspec.Struct, frozen=True, kw_only=True):
    """A task: `holds` is (device, class, quantity) of all that it was given."""

    id: str
    state: str  # waiting | starting | running | ending | ended
    holds: tuple[tuple[str, str, int], ...]
    reasons: tuple[Json, ...]
    times: Mapping[str, int | None]
    raw: Json


class Watch(Protocol):
    """Changes that the candidate tells of by itself."""

    def heard(self, resource: str) -> int | None:
        """When it first told of this resource, or of its node, since the watch began (µs); None: never."""
        ...

    def close(self) -> None:
        """Ends the watch."""
        ...


class Candidate(Protocol):
    """The verbs of scenario S1."""

    def describe(self) -> Json:
        """Product, version, route, clock (µs)."""
        ...

    def inventory(self, at: int | None = None) -> list[Resource]:
        """Every resource, now or at a past instant."""
        ...

    def sums(self, at: int | None = None) -> tuple[int, list[ClassSum]]:
        """(instant, sums by cluster and class)."""
        ...

    def resource(self, resource_id: str) -> Resource:
        """One resource now; `raw` holds its facts and history, too."""
        ...

    def registrations(self) -> list[Json]:
        """What became of each resource that was found."""
        ...

    def verified(self) -> list[Json]:
        """Records of real runs that verified a model."""
        ...

    def cordon(self, node: str, reason: str) -> Json:
        """Takes a node out of service."""
        ...

    def uncordon(self, node: str, reason: str) -> Json:
        """Gives it back."""
        ...

    def lint(self) -> Json:
        """Figures of too few, too many and unused labels."""
        ...

    def labels(self) -> tuple[list[Json], list[Json]]:
        """Labels that stand on nodes, and the history of labels: {cluster, node, key, value}, in the history
        also {from, until, set_by}."""
        ...

    def declare_label(self, key: str, cluster: str) -> Refusal | None:
        """Tries to use a label in a declaration, changing nothing; None: it was accepted."""
        ...

    def submit(self, task: TaskSpec) -> str | Refusal:
        """A task's id, or its refusal."""
        ...

    def task(self, task_id: str) -> TaskState:
        """A task now."""
        ...

    def refusal(self, record: str) -> Json:
        """The stored record of a refusal."""
        ...

    def end(self, task_id: str) -> None:
        """Ends a task."""
        ...

    def simulate(self, cluster: str, what: str, entry: Json | None) -> None:
        """Puts an entry into `suffer` or `foreign` of a simulated cluster's document; None: takes out what
        was put there."""
        ...

    def watch(self) -> Watch:
        """Begins to listen."""
        ...
