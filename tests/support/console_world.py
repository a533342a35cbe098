"""A real server whose simulated clusters show everything that pages show: what runs, waits, failed, ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.house import DOCUMENTS
from tests.support.server import Server

GPU = {"cpu": "1", "memory": "4Gi", "gpu": 1}


class World:
    """The server, and ids by name: of its workloads, and of what `find_devices` finds."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "data").start()
        self.ids: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self.server.port}"

    def fill(self) -> World:
        """Declare the house, submit what is to be seen, and wait until it is."""
        server = self.server
        server.apply(DOCUMENTS)
        server.wait_for(lambda: len(server.get("/v1/inventory")["items"]) == 3)
        self.submit("train-resnet", expect={"run": "forever"}, count=2)
        self.submit("train-vit", expect={"run": "forever"}, requests={**GPU, "gpu": 4})
        self.submit("broken-loader", expect={"run": "20ms", "exit": "3"}, restart="never")
        self.submit("out-of-memory", expect={"run": "20ms", "oom": "true"}, restart="never")
        judged = {
            "model": {"name": "resnet", "digest": f"sha256:{'a' * 64}"},
            "dataset": {"name": "digits", "digest": f"sha256:{'b' * 64}"},
        }
        self.submit("evaluate-small", kind="evaluation", evaluation=judged, expect={"run": "20ms"})
        small: dict[str, Any] = {"requests": {"cpu": "1"}, "clusters": ["other"]}
        shop: dict[str, Any] = {"replicas": {"initial": 2, "max": 3}, "expect": {"run": "forever"}}
        self.submit("shop", kind="inference", **shop, **small)
        sweep: dict[str, Any] = {"array": {"completions": 4, "parallelism": 2}, "expect": {"run": "20ms"}}
        self.submit("sweep", kind="batch", **sweep, **small)
        self.submit("kept-back", hold=True)
        for name in ("broken-loader", "out-of-memory", "evaluate-small", "sweep"):
            self.reaches(name, "finished")
        for name in ("train-resnet", "train-vit", "shop"):
            self.reaches(name, "running")
        self.submit("wants-the-pool", expect={"run": "1s"}, requests={**GPU, "gpu": 4}, count=2)
        self.submit("comes-later", expect={"run": "1s"}, requests={**GPU, "gpu": 4}, count=2)
        self.submit("wants-quota", namespace="translate-dev", requests={**GPU, "gpu": 2})
        server.told_why(self.ids["wants-the-pool"])
        self.refused("greedy", {**GPU, "gpu": 3})
        self.find_devices()
        return self

    def refused(self, name: str, requests: dict[str, Any]) -> None:
        """Ask for more than the quota of a namespace allows."""
        role = {"name": "main", "command": ["train"], "requests": requests}
        document = {
            "kind": "Workload",
            "metadata": {"name": name, "namespace": "translate-dev"},
            "spec": {"kind": "training", "roles": [role]},
        }
        answer = self.server.client.post("/v1/workloads", json=document)
        assert answer.status_code == 422, answer.text

    def find_devices(self) -> None:
        """Ids of a `node` in use, and on it of a `gpu` and of its `cpu`."""
        nodes = self.server.get("/v1/inventory")["items"]
        held = (device for node in nodes for device in node["devices"] if device["holders"])
        gpu = next(device for device in held if device["class"] == "gpu")
        node = next(node for node in nodes if node["name"] == gpu["node"])
        cpu = next(device for device in node["devices"] if device["class"] == "cpu")
        self.ids |= {"node": node["id"], "gpu": gpu["id"], "cpu": cpu["id"]}

    def submit(self, name: str, namespace: str = "detect-dev", **fields: Any) -> str:
        """Submit a one-role workload; its id."""
        role = {
            "name": "main",
            "command": ["train", "--epochs", "3"],
            "count": fields.pop("count", 1),
            "requests": fields.pop("requests", GPU),
            "expect": fields.pop("expect", {"run": "1s"}),
            "clusters": fields.pop("clusters", []),
        }
        document = {
            "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"kind": "training", **fields, "roles": [role]},
        }
        self.ids[name] = str(self.server.post("/v1/workloads", document)["id"])
        return self.ids[name]

    def view(self, name: str) -> dict[str, Any]:
        """The workload as the API shows it."""
        found: dict[str, Any] = self.server.get(f"/v1/workloads/{self.ids[name]}")
        return found

    def reaches(self, name: str, phase: str) -> None:
        """Wait until it is in a phase."""
        self.server.wait_for(lambda: self.view(name)["phase"] == phase)

    def close(self) -> None:
        """End the server."""
        self.server.close()
