"""What is wrong is said with what was given, what may stand there, and why."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard import bootstrap
from steelyard.cli import failure
from steelyard.client import ApiError
from steelyard.locale import LANGUAGES, text
from tests.service.cli.fake import Fake, installed


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_wrong_value_is_repeated_beside_the_allowed_ones(
    lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed().run("list", "--phase", "queud", lang=lang) == 2
    told = capsys.readouterr().err
    assert "queud" in told
    assert "held | queued | reserved" in told


@pytest.mark.parametrize("content", ["", "\nsecond line\n"])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_password_file_without_a_password_is_named(
    lang: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "password"
    path.write_text(content)
    server = Fake()
    assert server.run("login", "ann", "--password-file", str(path), lang=lang) == 1
    told = capsys.readouterr().err
    assert str(path) in told
    assert "[password-missing]" in told
    assert server.seen == []  # nothing is tried with it


def test_a_password_that_never_came_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert Fake().run("login", "ann") == 1
    assert capsys.readouterr().err == "Error: No password was given. [password-missing]\n"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_there_is_nothing_to_say_of_is_left_out(lang: str) -> None:
    whole: dict[str, Any] = {"cluster": "here", "mode": "uid", "enforced": "files"}
    for code in ("isolation-enforced", "isolation-none", "isolation-unavailable"):
        short = text(f"doctor.{code}", {**whole, "missing": None, "reasons": None}, lang)
        assert not set("-–[]") & set(short)
        long = text(f"doctor.{code}", {**whole, "missing": "network", "reasons": "bwrap: why"}, lang)
        assert long.rstrip("。.").endswith("bwrap: why")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_why_nothing_runs_beside_a_simulated_member_is_said(lang: str) -> None:
    told = text("exec-not-supported", {"cluster": "sim"}, lang)
    assert {"en": "sim is simulated", "zh": "sim 是模拟集群"}[lang] in told
    assert failure.status_of(ApiError(503, {"code": "exec-not-supported"})) == failure.FAILED
    assert "sim" not in text("exec-not-supported", {"reason": "runner-protocol"}, lang)


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True),
     ("192.0.2.7", True), ("gpu-1.example", True)],
)  # fmt: skip
def test_an_address_that_others_reach_is_warned_of(
    host: str, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "first_start", lambda store: None)
    bootstrap._say_welcome(SimpleNamespace(store=None), host, 7580, "en")  # type: ignore[arg-type]
    told = capsys.readouterr()
    assert "7580" in told.out
    assert ("not encrypted" in told.err) is warned
