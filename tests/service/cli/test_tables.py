"""Tables that people read: limits, and why something failed."""

from __future__ import annotations

import pytest

from tests.service.cli.fake import FAILED, LIMIT, OLD, QUEUE, installed, page

NOTHING = dict.fromkeys(("nominal", "borrowing_limit", "lending_limit", "available", "potential"))
MEMORY = {**LIMIT, **NOTHING, "subject": "flavor/ram", "class": "memory", "hard": None, "used": 65_536}
PROJECT = {**QUEUE, "name": "alpha", "node": "project/alpha", "kind": "project"}
HARD = {**LIMIT, "nominal": 0, "class": "gpu", "hard": 6000, "used": 2000, "on_exceed": "refuse"}


def test_a_flavor_is_counted_in_the_unit_of_its_class_and_shown_without_a_limit_only_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = installed().on("GET /v1/queues", [{**QUEUE, "limits": [LIMIT, MEMORY]}])
    assert fake.run("queues") == 0
    assert "flavor/ram" not in capsys.readouterr().out
    assert fake.run("queues", "--all") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "flavor/ram" in line)
    assert line.split() == ["flavor/ram", "–", "64", "GiB", "–", "–", "–", "–"]


@pytest.mark.parametrize(
    ("lang", "head", "beyond"), [("en", "HARD LIMIT", "is refused"), ("zh", "硬上限", "拒绝")]
)
def test_a_quota_shows_its_hard_limit_and_what_is_beyond_it(
    lang: str, head: str, beyond: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed().on("GET /v1/quotas", [{**PROJECT, "limits": [HARD]}])
    assert fake.run("quotas", lang=lang) == 0
    first, line = capsys.readouterr().out.splitlines()
    assert head in first
    assert "NOMINAL" not in first
    assert line.endswith(beyond)
    assert line.removesuffix(beyond).split()[-4:] == ["gpu", "6", "2", "0"]


def test_the_list_says_of_what_failed_why(capsys: pytest.CaptureFixture[str]) -> None:
    row = {**OLD, "verdict": FAILED["verdict"]}
    fake = installed().on("GET /v1/workloads", page(row))
    assert fake.run("list") == 0
    assert capsys.readouterr().out.rstrip().endswith("The program ended by itself with exit code 3.")


@pytest.mark.parametrize(
    ("line", "option", "allowed"),
    [
        ("list --phase bogus", "--phase", "held | queued"),
        ("list --outcome bogus", "--outcome", "succeeded | failed"),
        ("list --kind bogus", "--kind", "training | inference"),
        ("inventory --class bogus", "--class", "gpu | npu"),
        ("submit a -n lab --kind bogus -- true", "--kind", "training | inference"),
    ],
)
def test_a_value_out_of_a_closed_list_is_told_with_the_option_and_the_list(
    line: str, option: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed()
    assert fake.run(*line.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {option} is not valid (bogus): ")
    assert allowed in error
    assert fake.seen == []
