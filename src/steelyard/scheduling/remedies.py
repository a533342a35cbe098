"""What would start a waiting workload now: a change of its request, of a limit, or the end of others.

A `Remedy` is a record that can be applied: `applied` gives the world as it would be with it. Texts, the
search (`smallest`) and the tests all go by the same record, so that what is shown is what was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from steelyard.model.policy import UNBOUNDED, Limit
from steelyard.model.reasons import Holder
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling.changes import without_attempts
from steelyard.scheduling.snapshot import AddPending, ChangeLimit, Snapshot
from steelyard.scheduling.views import FlavorView, PendingItem


class RemedyKind(StrEnum):
    """Closed list, in the fixed order in which remedies are told: the asker's own first, least cost first."""

    OTHER_FLAVOR = "other-flavor"
    OTHER_QUEUE = "other-queue"
    SHORTER_TIME_LIMIT = "shorter-time-limit"
    FEWER_MEMBERS = "fewer-members"
    FEWER_DEVICES = "fewer-devices"
    WAIT_FOR = "wait-for"
    RAISE_LIMIT = "raise-limit"


@dataclass(frozen=True, slots=True)
class Raise:
    """One limit, and by how much it would have to be higher. `before` and `by` in the resource's unit.

    `field` is what of the limit is raised: what the node owns (`nominal`; those above it own it, too), or
    what it may use beyond that (`borrowing_limit`).
    """

    tree: str
    node: str
    kind: str  # of the node: queue, cohort, project, …
    subject: str
    field: str  # nominal | borrowing_limit
    before: int | None  # the most that the node may use; None: what it owns is not bounded
    by: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another queue that the project's routes lead to, with the priority that work has there."""

    queue: str
    priority_class: str | None
    priority: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that was tried and starts the workload. What is not of its kind is None or empty.

    `before` → `after`: members, a quantity a member, or µs of running (before None: not limited).
    """

    kind: RemedyKind
    role: str | None = None
    resource: str | None = None
    before: int | None = None
    after: int | None = None
    flavor: str | None = None
    to: Elsewhere | None = None
    raises: tuple[Raise, ...] = ()
    holders: tuple[Holder, ...] = ()  # whose ends it takes, the first to end first
    attempts: tuple[int, ...] = ()  # theirs
    at: int | None = None  # µs; when the last of them ends at the latest, where that is known
    approximate: bool = False  # a bound on the search was met: there may be a smaller one of its kind


@dataclass(frozen=True, slots=True)
class World:
    """A snapshot in which the workload does not wait, and the workload as it would wait in it."""

    snapshot: Snapshot
    shape: Shape
    item: PendingItem

    def waiting(self) -> Snapshot:
        """The snapshot with the workload waiting in it."""
        return self.snapshot.with_(AddPending(self.shape, self.item))


def world_of(snapshot: Snapshot, shape: Shape, item: PendingItem) -> World:
    """The workload taken out of those that wait. One that is not among the heads leaves the count.

    Its shape has a key of its own there, so that it is tried also where an equal one before it was blocked:
    it would be blocked just the same.
    """
    groups = []
    for group in snapshot.pending:
        if group.shape.key == shape.key:
            heads = tuple(head for head in group.heads if head.attempt_id != item.attempt_id)
            group = replace(group, heads=heads, count=max(len(heads), group.count - 1))
        if group.count:
            groups.append(group)
    return World(replace(snapshot, pending=tuple(groups)), changed(shape), item)


def applied(world: World, remedy: Remedy) -> World:
    """The world with the change made."""
    shape, snapshot = world.shape, world.snapshot
    told = f"{remedy.kind.value}/{remedy.role}/{remedy.resource}/{remedy.flavor}/{remedy.after}"
    if remedy.kind is RemedyKind.WAIT_FOR:
        return replace(world, snapshot=without_attempts(snapshot, remedy.attempts))
    if remedy.kind is RemedyKind.RAISE_LIMIT:
        return replace(world, snapshot=raised(snapshot, remedy.raises))
    if remedy.kind is RemedyKind.OTHER_FLAVOR:
        roles = allowing(shape, snapshot.flavors[remedy.flavor or ""])
    elif remedy.kind is RemedyKind.FEWER_MEMBERS:
        roles = tuple((n, remedy.after or 0, r) if n == remedy.role else (n, c, r) for n, c, r in shape.roles)
    elif remedy.kind is RemedyKind.FEWER_DEVICES:
        asked = DeviceClass(remedy.resource or "")
        roles = tuple(
            (n, c, with_amount(r, asked, remedy.after or 0) if n == remedy.role else r)
            for n, c, r in shape.roles
        )
    else:
        return replace(world, shape=_elsewhere(shape, remedy))
    return replace(world, shape=changed(replace(shape, roles=roles, least=_least(shape, roles)), told))


def changed(shape: Shape, how: str = "") -> Shape:
    """The shape under a key of its own: it is no longer like those that wait with the old one."""
    return replace(shape, key=f"{shape.key}+{how}")


def _least(shape: Shape, roles: tuple[tuple[str, int, MemberRequest], ...]) -> tuple[int, ...]:
    return tuple(min(least, count) for least, (_, count, _) in zip(shape.least, roles, strict=False))


def _elsewhere(shape: Shape, remedy: Remedy) -> Shape:
    if remedy.kind is RemedyKind.SHORTER_TIME_LIMIT:
        return changed(replace(shape, time_limit=remedy.after), f"time/{remedy.after}")
    to = remedy.to
    assert to is not None
    named = to.priority_class if to.priority_class is not None else shape.priority_class
    moved = replace(shape, queue=to.queue, priority=to.priority, priority_class=named)
    return changed(moved, f"queue/{to.queue}/{to.priority}")


def allowing(shape: Shape, flavor: FlavorView) -> tuple[tuple[str, int, MemberRequest], ...]:
    """The roles, those that ask for the flavor's class allowing it beside what they allow already."""
    return tuple(
        (name, count, _allowing(request, flavor) if request.amount(flavor.device_class) else request)
        for name, count, request in shape.roles
    )


def _allowing(request: MemberRequest, flavor: FlavorView) -> MemberRequest:
    flavors, models, clusters = request.flavors, request.models, request.clusters
    if flavors and flavor.name not in flavors:
        flavors = (*flavors, flavor.name)
    if models and flavor.model is not None and flavor.model not in models:
        models = (*models, flavor.model)
    if clusters and flavor.cluster not in clusters:
        clusters = (*clusters, flavor.cluster)
    return replace(request, flavors=flavors, models=models, clusters=clusters)


def with_amount(request: MemberRequest, device_class: DeviceClass, amount: int) -> MemberRequest:
    """The request with another quantity of one class."""
    amounts = tuple((cls, amount if cls is device_class else asked) for cls, asked in request.amounts)
    return replace(request, amounts=amounts)


def raised(snapshot: Snapshot, raises: tuple[Raise, ...]) -> Snapshot:
    """The snapshot with higher limits."""
    for wanted in raises:
        known = snapshot.trees[wanted.tree].limits.get((wanted.node, wanted.subject))
        limit = known or Limit(wanted.tree, wanted.node, wanted.subject, 0)
        if wanted.field == "nominal":
            limit = replace(limit, nominal=min(UNBOUNDED, limit.nominal + wanted.by))
        else:
            limit = replace(limit, borrowing_limit=(limit.borrowing_limit or 0) + wanted.by)
        snapshot = snapshot.with_(ChangeLimit(limit))
    return snapshot
