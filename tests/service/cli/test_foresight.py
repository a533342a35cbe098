"""Questions about what would be: what is sent, what is shown, what is wrong on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.cli.fake import installed
from tests.service.cli.fake_foresight import REPLAYED, WHAT_IF

QUEUE = "kind: Queue\nmetadata: {name: main}\nspec: {owner: platform}\n"
JOB = (
    "kind: Workload\nmetadata: {name: j, namespace: lab}\n"
    "spec: {kind: batch, roles: [{name: main, command: ['true'], requests: {cpu: 1}}]}\n"
)


def test_changes_are_sent_rules_first_and_work_last(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{JOB}---\n{QUEUE}")
    fake = installed()
    assert fake.run(
        "what-if", "-f", str(file), "--copies", "3", "--limit", "queue/main gpu=8", "--end", "wl_2",
        "--add-devices", "a100=4", "--cordon", "n-0",
    ) == 0  # fmt: skip
    changes = fake.body()["changes"]
    assert [next(iter(change)) for change in changes] == [
        "documents", "limit", "add_devices", "cordon", "end", "submit",
    ]  # fmt: skip
    assert changes[1]["limit"] == {"node": "queue/main", "subject": "gpu", "value": "8"}
    assert changes[-1]["submit"]["copies"] == 3


def test_what_would_be_refused_is_status_3() -> None:
    refused = {**WHAT_IF["submitted"][0], "would": "refuse", "placement": None}
    fake = installed().on("POST /v1/what-if", {**WHAT_IF, "submitted": [refused]})
    assert fake.run("what-if", "--cordon", "n-0") == 3


LOWERED = {
    "tree": "queue", "node": "main", "subject": "gpu", "limit": 2000, "used": 6000, "over": 4000,
    "effect": "Drain", "leaving_count": 1, "stays": 2000, "within_at": None,
    "leaving": [{"id": "wl_7", "name": "train-7", "project": "alpha", "queue": "main", "priority": 0,
                 "quantity": 2000, "at": 1_767_225_600_000_000}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("lang", "pieces"),
    [
        ("en", ["main would be above its limit on gpu: 6 GPU used, 2 GPU allowed", "2 GPU stay above",
                "from 2026-01-01 00:00:00 UTC on: train-7 (wl_7) of main, 2 GPU"]),
        ("zh", ["main 将超出 gpu 的限额", "仍有 2 个 GPU 超出限额",
                "被要求停止：队列 main 的 train-7（wl_7）"]),
    ],
)  # fmt: skip
def test_who_leaves_for_a_lowered_limit_and_when_is_told(
    lang: str, pieces: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fake = installed().on("POST /v1/what-if", {**WHAT_IF, "lowered": [LOWERED]})
    assert fake.run("--lang", lang, "what-if", "--limit", "queue/main:gpu=2") == 0
    printed = capsys.readouterr().out
    assert [piece for piece in pieces if piece not in printed] == [], printed


@pytest.mark.parametrize(
    "line", ["", "--limit gpu=8", "--limit main:gpu=8", "--limit queue/main:8", "--add-devices a100"]
)
def test_what_is_wrong_in_a_question_is_said_before_it_is_sent(line: str) -> None:
    fake = installed()
    assert fake.run("what-if", *line.split()) not in (0, 3)
    assert fake.seen == []


@pytest.mark.parametrize(
    ("lang", "pieces"),
    [
        ("en", ["1 would have started later", "1 would not have started", "for train-1", "2 GPU over",
                "4 of 4 recorded starts", "devices come and go as they did"]),
        ("zh", ["1 个会更晚启动", "1 个在窗口内不会启动", "让位于 train-1", "超出 2 个 GPU", "按记录重演"]),
    ],
)  # fmt: skip
def test_a_window_under_other_documents_is_told(
    tmp_path: Path, lang: str, pieces: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(QUEUE)
    assert installed().run("policy", "preview", "-f", str(file), "--since", "2026-01-01", lang=lang) == 0
    shown = capsys.readouterr().out
    assert [piece for piece in pieces if piece not in shown] == []


def test_a_window_is_replayed_step_by_step_and_a_difference_is_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = {"id": "cy_9", "count": 1, "differences": [{"part": "placements"}]}
    last = {**REPLAYED, "same": 6, "different": 1, "first": first}
    fake = installed().on("POST /v1/cycles:replay", {**REPLAYED, "next_cursor": "cy_7"}, last)
    assert fake.run("replay", "--since", "2026-01-01") == 1
    captured = capsys.readouterr()
    assert "14 cycles decided again, 13 the same, 1 different" in captured.out
    assert "cy_9" in captured.out
    assert "8 of 8 cycles" in captured.err


def test_a_replay_needs_a_cycle_or_a_window_and_not_both() -> None:
    assert installed().run("replay") != 0
    assert installed().run("replay", "cy_1", "--since", "1h") != 0
