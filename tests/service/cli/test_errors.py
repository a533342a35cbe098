"""What goes wrong: one clear sentence with its code on standard error, and an exit status that says which."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.service.cli.fake import PRIORITY_REASON, REASON, installed


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "field-missing", 1),
        (401, "credential-invalid", 1),
        (403, "forbidden", 1),
        (404, "not-found", 4),
        (409, "workload-finished", 1),
        (422, "refused", 3),
        (500, "internal-error", 1),
        (503, "database-busy", 5),
    ],
)
def test_the_exit_status_tells_what_kind_of_error_it_was(
    status: int, code: str, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed().problem("GET /v1/workloads/wl_1", status, code)
    assert fake.run("show", "wl_1") == expected
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.rstrip().endswith(f"[{code}]")


def test_a_refusal_gives_every_reason_and_where_it_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = [REASON, PRIORITY_REASON]
    fake = installed().problem("POST /v1/workloads", 422, "refused", reasons=reasons, refusal="rf_9")
    assert fake.run("submit", "a", "-n", "lab", "--", "true", lang="zh") == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("错误：")
    assert lines[1].startswith("  - 等待配额：项目 alpha")
    assert len(lines) == 4
    assert "rf_9" in lines[3]


def test_a_wrong_document_whose_refusal_is_recorded_is_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed().problem("POST /v1/workloads", 400, "field-missing", refusal="rf_9")
    assert fake.run("submit", "a", "-n", "lab", "--", "true") == 3
    assert "rf_9" in capsys.readouterr().err


def test_everything_that_is_wrong_in_a_document_is_told_the_first_as_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = [
        {"pointer": "/spec/queue", "code": "field-unknown", "params": {"path": "spec.queue"}},
        {"pointer": "/spec/roles", "code": "field-missing", "params": {"path": "spec.roles\x1b[2J"}},
    ]
    first_of = {"params": wrong[0]["params"], "errors": wrong, "refusal": "rf_9"}
    fake = installed().problem("POST /v1/workloads", 400, "field-unknown", **first_of)
    assert fake.run("submit", "a", "-n", "lab", "--", "true") == 3
    first, second, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("[field-unknown]")
    assert second.startswith("  - ")
    assert second.endswith("[field-missing]")
    assert "spec.roles" in second
    assert "\x1b" not in second
    assert len(rest) == 1


def test_a_code_of_a_newer_server_is_told_in_the_server_s_words(capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed().problem("GET /v1/doctor", 409, "brand-new-code", detail="A new rule says no.")
    assert fake.run("doctor") == 1
    assert capsys.readouterr().err == "Error: A new rule says no. [brand-new-code]\n"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_server_that_does_not_answer_says_how_to_start_one(
    lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed().on("GET /v1/workloads", httpx.ConnectError("Connection refused"))
    assert fake.run("list", lang=lang) == 5
    error = capsys.readouterr().err
    assert "`steelyard up`" in error
    assert "[server-not-reachable]" in error


def test_an_address_that_is_none_is_not_reachable(capsys: pytest.CaptureFixture[str]) -> None:
    assert installed().run("list", "--url", "nonsense") == 5
    assert "[server-address-invalid]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("lst", "no-such-command"),
        ("audit vrify", "no-such-command"),
        ("list --fooo", "no-such-option"),
        ("--fooo list", "no-such-option"),
        ("list --limit many", "argument-invalid"),
        ("list --project", "option-misused"),
        ("show", "argument-missing"),
        ("show a b", "argument-unexpected"),
        ("list -o xml", "output-unknown"),
        ("list --lang de", "argument-invalid"),
        ("get nonsense", "argument-invalid"),
        ("submit", "argument-missing"),
        ("submit a -- true", "argument-missing"),
        ("submit a -n lab", "argument-missing"),
        ("submit a -n lab -e FOO -- true", "argument-invalid"),
        ("submit a -f x.yaml", "argument-conflict"),
        ("usage --from yesterday", "argument-invalid"),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_wrong_use_is_status_2_in_the_reader_s_language(
    line: str, code: str, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed()
    assert fake.run(*line.split(), lang=lang) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith({"en": "Error: ", "zh": "错误："}[lang])
    assert f"[{code}]" in captured.err
    assert captured.out == ""
    assert fake.seen == []


def test_a_misspelt_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    installed().run("lits")
    assert "Did you mean list?" in capsys.readouterr().err


def test_a_broken_file_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("kind: Team\nkind: Team\n", encoding="utf-8")
    fake = installed()
    assert fake.run("apply", "-f", str(path)) == 1
    error = capsys.readouterr().err
    assert f"{path}, line 2: the key kind is there twice" in error
    assert fake.seen == []


def test_an_empty_file_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n", encoding="utf-8")
    assert installed().run("apply", "-f", str(tmp_path / "a.yaml")) == 1
    assert "[documents-none]" in capsys.readouterr().err


def test_a_broken_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ".config" / "steelyard"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("url = [", encoding="utf-8")
    assert installed().run("list", HOME=str(tmp_path), STEELYARD_LANG="") == 1
    assert "[config-invalid]" in capsys.readouterr().err


def test_an_argument_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed()
    assert fake.run("show", "a\udcff") == 2
    assert "[argument-invalid]" in capsys.readouterr().err
    assert fake.seen == []


def test_control_characters_of_others_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\x1b]0;owned\x07\x9b31m\u202egnp"
    fake = installed().problem("GET /v1/doctor", 409, "brand-new", detail=evil)
    fake.run("doctor")
    shown = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07\\x9b31m\\u202egnp" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
