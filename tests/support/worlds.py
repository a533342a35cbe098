"""A small house that is declared, with devices in it: two clusters, two teams, one queue over both."""

from __future__ import annotations

from typing import Any

from steelyard.evidence.leaf import ActorRef
from steelyard.identity.actor import SYSTEM
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services.live_load import SnapshotSource
from steelyard.services.workloads import Desk
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.support.stores import apply, doc

GPUS = 4

HOUSE = [
    doc("Cluster", "here", engine="local"),
    doc("Cluster", "sim", engine="simulated", simulation={"nodes": [{"count": 1, "prefix": "sim"}]}),
    doc(
        "Pool",
        "cores",
        cluster="here",
        flavors=[{"name": "here-cpu", "class": "cpu"}, {"name": "here-memory", "class": "memory"}],
    ),
    doc(
        "Pool",
        "cards",
        cluster="sim",
        flavors=[
            {"name": "card", "class": "gpu"},
            {"name": "sim-cpu", "class": "cpu"},
            {"name": "sim-memory", "class": "memory"},
        ],
    ),
    doc("Team", "alpha"),
    doc("Team", "bravo"),
    doc("Project", "vision", team="alpha"),
    doc("Project", "speech", team="bravo"),
    doc("Namespace", "vision-dev", project="vision"),
    doc("Namespace", "speech-dev", project="speech"),
    doc("PriorityClass", "normal", value=100),
    doc("PriorityClass", "high", value=1000),
    doc("Queue", "main"),
    doc("Quota", "vision", project="vision", limits=[{"class": "gpu", "hard": 3, "onExceed": "refuse"}]),
    doc("Quota", "speech", project="speech", limits=[{"class": "gpu", "hard": 2}]),
    doc(
        "Routing",
        "default",
        routes=[
            {"project": "vision", "queue": "main", "priorityClass": "normal"},
            {"project": "vision", "queue": "main", "priorityClass": "high"},
            {"project": "speech", "kind": "training", "queue": "main", "priorityClass": "normal"},
        ],
    ),
]


def person(name: str, role: RoleName, project: str | None, number: int) -> Principal:
    """A principal with one binding."""
    return Principal(f"us_{number:013d}", "user", name, (Binding(name, role, project, 1),))


ANN = person("ann", RoleName.MEMBER, "vision", 1)
BOB = person("bob", RoleName.MEMBER, "speech", 2)
EVE = person("eve", RoleName.VIEWER, "vision", 3)
ROOT = person("root", RoleName.ADMINISTRATOR, None, 4)


def build(store: Store) -> Desk:
    """The house with its devices, and the desk where workloads are submitted."""
    apply(store, *HOUSE)
    unit = Unit(ActorRef("system", "system"))
    for cluster in ("here", "sim"):
        _node(unit, store, cluster)
    unit.upsert(t.counter, ("name",), name="inventory_version", value=1)
    store.writer.write(unit)
    return Desk(store, SnapshotSource())


def _node(unit: Unit, store: Store, cluster: str) -> None:
    now, node_id, simulated = store.now(), store.ids.next(), cluster == "sim"
    unit.insert(
        t.node, id=node_id, cluster=cluster, name=f"{cluster}-0", availability="available", labels_json="{}",
        simulated=simulated, version=1,
    )  # fmt: skip
    unit.insert(t.observation, cluster=cluster, as_of=now, version=1, reachable=True)
    wanted = [("cpu", 16_000, f"{cluster}-cpu"), ("memory", 65_536, f"{cluster}-memory")]
    wanted += [("gpu", 1000, "card")] * (GPUS if simulated else 0)
    pool = "cards" if simulated else "cores"
    for index, (device_class, capacity, flavor) in enumerate(wanted):
        device_id, uid = store.ids.next(), f"{cluster}-0/{device_class}-{index}"
        unit.insert(
            t.device, id=device_id, cluster=cluster, node_id=node_id, uid=uid,
            device_class=device_class, family="nvidia" if device_class == "gpu" else device_class,
            model="A100" if device_class == "gpu" else "any", capacity=capacity, memory=None, parent_id=None,
            has_children=False, availability="available", simulated=simulated, registered_at=now, version=1,
        )  # fmt: skip
        unit.insert(t.pool_member, device_id=device_id, pool=pool, flavor=flavor, valid_from=now, version=1)


def workload(name: str = "job", namespace: str = "vision-dev", /, **spec: Any) -> dict[str, Any]:
    """A workload document: training on one card unless `requests` says otherwise."""
    requests = spec.pop("requests", {"cpu": 1, "memory": 256, "gpu": 1})
    count = spec.pop("count", 1)
    role = {"name": "main", "count": count, "command": ["python", "train.py"], "requests": requests}
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"kind": "training", "roles": [role], **spec},
    }


__all__ = ["ANN", "BOB", "EVE", "GPUS", "HOUSE", "ROOT", "SYSTEM", "build", "person", "workload"]
