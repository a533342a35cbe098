"""Which workloads use what of whose limits now, for people: read from the open allocations."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.model.policy import FLAVOR_PREFIX
from steelyard.scheduling.subjects import user_path
from steelyard.services.kinds import CohortSpec, QueueSpec
from steelyard.services.quota_sums import parent_of
from steelyard.services.references import World
from steelyard.services.shapes import read_shape
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record


def held_now(view: View, world: World) -> list[Record]:
    """`id`, `name`, `priority`, `since`, the `nodes` that it is charged to and above, and its `amounts` by
    class and flavor, of every workload that holds devices."""
    found: dict[int, Record] = {}
    shapes = {number: read_shape(body) for number, body in repository.shape_bodies(view).items()}
    for row in repository.held_amounts(view):
        shape = shapes.get(row["shape_id"])
        users = user_path(shape.user, shape.project) if shape is not None else ()
        org = _org(world, f"namespace/{row['namespace']}")
        entry = found.setdefault(
            row["id"],
            {
                "id": row["id"], "name": row["name"], "priority": row["priority"], "since": row["since"],
                "nodes": {*_above(world, row["queue"]), *org, *users},
                "amounts": {},
            },
        )  # fmt: skip
        for subject in (row["device_class"], f"{FLAVOR_PREFIX}{row['flavor']}"):
            entry["amounts"][subject] = entry["amounts"].get(subject, 0) + row["quantity"]
    return list(found.values())


def _above(world: World, queue: str) -> Iterable[str]:
    nodes = {d.name: d.spec for d in world.values() if isinstance(d.spec, QueueSpec | CohortSpec)}
    current: str | None = queue
    while current is not None and current in nodes:
        yield current
        spec = nodes.pop(current)
        current = spec.cohort if isinstance(spec, QueueSpec) else spec.parent


def _org(world: World, node: str) -> Iterable[str]:
    current: str | None = node
    while current is not None:
        yield current
        current = parent_of(world, current)
