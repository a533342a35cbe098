"""CPU is a resource of its own: its queue, its quota, its usage, here on this machine's real cores.

The accelerators are simulated. What asks for a GPU never lands on an NPU or on cores, however free these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import LOCAL_DOCUMENTS, Server, running

ACCELERATORS = """
---
kind: Cluster
metadata: {name: sim}
spec:
  engine: simulated
  simulation:
    nodes:
    - {count: 1, prefix: s, cpu: "16", memory: 64Gi,
       devices: [{class: gpu, family: nvidia, model: A100, count: 1, memory: 80Gi},
                 {class: npu, family: ascend, model: 910B, count: 4, memory: 64Gi}]}
    timing: {provision: 10ms, image: 10ms, environment: 10ms, launch: 10ms, stop: 10ms, release: 10ms}
---
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  purpose: training
  owner: platform
  flavors: [{name: a100, class: gpu}, {name: npu910b, class: npu}, {name: sim-core, class: cpu},
            {name: sim-ram, class: memory}]
---
kind: Queue
metadata: {name: cores}
spec:
  cohort: all
  owner: platform
  limits: [{class: cpu, nominal: "1", borrowingLimit: "0"}, {class: memory, nominal: 1Ti}]
---
kind: Routing
metadata: {name: default}
spec: {routes: [{kind: batch, queue: cores, priorityClass: normal}, {queue: main, priorityClass: normal}]}
"""
DOCUMENTS = (
    LOCAL_DOCUMENTS.partition("---\nkind: Routing")[0].replace(
        'limits: [{class: cpu, nominal: "64"}',
        'limits: [{class: gpu, nominal: "4"}, {class: npu, nominal: "4"}, {class: cpu, nominal: "64"}',
    )
    + ACCELERATORS.lstrip("\n")
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("cpu") / "data", DOCUMENTS) as made:
        yield made


def show(server: Server, workload: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/v1/workloads/{workload}")
    return found


def ended(server: Server, workload: str) -> dict[str, Any]:
    server.wait_for(lambda: show(server, workload)["phase"] == "finished")
    return show(server, workload)


def classes_of(found: dict[str, Any]) -> set[str]:
    members = found["attempts"][-1]["members"]
    return {device["class"] for member in members for device in member["devices"]}


@pytest.mark.requirement("B16")
def test_cores_have_their_own_queue_quota_and_usage(server: Server) -> None:
    options: dict[str, Any] = {"kind": "batch", "requests": {"cpu": "600m", "memory": "64Mi"}}
    options["role"] = {"clusters": ["here"]}
    first = server.submit("first", ["/bin/sleep", "60"], **options)
    server.wait_for(lambda: show(server, first)["phase"] == "running")
    second = server.submit("second", ["/bin/true"], **options)
    found = server.told_why(second)
    assert (found["queue"], found["phase"]) == ("cores", "queued")
    reason = found["reasons"][0]
    assert (reason["code"], reason["resource"]) == ("waiting-for-quota", "cpu")
    assert (reason["limit"], reason["used"], reason["requested"], reason["short_by"]) == (1000, 600, 600, 200)
    server.post(f"/v1/workloads/{first}/cancel")
    assert ended(server, second)["outcome"] == "succeeded"
    assert classes_of(show(server, second)) == {"cpu", "memory"}
    usage = server.get("/v1/usage", by="queue,class,cluster")
    held = {(r["queue"], r["class"], r["cluster"], r["simulated"]) for r in usage["rows"] if int(r["held"])}
    assert ("cores", "cpu", "here", False) in held
    assert not [row for row in held if row[0] == "cores" and row[1] not in ("cpu", "memory")]
    assert usage["closes"]
    record = server.post("/v1/verifications", {"device": "here/host-cpu", "workload": second})
    assert (record["kind"], record["class"], record["uid"]) == ("batch", "cpu", "host-cpu")


@pytest.mark.requirement("B2", "E15")
def test_a_request_for_a_gpu_never_lands_on_an_npu_or_on_cores(server: Server) -> None:
    wanted = {"cpu": "1", "memory": "1Gi", "gpu": 1}
    options: dict[str, Any] = {"kind": "training", "requests": wanted, "role": {"expect": {"run": "1h"}}}
    holder = server.submit("holder", ["train"], **options)
    server.wait_for(lambda: show(server, holder)["phase"] == "running")
    assert classes_of(show(server, holder)) == {"gpu", "cpu", "memory"}
    waiting = server.submit("waiting", ["train"], **options)
    found = server.told_why(waiting)
    assert found["phase"] == "queued"
    assert {(r["code"], r["resource"]) for r in found["reasons"]} == {("waiting-for-capacity", "gpu")}
    nodes = server.pages("/v1/inventory", **{"cluster": "sim", "class": "npu"})
    npus = [device for node in nodes for device in node["devices"]]
    assert [(d["free"], d["requestable"]) for d in npus] == [(1000, True)] * 4
    npu = server.submit(
        "npu", ["train"], kind="training", requests={"cpu": "1", "memory": "1Gi", "npu": 1},
        role={"expect": {"run": "10ms"}},
    )  # fmt: skip
    assert classes_of(ended(server, npu)) == {"npu", "cpu", "memory"}
    for workload in (waiting, holder):
        server.post(f"/v1/workloads/{workload}/cancel")
        ended(server, workload)
    assert classes_of(show(server, waiting)) <= {"gpu", "cpu", "memory"}
