"""A house with two pools of two clusters: GPUs with rules, and cores for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import RefusedError
from steelyard.model.ids import parse
from steelyard.services import workloads
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House

RULES = """
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  purpose: training
  owner: platform
  onCall: gpu duty
  environment: {framework: [pytorch, jax], cuda: "12.4"}
  admission: {kinds: [training, evaluation], projects: [detect], maxPerRequest: {gpu: 4}}
  operations: [{class: cpu, owner: systems}]
  flavors: [{name: a100, class: gpu, family: nvidia, model: A100}, {name: sim-cpu, class: cpu},
    {name: sim-memory, class: memory}]
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """With rules for the pool of accelerators."""
    yield from ruled(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The same for tests that change nothing which another one of them looks at."""
    yield from ruled(tmp_path_factory.mktemp("shared"))


def ruled(folder: Path) -> Iterator[House]:
    """A house with rules for the pool of accelerators, closed in the end."""
    made = House(sqlite_url(folder), folder)
    made.apply(RULES)
    made.tick(3)
    yield made
    made.close()


def request_of(
    name: str = "x", *, namespace: str = "detect-dev", kind: str = "training", **role: Any
) -> dict[str, Any]:
    """A workload of one role."""
    main = {"name": "main", "command": ["run"], "requests": {"gpu": 1, "cpu": 1, "memory": "1Gi"},
            "expect": {"run": "1s"}, **role}  # fmt: skip
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"kind": kind, "roles": [main]},
    }


def refusal(house: House, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The reasons of a request that is refused; the dry run gives the same."""
    with pytest.raises(RefusedError) as caught:
        workloads.submit(house.desk, ADMIN, document)
    told = [{"code": r.code, **r.params} for r in caught.value.reasons]
    dry = workloads.submit(house.desk, ADMIN, document, dry_run=True)
    assert [{"code": r["code"], **r["params"]} for r in dry["reasons"]] == told
    assert dry["would"] == "refuse"
    return told


def explained(house: House, workload_id: str) -> list[dict[str, Any]]:
    """Why a workload waits."""
    found = workloads.explain_workload(house.desk, ADMIN, parse("workload", workload_id))
    return [{"code": r["code"], **r["params"]} for r in found["reasons"]]
