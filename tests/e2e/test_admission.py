"""This machine's own cores come in by the procedure, and a real process verifies them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.books import check_books
from tests.support.server import LOCAL_DOCUMENTS, Server

POOL = """
kind: Pool
metadata: {name: machine}
spec:
  cluster: here
  purpose: batch
  owner: platform
  onCall: duty
  environment: {framework: plain}
  admission: {kinds: [batch]}
  flavors: [{name: core, class: cpu}, {name: ram, class: memory}]
---
kind: ObservationSource
metadata: {name: machine-probe}
spec: {type: probe, measures: [cpu], interval: 10s}
---
kind: RegisterEntry
metadata: {name: nightly}
spec: {kind: batch, requests: {cpu: 1}, needs: {framework: plain}, boundaries: one node}
"""
JOB = {
    "kind": "Workload",
    "metadata": {"name": "proof", "namespace": "detect-dev"},
    "spec": {"kind": "batch", "roles": [
        {"name": "main", "command": ["/bin/true"], "requests": {"cpu": "100m", "memory": "64Mi"},
         "needs": {"framework": "plain"}},
    ]},
}  # fmt: skip


@pytest.mark.requirement("C8", "C9")
def test_cores_of_this_machine_come_in_by_a_real_run_and_are_refused_while_their_pool_is_closed(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "data")
    try:
        server.start()
        server.apply(LOCAL_DOCUMENTS)
        server.apply(POOL)
        server.wait_for(lambda: server.get("/v1/pools/machine")["members"]["actual"])
        assert server.get("/v1/register/nightly")["answer"] == "pending"
        server.wait_for(lambda: would(server) != "refuse")
        workload = server.post("/v1/workloads", JOB)["id"]
        server.wait_for(lambda: server.get(f"/v1/workloads/{workload}")["phase"] == "finished")
        cores = next(
            device
            for node in server.pages("/v1/inventory")
            for device in node["devices"]
            if device["class"] == "cpu"
        )
        assert not cores["simulated"]
        body = {"class": "cpu", "family": cores["family"], "model": cores["model"], "reason": "first"}
        admission = f"/v1/admissions/{server.post('/v1/admissions', body)['id']}"
        for step, detail in (
            ("labels", {"labels": ["framework"]}),
            ("environment", {"environment": {"framework": "plain"}}),
            ("monitoring", {"source": "machine-probe"}),
            ("owner", {"owner": "platform", "on_call": "duty"}),
            ("verification", {"workload": workload}),
        ):
            assert server.post(f"{admission}/steps/{step}", detail)["standing"] == "pending-verification"
        assert server.post(f"{admission}/finish")["standing"] == "verified"
        assert server.get("/v1/register/nightly")["answer"] == "yes"
        assert server.get("/v1/pools/machine")["standing"] == "verified"
        assert not server.post("/v1/pools/machine/close", {"reason": "moving"})["open"]
        assert would(server) == "refuse"
        assert server.post("/v1/pools/machine/open", {"reason": "moved"})["open"]
        server.wait_for(lambda: would(server) != "refuse")
        check_books(server)
    finally:
        server.close()


def would(server: Server) -> str:
    """What would come of the job."""
    return str(server.post("/v1/workloads?dry_run=true", JOB)["would"])
