"""The plan of a trial: what is in scope, within which bounds, who observes, what is done to what.

A YAML file, read strictly: it is what roles sign before the run, and an unknown key is an error.
Durations are whole milliseconds here and µs inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from steelyard.model.errors import InvalidError


class ScopeGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Like resources on like nodes: `count` devices of a class on each. `nodes`: names, or `prefix` and a
    number of nodes PREFIX-0 … that have them."""

    cluster: str
    device_class: str = msgspec.field(name="class")
    count: int = 1
    nodes: tuple[str, ...] = ()
    prefix: str | None = None
    node_count: int = msgspec.field(name="nodeCount", default=1)
    observer: str = "device_probe"  # device_probe | kernel | simulation
    simulated: bool = False

    def node_names(self) -> tuple[str, ...]:
        """All of its nodes."""
        if self.prefix is None:
            return self.nodes
        return tuple(f"{self.prefix}-{number}" for number in range(self.node_count))


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How old an observation may be, how long a change of use or of health may take to be seen, how often it
    is looked."""

    staleness_ms: int = msgspec.field(name="stalenessMs", default=10_000)
    change_ms: int = msgspec.field(name="changeMs", default=10_000)
    health_ms: int = msgspec.field(name="healthMs", default=60_000)
    poll_ms: int = msgspec.field(name="pollMs", default=250)


class Observers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where each observer looks; one without a place is not connected.

    `tools`: folder of vendor tools. `root`: below it are proc and dev. `simulations`: cluster → the simulated
    cluster's own state file.
    """

    tools: str | None = None
    root: str | None = "/"
    devices: str = "/"  # below it is dev, whose files processes hold
    simulations: dict[str, str] = {}


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that is started, in the plan's namespace: so much of a class."""

    device_class: str = msgspec.field(name="class")
    quantity: str = "1"
    clusters: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node, or a device."""

    cluster: str
    name: str


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that is done from outside: a command on this machine, or an entry of a simulated cluster's
    document (`suffer`, `foreign`)."""

    command: tuple[str, ...] = ()
    suffer: dict[str, Any] | None = None
    foreign: dict[str, Any] | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to one device, and how it is undone; what is in a document is taken out again."""

    device: Place
    inject: Act
    clear: Act = Act()


class Occupation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process that no task owns comes onto a device, and leaves. A command runs until it is ended."""

    device: Place
    occupy: Act


def _beside() -> dict[str, str]:
    return {"cpu": "1m", "memory": "8Mi"}


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    name: str
    scope: tuple[ScopeGroup, ...]
    namespace: str
    kind: str = "batch"
    supported: tuple[str, ...] = ()  # classes that are claimed to be supported
    bounds: Bounds = Bounds()
    observers: Observers = Observers()
    requests: dict[str, str] = msgspec.field(default_factory=_beside)  # of each task, beside its class
    tasks: tuple[Task, ...]
    misfit: dict[str, str]  # a known label with a value that no node has
    wrong_class: Task = msgspec.field(name="wrongClass")
    cordon: Place
    fault: Fault
    foreign: Occupation

    def classes(self) -> tuple[str, ...]:
        """Classes in scope, in their order."""
        return tuple(dict.fromkeys(group.device_class for group in self.scope))


def read_plan(path: Path) -> Plan:
    """The plan of a file. Raises InvalidError `poc-plan-unreadable`, `poc-plan-invalid`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidError("poc-plan-unreadable", path=str(path), reason=error.strerror or "") from None
    try:
        return msgspec.yaml.decode(data, type=Plan)
    except msgspec.DecodeError as error:
        raise InvalidError("poc-plan-invalid", path=str(path), reason=str(error)[:300]) from None
