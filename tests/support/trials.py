"""Two places where S1 is run: this machine with stand-in cards beside a simulated node, and a large pool.

What is declared is written twice on purpose: as documents for the server, and as the plan of the trial.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from tests.support.server import organisation
from tests.support.stand_in import StandIn

Json = dict[str, Any]
_QUICK = {"confirmSamples": 1, "recoverAfter": "200ms", "recoverSamples": 1, "unknownSamples": 2}
_ORGANISATION = organisation(cpu='"100000"', memory="1000Ti", gpu='"20000"', npu='"20000"')


def pool(name: str, cluster: str, **classes: str) -> str:
    """A pool with a flavor for each class: `gpu="nvidia"` names its family, an empty text none."""
    flavors = [
        {"name": f"{name}-{cls}", "class": cls, **({"family": family} if family else {})}
        for cls, family in classes.items()
    ]
    spec = {"cluster": cluster, "owner": "platform", "onCall": "day shift", "flavors": flavors}
    return yaml.safe_dump({"kind": "Pool", "metadata": {"name": name}, "spec": spec})


def documents(*more: str) -> str:
    """Clusters and pools before the organisation."""
    return "---\n".join([*more, _ORGANISATION])


def simulated_cluster(name: str, nodes: list[Json]) -> str:
    """A simulated cluster's document."""
    spec = {"engine": "simulated", "simulation": {"nodes": nodes}}
    return yaml.safe_dump({"kind": "Cluster", "metadata": {"name": name}, "spec": spec})


# ---- this machine, with two GPUs and an NPU played by tools, and a second, simulated node


def machine_documents(machine: StandIn) -> str:
    """What the server is told of it."""
    body = {
        "engine": "local", "releaseWithin": "5s", "isolation": {"mode": "none"},
        "devices": machine.settings(health=_QUICK),
    }  # fmt: skip
    here = yaml.safe_dump({"kind": "Cluster", "metadata": {"name": "here"}, "spec": body})
    far = simulated_cluster(
        "far",
        [{"count": 1, "prefix": "far", "cpu": "8", "memory": "32Gi", "labels": {"zone": "b"},
          "devices": [{"class": "npu", "family": "ascend", "model": "910B3", "count": 2, "memory": "64Gi"}]}],
    )  # fmt: skip
    return documents(
        here, far, pool("cards", "here", cpu="", memory="", gpu="nvidia", npu="ascend"),
        pool("room", "far", cpu="", memory="", npu="ascend"),
    )  # fmt: skip


def machine_plan(machine: StandIn, data: Path, **changes: Any) -> Json:
    """The plan: its observers look at tools, kernel and the simulated cluster's own file themselves."""
    host, system = os.uname().nodename, machine.system
    gone = machine.gpus[1]
    bus, aside = system / "sys/bus/pci/devices" / gone.pci, machine.folder / "taken-out"
    listing = machine.tools / ".nvidia-smi"
    take = f"mv {bus} {aside} && cd {listing} && for f in query list; do cp $f $f.kept; " \
           f"grep -v {gone.uuid} $f.kept > $f.next; mv $f.next $f; done"
    give = f"mv {aside} {bus} && cd {listing} && for f in query list; do mv $f.kept $f; done"
    open_npu = f"exec 3<{system}/dev/davinci0; exec sleep 600"

    def here(cls: str, count: int, observer: str) -> Json:
        of = {"nodes": [host], "observer": observer, "simulated": observer == "device_probe"}
        return {"cluster": "here", "class": cls, "count": count, **of}

    def far(cls: str, count: int) -> Json:
        of = {"prefix": "far", "nodeCount": 1, "observer": "simulation", "simulated": True}
        return {"cluster": "far", "class": cls, "count": count, **of}

    return {
        "name": "this-machine",
        "scope": [
            here("cpu", 1, "kernel"), here("memory", 1, "kernel"), here("gpu", 2, "device_probe"),
            here("npu", 1, "device_probe"), far("cpu", 1), far("memory", 1), far("npu", 2),
        ],
        "namespace": "detect-dev",
        "bounds": {"stalenessMs": 60000, "changeMs": 20000, "healthMs": 60000, "pollMs": 100},
        "observers": {
            "tools": str(machine.tools), "devices": str(system),
            "simulations": {"far": str(data / "simulated/far.jsonl")},
        },
        "tasks": [
            {"class": "gpu", "clusters": ["here"]}, {"class": "npu", "clusters": ["here"]},
            {"class": "cpu", "quantity": "100m", "clusters": ["here"]},
        ],
        "misfit": {"zone": "nowhere"},
        "wrongClass": {"class": "gpu", "clusters": ["far"]},
        "cordon": {"cluster": "far", "name": "far-0"},
        "fault": {
            "device": {"cluster": "here", "name": gone.uuid},
            "inject": {"command": ["/bin/sh", "-ec", take]}, "clear": {"command": ["/bin/sh", "-ec", give]},
        },
        "foreign": {
            "device": {"cluster": "here", "name": "ascend-0000:c1:00.0"},
            "occupy": {"command": ["/bin/sh", "-c", open_npu]},
        },
        **changes,
    }  # fmt: skip


