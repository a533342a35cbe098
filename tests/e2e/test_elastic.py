"""An elastic gang of real processes gives up members for a higher priority, and gets others again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.books import check_books
from tests.support.server import OPEN_DOCUMENTS, Server

RANKED = OPEN_DOCUMENTS.replace(
    "routes: [{queue: main, priorityClass: normal}]",
    "routes: [{queue: narrow, priorityClass: urgent}, {queue: narrow, priorityClass: normal}]",
) + """
---
kind: PriorityClass
metadata: {name: urgent}
spec: {value: 100}
---
kind: Queue
metadata: {name: narrow}
spec: {owner: platform, limits: [{class: cpu, nominal: "40m"}, {class: memory, nominal: 1Gi}]}
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {growth: {stabilizationWindow: 0s}}
"""


@pytest.mark.requirement("C9")
def test_members_leave_and_the_others_are_not_touched(tmp_path: Path) -> None:
    gate, marks = tmp_path / "gate", tmp_path / "marks"
    marks.mkdir()
    script = (
        f'echo "$$ $STEELYARD_GANG $STEELYARD_MEMBERS $HOME" > {tmp_path}/half-$STEELYARD_INDEX; '
        f"mv {tmp_path}/half-$STEELYARD_INDEX {marks}/$STEELYARD_INDEX; "  # read only when it is whole
        f"while [ ! -e {gate} ]; do sleep 0.05; done"
    )
    server = Server(tmp_path / "data")
    try:
        server.start()
        server.apply(RANKED)
        role = {"name": "main", "command": ["/bin/sh", "-c", script], "count": 4, "min": 2, "grow": True,
                "requests": {"cpu": "10m", "memory": "8Mi"}}  # fmt: skip
        gang = submit(server, "gang", role, "normal")
        server.wait_for(lambda: server.get(f"/v1/workloads/{gang}")["phase"] == "running")
        server.wait_for(lambda: len(list(marks.iterdir())) == 4)
        told = {int(mark.name): mark.read_text().split() for mark in marks.iterdir()}
        assert {words[2] for words in told.values()} == {"4"}
        assert len({words[1] for words in told.values()}) == 1
        quick = {"name": "main", "command": ["/bin/true"], "count": 2,
                 "requests": {"cpu": "10m", "memory": "8Mi"}}  # fmt: skip
        high = submit(server, "urgent", quick, "urgent")
        server.wait_for(lambda: server.get(f"/v1/workloads/{high}")["phase"] == "finished")
        page = server.get(f"/v1/workloads/{gang}")
        (attempt,) = page["attempts"]
        assert page["phase"] == "running"
        left = {one["index"]: one["receipt"]["state"] for one in attempt["members"] if one["phase"] == "left"}
        assert left == {2: "confirmed", 3: "confirmed"}
        assert [os.path.exists(f"/proc/{told[index][0]}") for index in range(4)] == [True, True, False, False]
        (made,) = page["evictions"]
        assert (made["goes_on_with"], made["preemptor"]) == (2, high)
        server.kill()  # who starts next knows who left
        server.start()
        server.wait_for(lambda: running(server, gang) == [0, 1, 2, 3])
        assert len(server.get(f"/v1/workloads/{gang}")["attempts"]) == 1
        assert os.path.exists(f"/proc/{told[0][0]}")
        note = Path(told[0][3]) / "members.json"
        server.wait_for(lambda: json.loads(note.read_text()) == {"main": [0, 1, 2, 3]})
        again = {int(mark.name): mark.read_text().split() for mark in marks.iterdir()}
        assert again[0] == told[0]
        assert again[3][1:3] == [told[0][1], "4"]
        gate.touch()
        server.wait_for(lambda: server.get(f"/v1/workloads/{gang}")["phase"] == "finished")
        assert server.get(f"/v1/workloads/{gang}")["outcome"] == "succeeded"
        check_books(server)
    finally:
        gate.touch()
        server.close()


def running(server: Server, workload: str) -> list[int]:
    """Indexes of the members that run."""
    (attempt,) = server.get(f"/v1/workloads/{workload}")["attempts"]
    return sorted(one["index"] for one in attempt["members"] if one["phase"] == "running")


def submit(server: Server, name: str, role: dict[str, object], priority: str) -> str:
    spec = {"kind": "batch", "priorityClass": priority, "roles": [role]}
    document = {"kind": "Workload", "metadata": {"name": name, "namespace": "detect-dev"}, "spec": spec}
    return str(server.post("/v1/workloads", document)["id"])
