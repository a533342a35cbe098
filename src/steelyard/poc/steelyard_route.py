"""The adapter of this product: its public API through the SDK, as any stranger would use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from steelyard.client import ApiError, Client
from steelyard.model.errors import SteelyardError
from steelyard.poc.candidate import (
    PARTS,
    ClassSum,
    Json,
    Refusal,
    Resource,
    TaskSpec,
    TaskState,
    Watch,
)

_STATES = {
    "held": "waiting", "queued": "waiting", "reserved": "waiting", "starting": "starting",
    "running": "running", "suspended": "running", "stopping": "ending", "releasing": "ending",
    "finished": "ended",
}  # fmt: skip


class SteelyardRoute:
    """A server. `connect` opens a connection of its own, for the thread that listens."""

    def __init__(self, client: Client, connect: Callable[[], Client]) -> None:
        self._client = client
        self._connect = connect
        self._before: dict[str, Json] = {}
        self._nodes: dict[str, str] = {}  # device → node, by their ids
        self._labels: list[Json] = []  # as the last inventory showed them

    def describe(self) -> Json:
        """See Candidate."""
        version = self._client.version()
        at = self._client.inventory_summary()["as_of"]
        return {"product": "steelyard", "version": version["version"], "route": "a", "clock": at}

    def inventory(self, at: int | None = None) -> list[Resource]:
        """See Candidate."""
        query = {} if at is None else {"at": at}
        owners, found, nodes = self._owners(), [], self._client.inventory(**query)
        if at is None:
            self._labels = [
                {"cluster": node["cluster"], "node": node["name"], "key": key, "value": value}
                for node in nodes
                for key, value in node["labels"].items()
            ]
        for node in nodes:
            for device in node["devices"]:
                self._nodes[device["id"]] = node["id"]
                found.append(_resource(device, node["observed_at"], owners))
        return found

    def _owners(self) -> dict[tuple[str, str], str | None]:
        """(pool, class) → who maintains it."""
        found: dict[tuple[str, str], str | None] = {}
        for pool in self._client.pools():
            for flavor in pool["flavors"]:
                found[pool["name"], flavor["class"]] = flavor.get("owner") or pool["owner"]
        return found

    def sums(self, at: int | None = None) -> tuple[int, list[ClassSum]]:
        """See Candidate."""
        found = self._client.inventory_summary(at)
        seen = {one["name"]: one["observed_at"] for one in found.get("clusters", ())}
        sums = [
            ClassSum(
                cluster=one["cluster"], device_class=one["class"], capacity=one["capacity"],
                parts=tuple(one[part] for part in PARTS), observed_at=seen.get(one["cluster"]),
            )
            for one in found["classes"]
        ]  # fmt: skip
        return found["as_of"], sums

    def resource(self, resource_id: str) -> Resource:
        """See Candidate."""
        return _resource(self._client.device(resource_id), None, {})

    def registrations(self) -> list[Json]:
        """See Candidate."""
        return self._client.registrations()

    def verified(self) -> list[Json]:
        """See Candidate."""
        return self._client.verifications(standing=True)

    def cordon(self, node: str, reason: str) -> Json:
        """See Candidate."""
        return self._client.flag(node, "cordon", reason)

    def uncordon(self, node: str, reason: str) -> Json:
        """See Candidate."""
        return self._client.flag(node, "uncordon", reason)

    def lint(self) -> Json:
        """See Candidate."""
        return self._client.label_lint()

    def labels(self) -> tuple[list[Json], list[Json]]:
        """See Candidate."""
        return self._labels, self._client.label_history()["nodes"]

    def declare_label(self, key: str, cluster: str) -> Refusal | None:
        """See Candidate."""
        spec = {"cluster": cluster, "selector": {"labels": {key: "x"}}, "flavors": []}
        try:
            self._client.diff([{"kind": "Pool", "metadata": {"name": "poc-unknown-label"}, "spec": spec}])
        except ApiError as error:
            return _refusal(error)
        return None

    def submit(self, task: TaskSpec) -> str | Refusal:
        """See Candidate."""
        role: Json = {"name": "main", "command": list(task.command), "requests": dict(task.requests)}
        role |= {"clusters": list(task.clusters)} if task.clusters else {}
        role |= {"nodeLabels": dict(task.labels)} if task.labels else {}
        role |= {"expect": {"run": "forever"}} if task.simulated else {}
        document = {
            "kind": "Workload",
            "metadata": {"name": task.name, "namespace": task.namespace},
            "spec": {"kind": task.kind, "roles": [role], "restart": "never"},
        }
        try:
            return str(self._client.submit(document)["id"])
        except ApiError as error:
            return _refusal(error)

    def task(self, task_id: str) -> TaskState:
        """See Candidate."""
        view: Json = dict(self._client.workload(task_id))
        attempt = view["attempts"][-1] if view["attempts"] else {"members": [], "times": {}}
        holds = tuple(
            (device["device"], device["class"], device["quantity"])
            for member in attempt["members"]
            for device in member["devices"]
        )
        return TaskState(
            id=task_id, state=_STATES.get(str(view["phase"]), "waiting"), holds=holds,
            reasons=tuple(view["reasons"]), times=attempt["times"], raw=view,
        )  # fmt: skip

    def refusal(self, record: str) -> Json:
        """See Candidate."""
        return self._client.refusal(record)

    def end(self, task_id: str) -> None:
        """See Candidate."""
        self._client.cancel(task_id)

    def simulate(self, cluster: str, what: str, entry: Json | None) -> None:
        """See Candidate."""
        document = self._client.object("Cluster", cluster)
        before = self._before.setdefault(f"{cluster}/{what}", document["spec"]["simulation"].get(what, []))
        simulation = {**document["spec"]["simulation"], what: before if entry is None else [*before, entry]}
        spec = {**document["spec"], "simulation": simulation}
        self._client.apply([{"kind": "Cluster", "metadata": {"name": cluster}, "spec": spec}])

    def watch(self) -> Watch:
        """See Candidate."""
        return _Listening(self._connect, self._nodes)


class _Listening:
    """A thread that hears the server's stream of changes."""

    def __init__(self, connect: Callable[[], Client], nodes: dict[str, str]) -> None:
        self._client = connect()
        self._nodes = nodes
        self._first: dict[str, int] = {}
        self._ready = threading.Event()
        threading.Thread(target=self._listen, name="poc-watch", daemon=True).start()

    def _listen(self) -> None:
        try:
            for change in self._client.events():
                self._first.setdefault(str(change.get("id")), time.time_ns() // 1000)
        except (SteelyardError, RuntimeError, OSError):
            return  # what was not heard was not heard: the rule says so

    def heard(self, resource: str) -> int | None:
        """See Watch."""
        times = [self._first.get(name) for name in (resource, self._nodes.get(resource, ""))]
        return min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        """See Watch."""
        self._client.close()


def _resource(device: Json, observed_at: int | None, owners: dict[tuple[str, str], str | None]) -> Resource:
    return Resource(
        id=device["id"],
        uid=device["uid"],
        device_class=device["class"],
        cluster=device["cluster"],
        node=device["node"],
        model=device["model"],
        capacity=device["capacity"],
        parts=tuple(device[part] for part in PARTS),
        state=device["state"],
        availability=device.get("availability"),
        reason=device["reason"],
        divided=device["reason"] == "partitioned",
        requestable=bool(device["requestable"]),
        simulated=bool(device["simulated"]),
        pool=device["pool"],
        owner=owners.get((device["pool"] or "", device["class"])),
        observed_at=observed_at,
        raw=device,
    )


def _refusal(error: ApiError) -> Refusal:
    reasons: list[Any] = error.reasons or [
        {"code": one.get("code"), "params": one.get("params") or {}} for one in error.errors
    ]
    if not reasons:
        reasons = [{"code": error.code, "params": dict(error.params)}]
    return Refusal(code=error.code, text=error.text, reasons=tuple(reasons), record=error.refusal)
