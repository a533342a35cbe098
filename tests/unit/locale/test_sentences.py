"""Sentences of errors, reasons and verdicts."""

from __future__ import annotations

import msgspec
import pytest

from steelyard.locale import error_text, pointer_text, problem_title, reason_text, text, verdict_text, word
from steelyard.model.failures import Pointer, Verdict
from steelyard.model.reasons import Holder, Reason, ReasonCode

QUOTA = Reason(
    ReasonCode.WAITING_FOR_QUOTA, "quota", "project", "project/alpha", "gpu", None, 4000, 3000, 2000, 1000,
    (Holder("workload", "wl_1", 1000, "train-a", "alpha", since=1_767_225_600_000_000),),
    ("workload-released", "limit-changed"), params={"tree": "organisation"},
)  # fmt: skip


def test_a_quota_reason_says_the_numbers_the_holders_and_what_wakes_it() -> None:
    assert reason_text(QUOTA, "en") == (
        "Waits for quota: project alpha may use 4 GPU, 3 is in use, 2 is asked for, 1 is missing. "
        "Held by train-a (1, project alpha, since 2026-01-01 00:00:00 UTC). "
        "It is looked at again when a workload gives back what it holds or a limit is changed."
    )


def test_the_same_reason_in_chinese() -> None:
    shown = reason_text(QUOTA, "zh")
    assert shown.startswith("等待配额：项目 alpha 可用 4 个 GPU，已用 3，申请 2，还差 1。占用者：train-a（1")
    assert " It " not in shown


def test_a_reason_read_from_json_gives_the_same_sentence() -> None:
    assert reason_text(msgspec.to_builtins(QUOTA), "zh") == reason_text(QUOTA, "zh")


def test_holders_of_other_projects_have_an_amount_and_no_name() -> None:
    hidden = Reason(
        "waiting-for-capacity", "placement", "flavor", "a100", "gpu", "a100", 8000, 8000, 1000, 1000,
        (Holder("workload", "", 1000),),
    )  # fmt: skip
    assert "work of other projects (1)" in reason_text(hidden, "en")


def test_many_holders_are_counted_not_listed() -> None:
    holders = tuple(Holder("workload", f"wl_{n}", 1000, f"w{n}") for n in range(9))
    shown = reason_text(Reason("waiting-for-capacity", "placement", resource="gpu", holders=holders), "en")
    assert "w4 (1)" in shown
    assert "w5 (1)" not in shown
    assert "4 more" in shown


@pytest.mark.parametrize("per", ["node", "cluster"])
def test_never_fits_says_whether_a_node_or_the_whole_cluster_is_too_small(per: str) -> None:
    reason = Reason(
        "exceeds-capacity", "placement", "flavor", "a100", "gpu", "a100", 8000, 0, 9000, 1000,
        params={"per": per},
    )  # fmt: skip
    assert ("one node" in reason_text(reason, "en")) is (per == "node")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("code", list(ReasonCode))
def test_a_reason_of_which_nothing_is_known_still_reads(code: str, lang: str) -> None:
    shown = reason_text(Reason(code, "quota"), lang)
    assert shown
    assert "{" not in shown
    assert "[[" not in shown


def test_an_invalid_request_names_its_error() -> None:
    reason = Reason("invalid-request", "submit", params={"error": "field-missing", "path": "spec.roles"})
    assert reason_text(reason, "en") == "The request is not valid: spec.roles is missing."


def test_a_reason_of_a_newer_server_is_shown_by_its_code() -> None:
    assert reason_text({"code": "brand-new", "stage": "quota", "params": {}}, "en") == "brand-new"


def test_a_verdict_says_what_happened_whose_it_is_and_what_to_do() -> None:
    pointers = (Pointer("counter", "exit_code", 3, "mb_1"),)
    verdict = Verdict(
        "application", "exit-code", "business", "submitter", "look-at-log", pointers, "certain",
        params={"exit": 3},
    )  # fmt: skip
    assert verdict_text(verdict, "en") == (
        "The program ended by itself with exit code 3. Stage: the program itself; cause: the program "
        "(certain); to be looked at by the submitter. Look at its log with `steelyard logs`."
    )
    assert verdict_text(msgspec.to_builtins(verdict), "zh").startswith("程序自行退出，退出码 3。")


def test_a_verdict_repeats_what_the_engine_said() -> None:
    verdict = Verdict(
        "environment", "module-missing", "environment", "submitter", "supplement-environment",
        (Pointer("counter", "failure_text", "no module torch=2", "mb_1"),), "high",
    )  # fmt: skip
    assert "It said: no module torch=2." in verdict_text(verdict, "en")


def test_a_verdict_says_where_it_rests_on_the_programs_own_words() -> None:
    line = Pointer("line", "log", "ModuleNotFoundError: No module named 'x'", "mb_1", 120, 40, "00" * 32)
    verdict = Verdict(
        "environment", "module-missing", "environment", "submitter", "supplement-environment", (line,),
        "medium",
    )  # fmt: skip
    assert "what the program printed itself: “ModuleNotFoundError" in verdict_text(verdict, "en")
    assert "依据为程序自身的输出" in verdict_text(verdict, "zh")
    assert pointer_text(line, "en") == (
        "log of mb_1, bytes 120 to 160: ModuleNotFoundError: No module named 'x'"
    )


def test_an_unknown_failure_code_is_shown() -> None:
    verdict = Verdict("launch", "weird", "unknown", "platform", "look-at-log", (), "low")
    assert verdict_text(verdict, "en").startswith("It failed with weird.")


def test_an_error_with_reasons_gives_all_of_them() -> None:
    shown = error_text("refused", {}, "en", [QUOTA, Reason("no-queue", "quota", "queue", "main")])
    assert shown.startswith("The request was refused. Waits for quota:")
    assert "There is no queue main that" in shown


def test_an_error_without_a_text_is_still_told_apart() -> None:
    assert text("never-heard-of", {"a": 1}) == "never-heard-of (a=1)"


def test_titles_are_by_status_and_never_missing() -> None:
    assert problem_title(404, "zh") == "未找到"
    assert problem_title(418, "en") == "The request failed"


def test_a_word_that_is_not_known_is_itself() -> None:
    assert word("phase", "queued", "zh") == "排队中"
    assert word("phase", "dreaming", "zh") == "dreaming"
    assert word("phase", None, "zh") == "–"


def test_holders_that_are_no_workloads_say_what_they_are() -> None:
    holders = (Holder("project", "project/a", 2000),)
    reason = Reason("over-limit", "quota", "project", "project/a", "gpu", holders=holders)
    assert "Held by project a (2)." in reason_text(reason, "en")
    assert "占用者：项目 a（2）。" in reason_text(reason, "zh")
