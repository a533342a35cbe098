"""What declared objects name of each other: missing targets, cycles, doubles, and who uses whom.

A world is every object by (kind, name) as it would be after a change; checks look at the whole of it,
so that the order of documents in one apply does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from steelyard.model.errors import ConflictError, InvalidError
from steelyard.model.organisation import RoleName
from steelyard.model.policy import FLAVOR_PREFIX, Measure
from steelyard.model.resources import DeviceClass, EngineKind
from steelyard.scheduling.admission import joined
from steelyard.services.documents import Document
from steelyard.services.kinds import (
    EVERYBODY,
    USER_LEVEL,
    BindingSpec,
    ClusterSpec,
    CohortSpec,
    HardLimitSpec,
    Kind,
    LimitSpec,
    NamespaceSpec,
    PriorityClassSpec,
    ProjectSpec,
    QueueSpec,
    QuotaSpec,
    RoutingSpec,
)
from steelyard.services.pool_spec import FlavorSpec, PoolSpec
from steelyard.services.scheduling_spec import ConversionTableSpec
from steelyard.services.support_specs import ExtensionSpec, ObservationSourceSpec

World: TypeAlias = Mapping[tuple[str, str], Document]
FLAVOR = "Flavor"
USER = "User"
_LEVELS = {"team": Kind.TEAM, "project": Kind.PROJECT, "namespace": Kind.NAMESPACE}


class Reference(NamedTuple):
    """`path` of a document names an object of `kind`."""

    path: str
    kind: str
    name: str


def references(document: Document) -> Iterator[Reference]:
    """All objects that a document names."""
    spec = document.spec
    if isinstance(spec, PoolSpec):
        yield from _of_pool(spec)
    elif isinstance(spec, ProjectSpec):
        yield Reference("spec.team", Kind.TEAM, spec.team)
    elif isinstance(spec, NamespaceSpec):
        yield Reference("spec.project", Kind.PROJECT, spec.project)
    elif isinstance(spec, BindingSpec):
        yield Reference("spec.user", USER, spec.user)
        if spec.project is not None:
            yield Reference("spec.project", Kind.PROJECT, spec.project)
    elif isinstance(spec, CohortSpec) and spec.parent is not None:
        yield Reference("spec.parent", Kind.COHORT, spec.parent)
    elif isinstance(spec, QueueSpec) and spec.cohort is not None:
        yield Reference("spec.cohort", Kind.COHORT, spec.cohort)
    elif isinstance(spec, QuotaSpec):
        yield from _of_quota(spec)
    elif isinstance(spec, RoutingSpec):
        yield from _of_routes(spec)
    elif isinstance(spec, PriorityClassSpec) and spec.ages_to is not None:
        yield Reference("spec.agesTo", Kind.PRIORITY_CLASS, spec.ages_to)
    elif isinstance(spec, ExtensionSpec | ObservationSourceSpec) and spec.cluster is not None:
        yield Reference("spec.cluster", Kind.CLUSTER, spec.cluster)
    yield from _of_limits(document)
    yield from _of_groups(document)


def _of_groups(document: Document) -> Iterator[Reference]:
    spec = document.spec
    for number, group in enumerate(spec.rules.groups if isinstance(spec, CohortSpec | QueueSpec) else ()):
        for index, name in enumerate(group.flavors):
            yield Reference(f"spec.resourceGroups[{number}].flavors[{index}]", FLAVOR, name)


def _of_pool(spec: PoolSpec) -> Iterator[Reference]:
    yield Reference("spec.cluster", Kind.CLUSTER, spec.cluster)
    for index, name in enumerate(spec.admission.projects):
        yield Reference(f"spec.admission.projects[{index}]", Kind.PROJECT, name)
    for index, name in enumerate(spec.admission.teams):
        yield Reference(f"spec.admission.teams[{index}]", Kind.TEAM, name)
    for index, name in enumerate(spec.lends_to):
        yield Reference(f"spec.lending.to[{index}]", Kind.POOL, name)


def _of_quota(spec: QuotaSpec) -> Iterator[Reference]:
    if spec.level != USER_LEVEL:
        yield Reference(f"spec.{spec.level}", _LEVELS[spec.level], spec.target)
        return
    if spec.target != EVERYBODY:
        yield Reference("spec.user", USER, spec.target)
    if spec.project is not None:
        yield Reference("spec.project", Kind.PROJECT, spec.project)


def _of_limits(document: Document) -> Iterator[Reference]:
    spec = document.spec
    if not isinstance(spec, CohortSpec | QueueSpec | QuotaSpec):
        return
    limits: tuple[LimitSpec | HardLimitSpec, ...] = spec.limits
    for index, limit in enumerate(limits):
        if limit.subject.startswith(FLAVOR_PREFIX):
            name = limit.subject.removeprefix(FLAVOR_PREFIX)
            yield Reference(f"spec.limits[{index}].flavor", FLAVOR, name)


def _of_routes(spec: RoutingSpec) -> Iterator[Reference]:
    for index, route in enumerate(spec.routes):
        path = f"spec.routes[{index}]"
        yield Reference(f"{path}.queue", Kind.QUEUE, route.queue)
        yield Reference(f"{path}.priorityClass", Kind.PRIORITY_CLASS, route.priority_class)
        if route.project is not None:
            yield Reference(f"{path}.project", Kind.PROJECT, route.project)


def check(world: World, users: Collection[str]) -> None:
    """Raises InvalidError for the first thing in the world that does not fit together. `users` are the
    names of accounts."""
    flavors = _flavors(world)
    for document in world.values():
        for path, kind, name in references(document):
            if kind == FLAVOR:
                _check_flavor(document, path, name, flavors)
            elif (name not in users) if kind == USER else ((kind, name) not in world):
                there = sorted(users) if kind == USER else sorted(n for k, n in world if k == kind)
                raise _missing(document, path, kind, name, there)
    _check_tree_names(world)
    _check_cycles(world)
    _check_groups(world, flavors)
    _check_ageing(world)
    _check_memory_known(world)
    _check_quotas(world)
    _check_machines(world)


def _check_machines(world: World) -> None:
    """A server's machine is one cluster: declared twice, its cores would be handed out twice."""
    local = sorted(
        document.name
        for document in world.values()
        if isinstance(document.spec, ClusterSpec) and document.spec.engine is EngineKind.LOCAL
    )
    if len(local) > 1:
        raise InvalidError("machine-declared-twice", name=local[1], other=local[0])


