"""Induces the failures of local.yaml: real processes under the local engine, all of them at once."""

from __future__ import annotations

import os
import platform
import signal
import struct
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import Engine
from steelyard.services import workloads
from steelyard.store.database import sqlite_url
from tests.failures.cases import Case, Told, load
from tests.support.house import ADMIN, House, VirtualClock
from tests.support.local_engine import end_everything, kill_runner, make_local_engine, notes

SECONDS = 240.0
WORK_LIMIT = 40  # MiB
_FOREIGN = 183 if platform.machine() != "aarch64" else 62  # e_machine: AArch64, x86-64

DOCUMENTS = yaml.safe_dump_all(
    {"kind": kind, "metadata": {"name": name}, "spec": spec}
    for kind, name, spec in (
        ("Cluster", "here", {"engine": "local"}),
        ("Pool", "machine", {"cluster": "here", "owner": "platform",
                             "flavors": [{"name": "core", "class": "cpu"},
                                         {"name": "ram", "class": "memory"}]}),
        ("Team", "vision", {}),
        ("Project", "detect", {"team": "vision"}),
        ("Namespace", "detect-dev", {"project": "detect"}),
        ("PriorityClass", "normal", {"value": 10}),
        ("Cohort", "everybody", {"limits": []}),
        ("Queue", "main", {"cohort": "everybody", "owner": "platform", "limits": []}),
        ("Routing", "default", {"routes": [{"queue": "main", "priorityClass": "normal"}]}),
    )
)  # fmt: skip


class RealClock(VirtualClock):
    """The machine's time, in microseconds that never repeat."""

    def __call__(self) -> int:
        self.at = max(self.at + 1, time.time_ns() // 1000)
        return self.at

    def advance(self, micros: int) -> None:
        """Real time can only be waited for."""
        time.sleep(micros / 1_000_000)


class LocalHouse(House):
    """A control plane over this machine's local engine."""

    local: LocalEngine

    def _engine(self, name: str, spec: Mapping[str, Any]) -> Engine:
        self.local = make_local_engine(
            self.folder, install_id=self.store.install_id, work_limit=WORK_LIMIT, runner_idle_seconds=30.0
        )
        self.local.cluster = name
        return self.local


def files(folder: Path) -> None:
    """What the cases execute."""
    made = {
        "wrong-architecture":
            b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, _FOREIGN, 1) + bytes(40),
        "bad-shebang": b"#!/steelyard/has/no/such/interpreter\nexit 0\n",
        "garbage": b"\x00\x01\x02\x03 neither a program nor a script\n",
    }  # fmt: skip
    for name, data in made.items():
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o755)


def run(folder: Path) -> list[Told]:
    """What was told of every case."""
    files(folder)
    cases = load("local")
    house = LocalHouse(sqlite_url(folder), folder, DOCUMENTS, clock=RealClock(time.time_ns() // 1000))
    try:
        ids = {case.name: _submit(house, case, folder) for case in cases}
        acting = {case.name: case for case in cases if case.act is not None}
        deadline = time.monotonic() + SECONDS
        house.tick()
        while house.live:
            house.tick()
            for name in [name for name in acting if house.phase(ids[name]) == "running"]:
                _act(house, acting.pop(name), ids[name], folder)
            assert time.monotonic() < deadline, sorted(
                name for name, number in ids.items() if house.phase(number) != "finished"
            )
        told = [Told(case, house.show(ids[case.name])["verdict"]) for case in cases]
        for one in told:
            _check_lines(house.local, one)
        return told
    finally:
        end_everything(house.local)
        house.close()


def _submit(house: House, case: Case, folder: Path) -> str:
    role = {"name": "main", "requests": {"cpu": "5m", "memory": "32Mi"}, **case.raw["role"]}
    role["command"] = [word.replace("FOLDER", str(folder)) for word in role["command"]]
    spec = {"kind": "batch", "restart": "never", "grace": "1s", **case.raw.get("spec", {}), "roles": [role]}
    document = {"kind": "Workload", "metadata": {"name": case.name, "namespace": "detect-dev"}, "spec": spec}
    return str(workloads.submit(house.desk, ADMIN, document)["id"])


def _check_lines(engine: LocalEngine, told: Told) -> None:
    """A line that a verdict points at is in the log, where and as it says."""
    for pointer in (told.verdict or {}).get("evidence", ()):
        if pointer["kind"] == "line":
            raw = engine.logs(pointer["member"], pointer["offset"], pointer["length"]).data
            assert sha256(raw).hexdigest() == pointer["digest"], (told.case.name, pointer)


def _act(house: House, case: Case, workload: str, folder: Path) -> None:
    """What is done to it from outside, while it runs."""
    member = house.show(workload)["attempts"][0]["members"][0]["id"]
    if case.act == "cancel-running":
        house.cancel(workload)
    elif case.act == "kill-shim":
        os.kill(notes(folder, member, "run.json")["shim"]["pid"], signal.SIGKILL)
    elif case.act == "kill-program":
        os.kill(notes(folder, member, "run.json")["child"]["pid"], signal.SIGKILL)
    elif case.act == "kill-runner":
        kill_runner(folder)
        (folder / "go").touch()
