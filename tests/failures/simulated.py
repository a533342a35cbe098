"""Induces the failures of simulated.yaml: one control plane on a virtual clock, a node for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import MINUTE, SECOND
from steelyard.services import refusals, workloads
from steelyard.store.database import sqlite_url
from tests.failures.cases import Case, Told, load
from tests.support.house import ADMIN, House

VIEWER = Principal(
    "us_0000000000001", "user", "vic", (Binding("vic", RoleName.VIEWER, "detect", 1),)
)
_BLOCKER = "blocker"


def documents(cases: list[Case]) -> str:
    """Everything that is declared."""
    nodes = [
        {"count": 1, "prefix": case.name, "cpu": "8", "memory": "32Gi", "labels": {"case": case.name},
         "devices": [{"class": "gpu", "family": "nvidia", "model": "A100", "count": 4, "memory": "80Gi"}]}
        for case in cases
    ]  # fmt: skip
    suffer = []
    for case in cases:
        if fault := case.raw.get("suffer"):
            suffer.append({**fault, "match": {"name": case.name}})
    timing = dict.fromkeys(("provision", "image", "environment", "launch", "stop", "release"), "10ms")
    flavors = [{"name": "a100", "class": "gpu"}, {"name": "cpu", "class": "cpu"}]
    flavors.append({"name": "memory", "class": "memory"})
    limits = [{"class": "gpu", "nominal": 1000}]
    declared: list[tuple[str, str, dict[str, Any]]] = [
        ("LabelVocabulary", "default", {"metadata": "open", "keys": [
            {"key": "case", "setBy": ["engine"], "meaning": {"zh": "用例", "en": "case"}}]}),
        ("Cluster", "sim", {"engine": "simulated",
                            "simulation": {"nodes": nodes, "timing": timing, "suffer": suffer}}),
        ("Pool", "all", {"cluster": "sim", "owner": "platform", "flavors": flavors}),
        ("Team", "vision", {}),
        ("Project", "detect", {"team": "vision"}),
        ("Project", "limited", {"team": "vision"}),
        ("Namespace", "detect-dev", {"project": "detect"}),
        ("Namespace", "limited-dev", {"project": "limited"}),
        ("PriorityClass", "normal", {"value": 10}),
        ("PriorityClass", "high", {"value": 100}),
        ("Cohort", "everybody", {"limits": []}),
        ("Queue", "main", {"cohort": "everybody", "owner": "platform", "limits": limits}),
        ("Queue", "narrow", {"owner": "platform", "limits": [{"class": "gpu", "nominal": 1}]}),
        ("Quota", "limited", {"project": "limited",
                              "limits": [{"class": "gpu", "hard": 4, "onExceed": "refuse"}]}),
        ("Routing", "default", {"routes": [{"queue": queue, "priorityClass": priority}
                                           for queue in ("main", "narrow")
                                           for priority in ("normal", "high")]}),
    ]  # fmt: skip
    return yaml.safe_dump_all(
        [{"kind": kind, "metadata": {"name": name}, "spec": spec} for kind, name, spec in declared]
    )


class Bench:
    """The house with what was submitted to it."""

    def __init__(self, folder: Path, cases: list[Case]) -> None:
        self.house = House(sqlite_url(folder), folder, documents(cases))
        self.ids: dict[str, str] = {}

    def submit(self, case: Case, name: str | None = None, **changes: Any) -> str:
        """The workload of a case, or another one on its node."""
        raw = case.raw
        role = {
            "name": "main", "command": ["train"], "requests": {"cpu": "1", "memory": "1Gi", "gpu": 1},
            "expect": {"run": "1s"}, "nodeLabels": {"case": case.name}, **raw.get("role", {}),
            **changes.pop("role", {}),
        }  # fmt: skip
        namespace = changes.pop("namespace", raw.get("namespace", "detect-dev"))
        spec = {"kind": "training", "restart": "never", "roles": [role], **raw.get("spec", {}), **changes}
        document = {"kind": "Workload", "metadata": {"name": name or case.name, "namespace": namespace},
                    "spec": spec}  # fmt: skip
        who = VIEWER if raw.get("by") == "viewer" else ADMIN
        return str(workloads.submit(self.house.desk, who, document)["id"])

    def start(self, case: Case) -> None:
        """Submits what a case needs, then the case."""
        if case.act == "leave-waiting" or case.name == "over-quota":
            self._in_the_way(case)
        changes = self._changes(case)
        self.ids[case.name] = self.submit(case, **changes)

    def _in_the_way(self, case: Case) -> None:
        changes = self._changes(case)
        role = {"expect": {"run": "forever"}, "requests": {"cpu": "1", "memory": "1Gi", "gpu": 3}}
        if case.name == "waits-for-quota":
            role["requests"] = {"cpu": "1", "memory": "1Gi", "gpu": 1}
        changes["role"] = {**changes.get("role", {}), **role}
        number = self.submit(case, f"{_BLOCKER}-{case.name}", **changes)
        self.ids[_BLOCKER + case.name] = number
        self.until(lambda: self.house.phase(number) == "running")

    @staticmethod
    def _changes(case: Case) -> dict[str, Any]:
        two = {"requests": {"cpu": "1", "memory": "1Gi", "gpu": 2}}
        changes: dict[str, dict[str, Any]] = {
            "waits-for-capacity": {"role": two},
            "waits-for-quota": {"queue": "narrow"},
            "over-quota": {"namespace": "limited-dev", "role": two},
            "more-than-the-quota": {
                "namespace": "limited-dev", "role": {"requests": {"cpu": "1", "gpu": 8}, "nodeLabels": {}},
            },
        }  # fmt: skip
        return changes.get(case.name, {})

    def phase(self, case: Case) -> str:
        """Its phase."""
        return self.house.phase(self.ids[case.name])

    def live(self) -> set[str]:
        """Ids of what has not finished."""
        return {render("workload", number) for number in self.house.live}

    def until(self, done: Callable[[], bool], step: int = SECOND // 5) -> None:
        """Lets time pass."""
        self.house.run_until(done, step=step, most=4000)


def run(folder: Path) -> list[Told]:
    """What was told of every case."""
    cases = load("simulated")
    bench = Bench(folder, cases)
    try:
        refused = {case.name: _refused(bench, case) for case in cases if case.raw.get("refused")}
        started = [case for case in cases if case.name not in refused]
        for case in started:
            bench.start(case)
        _act(bench, started)
        waiting = [case for case in started if case.act == "leave-waiting"]
        left = {bench.ids[case.name] for case in started if case not in waiting}
        bench.until(lambda: not left & bench.live(), MINUTE)
        told = [Told(case, refused[case.name]) for case in cases if case.name in refused]
        told += [Told(case, _verdict(bench, case)) for case in started]
        for name, number in bench.ids.items():
            if name.startswith(_BLOCKER) or name in {case.name for case in waiting}:
                bench.house.cancel(number)
        bench.house.run_dry()
    finally:
        bench.house.close()
    return told


def _act(bench: Bench, cases: list[Case]) -> None:
    """What is done from outside, once each is where it is done."""
    for case in cases:
        if case.act == "cancel-waiting":
            bench.house.cancel(bench.ids[case.name])
    for case in [case for case in cases if case.act in ("preempt", "cancel-starting", "cancel-running")]:
        wanted = "starting" if case.act == "cancel-starting" else "running"
        bench.until(lambda case=case, wanted=wanted: bench.phase(case) == wanted)  # type: ignore[misc]
        if case.act == "preempt":
            whole = {"requests": {"cpu": "1", "memory": "1Gi", "gpu": 4}, "expect": {"run": "1s"}}
            bench.submit(case, "of-higher-priority", priorityClass="high", role=whole)
            bench.until(lambda case=case: len(_attempts(bench, case)) == 2)  # type: ignore[misc]
            bench.until(lambda case=case: bench.phase(case) == "running")  # type: ignore[misc]
        bench.house.cancel(bench.ids[case.name])


def _refused(bench: Bench, case: Case) -> dict[str, Any] | None:
    """The verdict of the refusal that its submit makes."""
    try:
        bench.start(case)
    except SteelyardError as error:
        number = parse("refusal", str(error.params["refusal"]))
        verdict: dict[str, Any] | None = refusals.show(bench.house.store, ADMIN, number)["verdict"]
        return verdict
    raise AssertionError(f"{case.name} was not refused")


def _attempts(bench: Bench, case: Case) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.house.show(bench.ids[case.name])["attempts"]
    return found


def _verdict(bench: Bench, case: Case) -> dict[str, Any] | None:
    """The verdict of its first attempt; checks on the way what else is to be so."""
    attempts = _attempts(bench, case)
    if receipt := case.raw.get("receipt"):
        assert attempts[0]["receipt"]["state"] == receipt
    if case.act == "leave-waiting":
        assert (bench.phase(case), len(attempts)) == ("queued", 1)
    verdict: dict[str, Any] | None = attempts[0]["verdict"]
    return verdict
