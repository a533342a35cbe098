"""Changes that somebody asks about, made of what they name: limits, documents, nodes, devices, workloads.

A body names things as people do (`project/vision`, a flavor, a node's name, an id). Each is looked up in the
snapshot or the store and becomes a change for `scheduling.what_if`; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.model.availability import availability_of
from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.health import DeviceFlag
from steelyard.model.ids import parse
from steelyard.model.policy import FLAVOR_PREFIX, ORG_TREE, QUEUE_TREE, USER_TREE, Limit, Measure, Policy
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import Shape
from steelyard.scheduling import (
    AddDevices,
    ChangeLimit,
    FreeDevices,
    NodeView,
    QuotaTree,
    Slot,
    Snapshot,
)
from steelyard.scheduling.subjects import measured
from steelyard.scheduling.what_if import EndAttempts, FollowPolicy, FollowTrees, WhatIf
from steelyard.services.declared import load_world
from steelyard.services.documents import parse_documents
from steelyard.services.kinds import Kind, amount_unit
from steelyard.services.live import LiveState
from steelyard.services.live_load import load_devices_into
from steelyard.services.places import place_named
from steelyard.services.policy import Routes, Since, policy_of, routes_of, trees_of
from steelyard.services.reading import read_amount, shown
from steelyard.services.references import check
from steelyard.services.scheduling_rules import POLICY_KINDS
from steelyard.services.shapes import read_shape, shape_id
from steelyard.store.accounts import account_names
from steelyard.store.database import View
from steelyard.store.declared import open_limits
from steelyard.store.workloads import shape_bodies

MAX_DEVICES = 100_000
#: Ids of what is not there; no real one is so large.
IMAGINED = 2**62
#: Kinds that decisions follow and that may be imagined.
KINDS = POLICY_KINDS | {Kind.QUOTA}
_QUEUE_NODES = ("queue", "cohort")
_TREES = {"queue": QUEUE_TREE, "cohort": QUEUE_TREE, "user": USER_TREE}


@dataclass(slots=True)
class Imagined:
    """What is imagined so far: the trees as they would be, and the changes in order."""

    view: View
    snapshot: Snapshot
    policy: Policy
    now: int
    trees: dict[str, QuotaTree] = field(init=False)
    routing: Routes | None = None  # None: as it is
    changes: list[WhatIf] = field(default_factory=list)
    _ids: int = IMAGINED

    def __post_init__(self) -> None:
        self.trees = dict(self.snapshot.trees)

    def next_id(self) -> int:
        """An id of something that is not there."""
        self._ids += 1
        return self._ids

    # --- rules ----------------------------------------------------------------------------------------
    def documents(self, raw: object) -> None:
        """Declared documents laid over those in force. Raises InvalidError."""
        documents = parse_documents(raw)
        for document in documents:
            if document.kind not in KINDS:
                raise InvalidError("what-if-kind", kind=document.kind.value, known=", ".join(sorted(KINDS)))
        world = {**load_world(self.view), **{document.key: document for document in documents}}
        check(world, account_names(self.view))
        known = Since((row.limit for row in open_limits(self.view)), self.now)
        self.trees = trees_of(world.values(), known)
        self.policy = policy_of(world.values(), self.policy.version)
        self.routing = routes_of(world.values(), self.policy)
        self.changes += [FollowTrees(dict(self.trees), self._shapes()), FollowPolicy(self.policy)]

    def _check_subject(self, subject: str) -> None:
        known = subject in {cls.value for cls in DeviceClass}
        if subject.startswith(FLAVOR_PREFIX):
            known = subject.removeprefix(FLAVOR_PREFIX) in self.snapshot.flavors
        elif "/" in subject:
            cls, _, measure = subject.partition("/")
            known = cls in {each.value for each in ACCELERATORS}
            known = known and measure in {each.value for each in Measure}
        if not known:
            raise InvalidError("field-invalid", path="limit.subject", expected="class | flavor/NAME")

    def _shapes(self) -> dict[str, Shape]:
        """The shapes of what runs, by key: what it is charged follows from them."""
        wanted = {shape_id(run.shape_key) for run in self.snapshot.running.values()}
        bodies = shape_bodies(self.view, wanted)
        return {shape.key: shape for shape in map(read_shape, bodies.values())}

    def limit(self, node: str, subject: str, value: object) -> None:
        """A limit of `KIND/NAME` on a class or `flavor/NAME`: hard in the organisation, a queue's nominal."""
        kind, _, name = node.partition("/")
        tree, key = _TREES.get(kind, ORG_TREE), name if kind in _QUEUE_NODES else node
        self._check_subject(subject)
        known = self.trees.get(tree)
        if known is None or key not in known.nodes or known.nodes[key].kind != kind:
            raise NotFoundError("not-found", kind=kind[:20] or "limit", id=shown(name or node))
        quantity = read_amount(value, amount_unit(subject), "limit.value")
        limit = known.limits.get((key, subject)) or Limit(tree, key, subject, 0)
        if tree != QUEUE_TREE:
            limit = replace(limit, nominal=0, borrowing_limit=quantity, since=self.now)
        else:
            limit = replace(limit, nominal=quantity, since=self.now)
        self.trees[tree] = known.with_limit(limit)
        self.changes.append(
            FollowTrees(dict(self.trees), self._shapes()) if measured(subject) else ChangeLimit(limit)
        )

    # --- resources ------------------------------------------------------------------------------------
    def cordoned(self, name: str, on: bool) -> None:
        """A node with its cordon set or lifted. Raises NotFoundError, InvalidError."""
        place = place_named(self.view, name)
        if place.kind != "node":
            raise InvalidError("what-if-node", name=shown(name))
        if place.node_id not in self.snapshot.nodes:
            raise NotFoundError("not-found", kind="node", id=shown(name))
        self.changes.append(AddDevices(_with_cordon(self.view, place.node_id, on)))

    def devices(self, flavor: str, count: int) -> list[str]:
        """So many more devices of a flavor (cores of a CPU flavor), on new nodes like the largest there is of
        it; their names."""
        if not 1 <= count <= MAX_DEVICES:
            raise InvalidError("field-out-of-bounds", path="add_devices.count", low=1, high=MAX_DEVICES)
        like = _like(self.snapshot.nodes.values(), flavor)
        known = self.snapshot.flavors.get(flavor)
        if known is not None and known.device_class is DeviceClass.MEMORY:
            path = "add_devices.flavor"
            raise InvalidError("field-invalid", path=path, expected="a flavor of devices or cores")
        if like is None:
            raise NotFoundError("not-found", kind="flavor", id=shown(flavor))
        most = max(1, like.totals[flavor] // 1000)
        names: list[str] = []
        while count > 0:
            here = min(count, most)
            count -= here
            names.append(f"{like.name}+{len(names) + 1}")
            self.changes.append(AddDevices(self._node(like, names[-1], flavor, here)))
        return names

    def _node(self, like: NodeView, name: str, flavor: str, count: int) -> NodeView:
        """An empty node: of the flavor so many, of everything else as much as the node it is like."""
        node_id = self.next_id()
        totals = {**like.totals, flavor: count * 1000}
        classes = {known: view.device_class for known, view in self.snapshot.flavors.items()}
        accelerators, slots = {}, []
        for known in sorted(totals):
            of = classes.get(known, DeviceClass.OTHER)
            if of in (DeviceClass.CPU, DeviceClass.MEMORY):
                slots.append(Slot(self.next_id(), known, of, totals[known]))
            else:
                ids = tuple(self.next_id() for _ in range(totals[known] // 1000))
                accelerators[known] = FreeDevices(ids)
        memories = {
            device: memory
            for known, free in accelerators.items()
            if (view := self.snapshot.flavors.get(known)) and (memory := view.memory) is not None
            for device in free.whole
        }
        return NodeView(
            node_id, name, like.cluster, True, like.labels, accelerators, tuple(slots), totals,
            memories=memories,
        )  # fmt: skip

    # --- work -------------------------------------------------------------------------------------------
    def end(self, name: str) -> int:
        """A workload that waits or runs has ended; its id. Raises NotFoundError where it does neither."""
        workload = parse("workload", name)
        found = {run.attempt_id for run in self.snapshot.running.values() if run.workload_id == workload}
        found |= {hold.attempt_id for hold in self.snapshot.holds.values() if hold.workload_id == workload}
        found |= {
            head.attempt_id
            for group in self.snapshot.pending
            for head in group.heads
            if head.workload_id == workload
        }
        if not found:
            raise NotFoundError("not-found", kind="workload", id=shown(name))
        self.changes.append(EndAttempts(frozenset(found)))
        return workload


def _like(nodes: Iterable[NodeView], flavor: str) -> NodeView | None:
    """The node with the most of a flavor; the first of several."""
    having = [node for node in nodes if node.totals.get(flavor)]
    return min(having, key=lambda node: (-node.totals[flavor], node.id), default=None)


def _with_cordon(view: View, node_id: int, on: bool) -> NodeView:
    """The node as the loop would have it: every device with its flags, its health and who is on it."""
    state = LiveState()
    load_devices_into(state, view)
    uids: Mapping[tuple[str, str], int] = {(d.cluster, d.uid): d.id for d in state.devices.values()}
    of_node = set(state.flags_on(node_id)) - {DeviceFlag.CORDONED}
    of_node |= {DeviceFlag.CORDONED} if on else set()
    for device in state.nodes[node_id].devices:
        parent = uids.get((device.cluster, device.parent_uid or ""))
        flags = frozenset(of_node | set(state.flags_on(device.id, parent)))
        device.availability, reason = availability_of(
            device.condition.health, flags, device.unowned, place=device.place, divided=device.has_children
        )
        device.reason = None if reason is None else reason.value
    return state.snapshot().nodes[node_id]


def of_one_key(raw: object, known: Iterable[str]) -> tuple[str, Any]:
    """(key, value) of a change as it is sent: a mapping of one known key. Raises InvalidError."""
    names = list(known)
    if not isinstance(raw, dict) or len(raw) != 1 or next(iter(raw)) not in names:
        raise InvalidError("field-invalid", path="changes", expected=" | ".join(names))
    return next(iter(raw.items()))