def _missing(document: Document, path: str, kind: str, name: str, there: Iterable[str]) -> InvalidError:
    """`there`: the names that exist."""
    return InvalidError(
        "reference-missing",
        kind=document.kind.value,
        name=document.name,
        path=path,
        target_kind=kind,
        target=name,
        known=None if kind == USER else joined(there),
    )


def _flavors(world: World) -> dict[str, FlavorSpec]:
    found: dict[str, FlavorSpec] = {}
    for document in world.values():
        if isinstance(document.spec, PoolSpec):
            for flavor in document.spec.flavors:
                if flavor.name in found:
                    raise InvalidError("flavor-doubled", flavor=flavor.name, pool=document.name)
                found[flavor.name] = flavor
    return found


def _check_flavor(document: Document, path: str, name: str, flavors: Mapping[str, FlavorSpec]) -> None:
    if name not in flavors:
        raise _missing(document, path, FLAVOR, name, sorted(flavors))
    if flavors[name].device_class is DeviceClass.MEMORY:
        raise InvalidError("field-invalid", path=path, expected="a flavor that is not of memory")


def _check_groups(world: World, flavors: Mapping[str, FlavorSpec]) -> None:
    """A group's flavors are devices of the classes that it covers: no class serves another's request."""
    for document in world.values():
        spec = document.spec
        if not isinstance(spec, CohortSpec | QueueSpec):
            continue
        for number, group in enumerate(spec.rules.groups):
            for index, name in enumerate(group.flavors):
                found = flavors[name].device_class.value
                if found not in group.classes:
                    raise InvalidError(
                        "flavor-not-covered", kind=document.kind.value, name=document.name,
                        path=f"spec.resourceGroups[{number}].flavors[{index}]", flavor=name, resource=found,
                    )  # fmt: skip


def _check_memory_known(world: World) -> None:
    """A limit on device memory needs a table that says how much devices have."""
    tables = (d.spec for d in world.values() if isinstance(d.spec, ConversionTableSpec))
    if any(table.memory for table in tables):
        return
    for document in world.values():
        if isinstance(document.spec, QuotaSpec):
            for limit in document.spec.limits:
                if limit.subject.endswith(f"/{Measure.MEMORY.value}"):
                    raise InvalidError("conversion-missing", name=document.name, subject=limit.subject)


def _check_ageing(world: World) -> None:
    """A class ages upwards."""
    for document in world.values():
        spec = document.spec
        if isinstance(spec, PriorityClassSpec) and spec.ages_to is not None:
            band = world[Kind.PRIORITY_CLASS.value, spec.ages_to].spec
            if isinstance(band, PriorityClassSpec) and band.value < spec.value:
                raise InvalidError("ages-downwards", name=document.name, ages_to=spec.ages_to)


def _check_tree_names(world: World) -> None:
    """Queues and cohorts are nodes of one tree."""
    for kind, name in world:
        if kind == Kind.QUEUE and (Kind.COHORT.value, name) in world:
            raise InvalidError("name-taken", kind=kind, name=name, by_kind=Kind.COHORT.value)


def _check_cycles(world: World) -> None:
    for kind, name in world:
        if kind != Kind.COHORT:
            continue
        seen, current = {name}, _parent(world, name)
        while current is not None:
            if current in seen:
                raise InvalidError("cohort-cycle", name=name)
            seen.add(current)
            current = _parent(world, current)


def _parent(world: World, cohort: str) -> str | None:
    spec = world[Kind.COHORT.value, cohort].spec
    return spec.parent if isinstance(spec, CohortSpec) else None


def _check_quotas(world: World) -> None:
    owners: dict[tuple[str, str], str] = {}
    for document in world.values():
        if isinstance(document.spec, QuotaSpec):
            for limit in document.spec.limits:
                key = (document.spec.node, limit.subject)
                if key in owners:
                    other = owners[key]
                    raise InvalidError(
                        "quota-doubled", name=document.name, other=other, node=key[0], subject=key[1]
                    )
                owners[key] = document.name


def check_not_used(world: World, document: Document) -> None:
    """Raises ConflictError `object-in-use` when another object of the world names this one."""
    own_flavors = set()
    if isinstance(document.spec, PoolSpec):
        own_flavors = {flavor.name for flavor in document.spec.flavors}
    for other in world.values():
        for _, kind, name in references(other):
            if (kind, name) == document.key or (kind == FLAVOR and name in own_flavors):
                raise ConflictError(
                    "object-in-use",
                    kind=document.kind.value,
                    name=document.name,
                    by_kind=other.kind.value,
                    by=other.name,
                )


def check_administrator_left(before: World, after: World) -> None:
    """Raises ConflictError when the last administrator's binding would go."""
    if _administrators(before) and not _administrators(after):
        raise ConflictError("last-administrator")


def _administrators(world: World) -> int:
    return sum(
        isinstance(document.spec, BindingSpec) and document.spec.role is RoleName.ADMINISTRATOR
        for document in world.values()
    )
