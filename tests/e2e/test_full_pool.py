"""A full pool on this machine: who holds what, what a higher priority takes, what a service keeps.

The pool is 1000 milli-cores of quota. What is stopped for a higher priority writes down how far it came,
comes back with its first submit time, and goes on from there.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import LOCAL_DOCUMENTS, Server, running

QUOTA = 1000
DOCUMENTS = (
    LOCAL_DOCUMENTS.replace('nominal: "64"', 'nominal: "1"')
    .replace(
        """metadata: {name: normal}
spec: {value: 10}
""",
        """metadata: {name: normal}
spec: {value: 10}
---
kind: PriorityClass
metadata: {name: urgent}
spec: {value: 100}
""",
    )
    .replace(
        "spec: {routes: [{queue: main, priorityClass: normal}]}",
        "spec: {routes: [{kind: inference, queue: main, priorityClass: urgent},"
        " {kind: training, queue: main, priorityClass: urgent}, {queue: main, priorityClass: normal}]}",
    )
)
#: Counts to a hundred at twenty a second; on TERM it writes down where it is, and it begins where it was.
COUNTS = """
n=0
[ -n "$STEELYARD_RESUME_DIR" ] && [ -f "$STEELYARD_RESUME_DIR/step" ] && n=$(cat "$STEELYARD_RESUME_DIR/step")
echo "from $n"
trap 'echo "$n" > step; exit 143' TERM
while [ "$n" -lt 100 ]; do n=$((n + 1)); sleep 0.05; done
echo "done $n"
"""
SERVES = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
WITHIN = 20.0  # seconds in which a guaranteed replica starts, victims' grace included


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("pool") / "data", DOCUMENTS) as made:
        yield made


def show(server: Server, workload: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/v1/workloads/{workload}")
    return found


def until(server: Server, workload: str, phase: str) -> dict[str, Any]:
    server.wait_for(lambda: show(server, workload)["phase"] == phase, every=0.05)
    return show(server, workload)


def submit(server: Server, name: str, script: str, cpu: int, **fields: Any) -> str:
    requests = {"cpu": f"{cpu}m", "memory": "16Mi"}
    return server.submit(name, ["/bin/sh", "-c", script], requests=requests, **fields)


def said(server: Server, workload: str) -> str:
    return b64decode(server.get(f"/v1/workloads/{workload}/logs")["data_base64"]).decode()


def fill(server: Server) -> dict[str, str]:
    """Two holders of 600 and 400; both run."""
    held = {name: submit(server, name, COUNTS, cpu) for name, cpu in (("wide", 600), ("narrow", 400))}
    for workload in held.values():
        until(server, workload, "running")
    return held


@pytest.mark.requirement("E5", "J4")
def test_what_waits_for_a_full_pool_is_told_who_holds_it(server: Server) -> None:
    held = fill(server)
    waiting = submit(server, "waits", "exit 0", 500)
    server.told_why(waiting)
    found = server.get(f"/v1/workloads/{waiting}/explanation")
    assert found["decision"] == "waits"
    reason = next(entry for entry in found["reasons"] if entry["resource"] == "cpu")
    assert (reason["limit"], reason["used"], reason["requested"]) == (QUOTA, QUOTA, 500)
    amounts = {holder["name"]: holder["amount"] for holder in reason["holders"]}
    assert amounts
    assert amounts.keys() <= held.keys()
    assert sum(amounts.values()) == reason["short_by"] == 500
    assert until(server, waiting, "finished")["outcome"] == "succeeded"


@pytest.mark.requirement("E2", "E11")
def test_a_victim_writes_down_where_it_is_keeps_its_submit_time_and_goes_on(server: Server) -> None:
    held = fill(server)
    urgent = submit(server, "urgent", "sleep 0.5", 600, kind="training")
    until(server, urgent, "finished")
    victims = [name for name, workload in held.items() if len(show(server, workload)["attempts"]) > 1]
    assert victims == ["wide"]  # 400 would not have been enough
    before = show(server, held["wide"])
    after = until(server, held["wide"], "finished")
    assert after["outcome"] == "succeeded"
    assert after["submitted_at"] == before["submitted_at"]
    assert [attempt["outcome"] for attempt in after["attempts"]] == ["preempted", "succeeded"]
    first, _, last = said(server, held["wide"]).strip().partition("\n")
    assert int(first.removeprefix("from ")) > 0
    assert last == "done 100"
    assert until(server, held["narrow"], "finished")["outcome"] == "succeeded"


@pytest.mark.requirement("H1", "H2", "H7")
def test_a_service_scales_out_within_its_guarantee_while_the_pool_is_full(server: Server) -> None:
    replicas = {"initial": 1, "guaranteed": 2, "max": 2, "lend": True}
    service = submit(server, "answers", SERVES, 300, kind="inference", replicas=replicas, grace="1s")
    server.wait_for(lambda: show(server, service)["group"]["counts"].get("running") == 1)
    batch = [submit(server, f"batch-{index}", "sleep 60", 350, grace="1s") for index in range(2)]
    for workload in batch:
        until(server, workload, "running")  # one of them in the headroom that is lent
    server.post(f"/v1/workloads/{service}/scale", {"replicas": 2})
    server.wait_for(lambda: show(server, service)["group"]["counts"].get("running") == 2, WITHIN, 0.05)
    phases = sorted(show(server, workload)["phase"] for workload in batch)
    assert phases == ["queued", "running"]  # just one of them gave way, and it waits again
