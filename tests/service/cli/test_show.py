"""The page of a workload: the reason or verdict first, then time drawn to scale, members, release."""

from __future__ import annotations

import re
from typing import Any

import pytest

from steelyard.cli import timeline
from steelyard.cli.session import Session
from tests.service.cli.fake import ATTEMPT, FAILED, SECOND, T0, WAITING, installed


def shown(view: dict[str, Any], capsys: pytest.CaptureFixture[str], lang: str = "en") -> list[str]:
    assert installed().on("GET /v1/workloads/wl_1", view).run("show", "wl_1", lang=lang) == 0
    return capsys.readouterr().out.splitlines()


def test_the_first_line_of_a_waiting_one_is_its_binding_reason(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(WAITING, capsys)
    assert lines[0].startswith("… queued: Waits for quota: project alpha may use 4 GPU, 4 is in use")
    assert lines[1].startswith("  - Workloads of higher or equal priority")
    assert lines[2] == "2 workload(s) are ahead of it in its queue."


def test_the_first_line_of_a_failed_one_is_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(FAILED, capsys)[0].startswith("✗ failed: The program ended by itself with exit code 3.")
    assert shown(FAILED, capsys, "zh")[0].startswith("✗ 失败：程序自行退出，退出码 3。阶段：应用自身")


@pytest.mark.parametrize(
    ("phase", "outcome", "first"),
    [
        ("running", None, "▶ running for 10.0s"),
        ("starting", None, "▶ starting (image) for 1.0s"),
        ("releasing", None, "▶ releasing for 1.0s"),
        ("finished", "succeeded", "✓ succeeded after running 10.0s on sim [simulated]."),
        ("finished", "cancelled", "■ cancelled after running 10.0s. Cluster: sim [simulated]."),
    ],
)
def test_the_first_line_says_what_goes_on_with_the_stage_s_own_time(
    phase: str, outcome: str | None, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = "image" if phase == "starting" else None
    view = {**FAILED, "phase": phase, "outcome": outcome, "sub_stage": stage, "verdict": None}
    assert shown(view, capsys)[0].startswith(first)


def test_the_release_is_shown_with_its_three_signals(capsys: pytest.CaptureFixture[str]) -> None:
    page = "\n".join(shown(FAILED, capsys))
    assert "Release confirmed at 2026-01-01 00:00:14 UTC" in page
    assert "✓ control plane: ended  ✓ ledger: closed  ✓ live probe: nothing is left" in page


def test_a_quarantine_names_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    signals = {"control": "ended", "ledger": "closed", "probe": "occupied"}
    receipt = {**ATTEMPT["receipt"], "state": "quarantined", "signals": signals, "residue": ["pid 7\x1b[2J"]}
    page = "\n".join(shown({**FAILED, "attempts": [{**ATTEMPT, "receipt": receipt}]}, capsys))
    assert "Release quarantined" in page
    assert "✗ live probe: something is left" in page
    assert "left behind: pid 7\\x1b[2J" in page


def test_members_are_shown_with_devices_and_exit(capsys: pytest.CaptureFixture[str]) -> None:
    page = "\n".join(shown(FAILED, capsys))
    assert "main/0 · ended · n-0 · exit code 3" in page
    assert "2 GPU: A100 n-0/gpu-0 [simulated]" in page
    assert "Evicted at 2026-01-01 00:00:00 UTC for big (a higher priority of its queue): 5.0s of" in page


def test_the_stages_are_on_one_scale_and_sum_to_the_whole() -> None:
    found = timeline.stages(Session("en", {}), ATTEMPT, T0 + 99 * SECOND)
    labels = ["waiting · quota", "waiting · capacity", "starting", "running", "releasing"]
    assert [stage.label for stage in found] == labels
    assert sum(stage.total for stage in found) == 14 * SECOND
    bars = [timeline.bar(stage, T0, T0 + 14 * SECOND) for stage in found]
    assert all(len(bar) == timeline.WIDTH for bar in bars)
    assert bars[3].count("█") > 30
    assert bars[0].startswith("░")
    assert bars[4].endswith("█")


def test_a_stage_however_short_is_seen() -> None:
    stage = timeline.Stage("x", False, [(T0 + SECOND, T0 + SECOND + 1)])
    assert timeline.bar(stage, T0, T0 + 10**12).count("█") == 1


def test_time_before_any_reason_was_noted_is_waiting_too() -> None:
    attempt = {**ATTEMPT, "waits": [], "tiles": []}
    found = timeline.stages(Session("en", {}), attempt, T0)
    assert [(stage.label, stage.total) for stage in found] == [("waiting", 2 * SECOND)]


def test_an_open_wait_ends_now() -> None:
    found = timeline.stages(Session("en", {}), WAITING["attempts"][0], T0 + 7 * SECOND)
    assert [(stage.label, stage.total) for stage in found] == [("waiting · quota", 7 * SECOND)]


def test_an_open_wait_without_a_slice_is_named_by_the_binding_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = {**WAITING, "attempts": [{**WAITING["attempts"][0], "waits": []}]}
    assert any(line.startswith("  waiting · quota  ░") for line in shown(view, capsys))


def test_an_attempt_of_which_nothing_is_known_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    timeline.draw(Session("en", {}), {"times": {}, "waits": [], "tiles": []}, T0)
    assert capsys.readouterr().out == ""


@pytest.mark.requirement("F12")
def test_a_failed_one_says_what_its_verdict_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert installed().run("show", "wl_2") == 0
    shown = capsys.readouterr().out
    assert "Evidence (rule application.exit-code, catalogue 1-abc):" in shown
    assert "exit_code = 3 (mb_1)" in shown
    assert "Also possible: environment/network-unreachable (line.network)" in shown
    assert "Trying again does not help before this is put right." in shown


def test_what_is_over_is_explained_by_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"decision": "finished", "reasons": [], "position": None, "ahead": [], "wakes_on": [],
              "last_evaluated_at": None, "approximate": False, "policy_version": None,
              "verdict": FAILED["verdict"]}  # fmt: skip
    fake = installed().on("GET /v1/workloads/wl_2/explanation", answer)
    assert fake.run("explain", "wl_2") == 0
    said = capsys.readouterr().out
    assert "The program ended by itself with exit code 3." in said
    assert "Evidence (rule application.exit-code, catalogue 1-abc):" in said


def test_it_is_told_on_which_model_it_runs_with_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        {"model": "A100", "flavor": "a100", "speed": 1000, "runs": 5, "room": 1, "given": 1},
        {"model": "V100", "flavor": "v100", "speed": 400, "runs": 9, "room": 3, "given": 1},
    ]
    models = {"basis": "learned", "taken": "V100", "assigned": True, "options": options}
    answer = {"decision": "running", "reasons": [], "verdict": None, "models": models}
    fake = installed().on("GET /v1/workloads/wl_2/explanation", answer)
    assert fake.run("explain", "wl_2") == 0
    said = capsys.readouterr().out
    assert "It took model V100: what was free was assigned so that most gets done." in said
    assert re.search(r"V100 +v100 +0\.400 +9 finished runs +3 +1", said)


def test_each_of_several_attempts_says_why_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    second = {**ATTEMPT, "id": "at_2", "number": 2, "outcome": "succeeded", "verdict": None}
    view = {**FAILED, "outcome": "succeeded", "verdict": None, "attempts": [ATTEMPT, second]}
    lines = shown(view, capsys)
    assert lines[lines.index("Attempt 1: failed · sim [simulated]") + 1] == (
        "  The program ended by itself with exit code 3."
    )