# ---- a pool of ten thousand accelerators, all simulated


def pool_documents(gpu_nodes: int, npu_nodes: int, each: int = 8) -> str:
    """What the server is told: one cluster of cards and one of cores."""
    gpu = {"class": "gpu", "family": "nvidia", "model": "A100", "count": each, "memory": "80Gi"}
    npu = {"class": "npu", "family": "ascend", "model": "910B3", "count": each, "memory": "64Gi"}
    cards = [
        {"count": nodes, "prefix": prefix, "cpu": "64", "memory": "512Gi", "labels": {"zone": "a"},
         "devices": [card]}
        for nodes, prefix, card in ((gpu_nodes, "g", gpu), (npu_nodes, "a", npu))
    ]  # fmt: skip
    cores = [{"count": 2, "prefix": "c", "cpu": "32", "memory": "128Gi"}]
    return documents(
        simulated_cluster("pool", cards), simulated_cluster("cores", cores),
        pool("cards", "pool", cpu="", memory="", gpu="nvidia", npu="ascend"),
        pool("plain", "cores", cpu="", memory=""),
    )  # fmt: skip


def pool_plan(gpu_nodes: int, npu_nodes: int, data: Path, each: int = 8, **changes: Any) -> Json:
    """The plan of that pool."""

    def group(cluster: str, prefix: str, nodes: int, cls: str, count: int) -> Json:
        of = {"nodeCount": nodes, "observer": "simulation", "simulated": True}
        return {"cluster": cluster, "prefix": prefix, "class": cls, "count": count, **of}

    cards = [("g", gpu_nodes, "gpu"), ("a", npu_nodes, "npu")]
    plain = [*cards, ("c", 2, "")]
    scope = [group("pool", prefix, nodes, cls, each) for prefix, nodes, cls in cards]
    scope += [
        group("cores" if prefix == "c" else "pool", prefix, nodes, cls, 1)
        for prefix, nodes, _ in plain
        for cls in ("cpu", "memory")
    ]
    return {
        "name": "large-pool",
        "scope": scope,
        "namespace": "detect-dev",
        "bounds": {"stalenessMs": 10000, "changeMs": 20000, "healthMs": 60000, "pollMs": 200},
        "observers": {
            "simulations": {name: str(data / f"simulated/{name}.jsonl") for name in ("pool", "cores")}
        },
        "tasks": [{"class": "gpu", "clusters": ["pool"]}, {"class": "npu", "clusters": ["pool"]},
                  {"class": "cpu", "quantity": "2", "clusters": ["cores"]}],
        "misfit": {"zone": "nowhere"},
        "wrongClass": {"class": "gpu", "clusters": ["cores"]},
        "cordon": {"cluster": "pool", "name": "g-1"},
        "fault": {
            "device": {"cluster": "pool", "name": "g-0/gpu-1"},
            "inject": {"suffer": {"fault": "device-vanishes", "match": {"device": "g-0/gpu-1"}}},
        },
        "foreign": {
            "device": {"cluster": "pool", "name": "a-0/npu-1"},
            "occupy": {"foreign": {"kind": "process", "id": "4711", "node": "a-0", "devices": ["a-0/npu-1"],
                                   "text": "somebody's own"}},
        },
        **changes,
    }  # fmt: skip
