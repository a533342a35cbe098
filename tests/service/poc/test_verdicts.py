"""How checks get their status: nothing passes on a claim alone, nothing pending is shown as passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from steelyard.client import ApiError, NotReachableError
from steelyard.locale import LANGUAGES, has
from steelyard.model.errors import ConflictError, InvalidError
from steelyard.poc.candidate import CapabilityMissing
from steelyard.poc.folder import Folder
from steelyard.poc.plan import Plan, read_plan
from steelyard.poc.records import (
    Check,
    FailReason,
    Outcome,
    PendingReason,
    Said,
    Status,
    status_of,
    summary_of,
    verdict_of,
)
from steelyard.poc.report import report_text
from steelyard.poc.rules import RULES
from steelyard.poc.run import run
from steelyard.poc.scenario import SCENARIOS, load_scenario
from tests.support import trials

Json = dict[str, Any]


def check(status: Status, *, mandatory: bool = True, step: str = "1.1") -> Check:
    return Check(
        id=f"s1.{step}.{status.value}", requirement_rows=("B1",), scenario="s1", step=step, preconditions=(),
        role="platform-operator", expected=Said("poc.expect.once"), actual=Said("poc.seen.held"),
        status=status, reason="observer-missing" if status is Status.PENDING else None, evidence=("a.json",),
        rule="once", rule_version=1, seen_by=(), simulated=False, mandatory=mandatory,
    )  # fmt: skip


def plan(**changes: Any) -> Plan:
    return msgspec.convert(trials.pool_plan(1, 1, Path("/nowhere"), **changes), Plan)


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (Outcome(ok=True, actual=Said("x")), Status.PASS, None),
        (Outcome(ok=True, actual=Said("x"), missing=("device_probe",)), Status.PENDING, "observer-missing"),
        (Outcome(ok=False, actual=Said("x"), missing=("device_probe",)), Status.FAIL, "contradicted"),
        (Outcome(ok=None, actual=Said("x")), Status.PENDING, "evidence-incomplete"),
    ],
)
def test_a_claim_without_its_observer_is_pending(
    outcome: Outcome, status: Status, reason: str | None
) -> None:
    assert status_of(outcome) == (status, reason)


@pytest.mark.requirement("O15")
@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([Status.PASS, Status.PENDING], Status.PENDING),
        ([Status.PASS, Status.PENDING, Status.FAIL], Status.FAIL),
        ([Status.PASS, Status.PASS], Status.PASS),
        ([], Status.PENDING),
        ([Status.NOT_APPLICABLE], Status.PENDING),
    ],
)
def test_fail_outweighs_pending_and_pending_pass(found: list[Status], verdict: Status) -> None:
    assert verdict_of(check(status) for status in found) is verdict


def test_what_does_not_count_is_listed_all_the_same() -> None:
    summary = summary_of([check(Status.PASS), check(Status.PENDING, mandatory=False)])
    assert (summary["verdict"], summary["pending"]) == ("pass", {"s1.1.1.pending": "observer-missing"})


def test_a_report_of_a_static_list_says_that_it_is_half_done() -> None:
    failed = [check(Status.PASS), check(Status.FAIL, step="1.6")]
    report = report_text(load_scenario("s1"), plan(), failed, "zh")
    assert "资源纳管只能算完成了一半" in report
    assert "资源纳管只能算完成了一半" not in report_text(load_scenario("s1"), plan(), failed[:1], "zh")


# ---- rules


def seen(**changes: Any) -> Json:
    """A task on a device, as step 1.6 writes it down."""
    device = {"uid": "GPU-a", "device_class": "gpu", "simulated": False}
    observed = {"observer": "process_probe", "alive": True, "devices": [["GPU-a", None]]}
    found = {
        "device": device, "named": True, "held": [["dv_1", "gpu", 1000], ["dv_2", "cpu", 1]], "ms": 5,
        "quantity": 1000, "names": ["GPU-a", "0"], "observed": observed, **changes,
    }  # fmt: skip
    return {"gpu": found}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (Status.PASS, None)),
        ({"named": False}, (Status.FAIL, "contradicted")),
        ({"held": [["dv_1", "gpu", 1000], ["dv_9", "npu", 1000]]}, (Status.FAIL, "contradicted")),
        ({"observed": {"observer": "p", "alive": None, "devices": []}}, (Status.PENDING, "observer-missing")),
        ({"observed": {"observer": "p", "alive": False, "devices": []}}, (Status.FAIL, "contradicted")),
        (
            {"observed": {"observer": "p", "alive": True, "devices": [["GPU-b", None]]}},
            (Status.FAIL, "contradicted"),
        ),
    ],
)
def test_a_device_is_allocated_only_if_candidate_and_observer_agree(
    changes: Json, expected: tuple[Status, str | None]
) -> None:
    assert status_of(RULES["allocated"](seen(**changes), plan(), "gpu")) == expected


def test_what_is_verified_passes_and_what_is_not_is_pending_and_counts_only_where_it_is_claimed() -> None:
    told = {"model": "detected", "driver": "detected", "runtime": "declared"}
    model = {"model": "H200", "told": told, "simulated": False, "verified": False}

    def judged(claimed: tuple[str, ...] = (), **changes: Any) -> tuple[Status, str | None, bool]:
        facts = {"here.gpu": [{**model, **changes}]}
        outcome = RULES["provenance"](facts, plan(supported=claimed), "here.gpu")
        return (*status_of(outcome), outcome.mandatory)

    assert judged(verified=True) == (Status.PASS, None, False)
    assert judged() == (Status.PENDING, "support-matrix-unconfirmed", False)
    assert judged(("gpu",)) == (Status.PENDING, "support-matrix-unconfirmed", True)
    assert judged(verified=True, simulated=True) == (Status.PENDING, "simulated-device", False)
    assert judged(told={**told, "model": None}) == (Status.FAIL, "contradicted", False)


# ---- candidates that can do little


class Nothing:
    """A candidate without any verb; each raises what it is given."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def verb(*arguments: Any, **more: Any) -> Any:
            raise self._error

        return verb


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CapabilityMissing("no inventory"), ("fail", "capability-missing")),
        (ApiError(405, {"code": "method-not-allowed"}), ("fail", "capability-missing")),
        (ApiError(404, {"code": "route-unknown"}), ("fail", "capability-missing")),
        (ApiError(404, {"code": "not-found"}), ("fail", "contradicted")),
        (NotReachableError("server-not-reachable", url="x"), ("pending", "evidence-incomplete")),
        (KeyError("devices"), ("pending", "evidence-incomplete")),
    ],
)
def test_a_step_that_can_t_be_taken_ends_no_run_and_passes_nothing(
    error: Exception, expected: tuple[str, str], tmp_path: Path
) -> None:
    scenario = load_scenario("s1")
    part = msgspec.structs.replace(scenario, steps=scenario.steps[:1], preconditions=())
    candidate: Any = Nothing(error)
    if isinstance(error, KeyError):
        candidate.describe = lambda: {"clock": 0}
    checks = run(part, plan(), candidate, Folder(tmp_path / "out"))
    assert {(check.status.value, check.reason) for check in checks} == {expected}
    assert (tmp_path / "out/checks.json").is_file()


