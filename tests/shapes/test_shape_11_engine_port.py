"""Shape 11: one port before every engine; absent never means ended, and what can't be done is declared."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard import engines
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import Engine, MemberObservation, MemberPhase, Observation, Signal
from steelyard.engines.simulated import SimulatedEngine
from steelyard.model.units import SECOND
from tests.support.engine_harness import HARNESSES
from tests.support.faulty_engine import FaultyEngine
from tests.support.simulated import Bench

CALLS = {
    "capabilities", "inventory", "prepare", "start", "signal", "stop", "update", "observe", "forget",
    "probe_release", "fence", "logs", "artifacts", "read_artifact", "exec", "attach", "sample", "endpoint",
    "ensure_namespace", "close", "device_steps",
}  # fmt: skip
ROOT = Path(engines.__file__).parent


def methods(of: type) -> dict[str, inspect.Signature]:
    """Public methods with their parameters."""
    return {
        name: inspect.signature(value)
        for name, value in vars(of).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def test_the_port_has_these_calls_and_no_others() -> None:
    assert set(methods(Engine)) == CALLS


@pytest.mark.parametrize("engine", [SimulatedEngine, LocalEngine, FaultyEngine])
def test_an_engine_takes_each_call_with_the_ports_parameters(engine: type) -> None:
    mine = methods(engine)
    for name, signature in methods(Engine).items():
        assert list(mine[name].parameters) == list(signature.parameters), name


def test_every_engine_in_the_tree_runs_the_contract_suite() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/engine.py")}
    assert folders == set(HARNESSES)


def test_an_observation_says_what_it_is_of_and_how_old() -> None:
    fields = {field.name for field in dataclasses.fields(Observation)}
    assert {"cluster", "as_of", "complete", "cursor", "sequence", "members", "foreign"} <= fields
    member = {field.name for field in dataclasses.fields(MemberObservation)}
    assert {"phase", "sub_stage", "exit_code", "exit_signal", "failure", "failure_stage"} <= member
    assert {signal.value for signal in Signal} == {"checkpoint", "term", "kill"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.engine.close()


def test_a_member_that_is_absent_from_an_observation_still_runs(bench: Bench) -> None:
    attempt = bench.start({"run": "forever"})
    bench.later(SECOND)
    cursor = bench.engine.observe(None).cursor
    assert bench.engine.observe(cursor).members == ()
    assert bench.see(attempt).phase is MemberPhase.RUNNING


def test_a_member_that_can_not_be_seen_is_unknown_in_a_complete_observation() -> None:
    bench = Bench({"fault": "node-lost", "at": "5s"})
    attempt = bench.start({"run": "1s"})
    other = bench.start({"run": "60s"})
    bench.later(60 * SECOND)
    assert bench.see(attempt).phase is MemberPhase.ENDED
    assert bench.see(other).phase is MemberPhase.UNKNOWN


def test_a_test_for_each_kind_of_faulty_reply_is_in_the_contract_suite() -> None:
    suite = Path(__file__).parents[1] / "contract/engines/test_faulty_replies.py"
    text = suite.read_text(encoding="utf-8")
    for fault in ("late", "doubled", "reordered", "stale", "lost-reply"):
        assert f'"{fault}"' in text
