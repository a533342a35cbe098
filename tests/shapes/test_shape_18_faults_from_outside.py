"""Shape 18: a simulated cluster suffers by its data; faults of our ports come from a wrapper of the tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

import steelyard
from steelyard.engines.port import EngineUnavailable, StartState
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.engines.simulated.faults import FaultKind
from steelyard.model.units import SECOND
from tests.support.faulty_engine import FaultyEngine
from tests.support.simulated import Bench, VirtualClock

SOURCE = Path(steelyard.__file__).parent
DOCUMENT = """
kind: Cluster
metadata: {name: sim-a}
spec:
  engine: simulated
  simulation:
    nodes:
      - {count: 2, prefix: sim-a, cpu: "8", memory: 32Gi}
    suffer:
      - {fault: start-failure, match: {name: "train-*"}, count: 1}
      - {fault: node-lost, match: {node: sim-a-1}, at: 10s, for: 5s}
"""


def test_what_a_cluster_is_to_suffer_is_read_from_its_declared_document() -> None:
    spec = parse_simulation(yaml.safe_load(DOCUMENT)["spec"]["simulation"])
    assert [suffering.fault for suffering in spec.suffer] == [FaultKind.START_FAILURE, FaultKind.NODE_LOST]
    clock = VirtualClock()
    engine = SimulatedEngine("sim-a", spec, clock)
    clock.pass_time(11 * SECOND)
    assert [node.reason for node in engine.inventory()] == [None, "node-lost"]


def test_a_document_that_is_applied_later_changes_what_a_running_cluster_suffers() -> None:
    bench = Bench()
    bench.suffer({"fault": "cluster-lost"})
    with pytest.raises(EngineUnavailable):
        bench.engine.observe(None)
    bench.suffer()
    assert bench.engine.observe(None).complete


def test_a_wrapper_without_a_named_fault_changes_nothing() -> None:
    bench = Bench()
    faulty = FaultyEngine(bench.engine)
    attempt = bench.attempt({"run": "1s"})
    assert faulty.start([attempt])[0].state is StartState.ACCEPTED
    assert faulty.observe(None).members == bench.engine.observe(None).members
    assert faulty.inventory() == bench.engine.inventory()
    assert faulty.cluster == bench.engine.cluster


def test_a_named_fault_strikes_as_often_as_it_was_armed_and_no_more() -> None:
    bench = Bench()
    faulty = FaultyEngine(bench.engine)
    faulty.arm("unreachable", 2)
    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            faulty.inventory()
    assert faulty.inventory()


def test_no_product_code_knows_the_tests_or_their_faults() -> None:
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name}: {name}" for name in names if name.split(".")[0] == "tests"]
    assert found == []


def test_only_the_simulated_engine_knows_what_a_cluster_can_suffer() -> None:
    inside = SOURCE / "engines" / "simulated"
    words = ("FaultKind", "Suffering", "lost-reply", "stuck-release")
    found = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(inside) and any(word in path.read_text("utf-8") for word in words)
    ]
    assert [name for name in found if not name.startswith(("demo/", "poc/", "locale/"))] == []