# ---- data


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_rule_step_and_precondition_of_a_scenario_is_there_with_its_texts(name: str) -> None:
    scenario = load_scenario(name)
    rules = {one.rule for step in scenario.steps for one in step.checks}
    assert rules <= set(RULES)
    codes = [f"poc.expect.{one}" for one in (*rules, *scenario.preconditions)]
    codes += [f"poc.{name}.step.{step.id}" for step in scenario.steps]
    codes += [f"word.poc-reason.{one.value}" for one in (*PendingReason, *FailReason)]
    codes += [f"word.poc-status.{one.value}" for one in Status]
    assert [code for code in codes if not has(code)] == []
    assert LANGUAGES


def test_a_plan_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    whole = trials.pool_plan(2, 1, tmp_path)
    file.write_text(yaml.safe_dump(whole))
    assert read_plan(file).scope[0].node_names() == ("g-0", "g-1")
    for wrong in ({**whole, "extra": 1}, {**whole, "tasks": "gpu"}, {"name": "x"}):
        file.write_text(yaml.safe_dump(wrong))
        with pytest.raises(InvalidError) as caught:
            read_plan(file)
        assert caught.value.code == "poc-plan-invalid"
    with pytest.raises(InvalidError):
        read_plan(tmp_path / "none.yaml")


def test_a_folder_that_is_used_is_refused(tmp_path: Path) -> None:
    Folder(tmp_path / "new").write("a/b.json", {"x": 1})
    with pytest.raises(ConflictError):
        Folder(tmp_path / "new")
