"""Submitting: what is sent, what is said, how the exit status tells the outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.cli.fake import FAILED, REASON, WAITING, installed

DONE = {**FAILED, "id": "wl_1", "outcome": "succeeded", "verdict": None}


def test_the_arguments_become_a_document() -> None:
    fake = installed()
    line = (
        "submit train-1 -n lab -k training --gpu 2 --cpu 500m --memory 8Gi --count 2 --flavor a100 "
        "--cluster sim -e A=1 -e B=x=y --image i --port --queue main --priority high --template t@1 "
        "--time-limit 2h --hold "
        "-- python train.py --lr 0.1 -o x"
    )
    assert fake.run(*line.split()) == 0
    assert fake.body() == {
        "kind": "Workload",
        "metadata": {"name": "train-1", "namespace": "lab"},
        "spec": {
            "kind": "training",
            "queue": "main",
            "priorityClass": "high",
            "template": "t@1",
            "timeLimit": "2h",
            "hold": True,
            "roles": [
                {
                    "name": "main",
                    "count": 2,
                    "command": ["python", "train.py", "--lr", "0.1", "-o", "x"],
                    "requests": {"cpu": "500m", "memory": "8Gi", "gpu": "2"},
                    "flavors": ["a100"],
                    "clusters": ["sim"],
                    "image": "i",
                    "port": True,
                    "env": {"A": "1", "B": "x=y"},
                }
            ],
        },
    }


def test_without_requests_a_little_cpu_and_memory_is_asked_for() -> None:
    fake = installed()
    fake.run("submit", "a", "-n", "lab", "--", "true")
    assert fake.body()["spec"]["roles"][0]["requests"] == {"cpu": "1", "memory": "256Mi"}


def test_each_document_of_the_files_is_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.yaml"
    documents = [f"kind: Workload\nmetadata: {{name: {name}}}\n" for name in "ab"]
    path.write_text("---\n".join(documents), encoding="utf-8")
    fake = installed()
    assert fake.run("submit", "-f", str(path), "-o", "json") == 0
    assert [json.loads(request.content)["metadata"]["name"] for request in fake.seen] == ["a", "b"]
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_the_key_is_sent_and_is_for_one_document_only(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("kind: Workload\n---\nkind: Workload\n", encoding="utf-8")
    fake = installed()
    assert fake.run("submit", "a", "-n", "lab", "--key", "mine", "--", "true") == 0
    assert fake.seen[0].headers["Idempotency-Key"] == "mine"
    assert fake.run("submit", "-f", str(path), "--key", "mine") == 2


@pytest.mark.parametrize(("would", "status"), [("start", 0), ("wait", 0), ("refuse", 3)])
def test_a_dry_run_says_what_would_happen(
    would: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"would": would, "reasons": [REASON] if would != "start" else [], "placement": None}
    fake = installed().on("POST /v1/workloads", answer)
    assert fake.run("submit", "a", "-n", "lab", "--dry-run", "--", "true") == status
    shown = capsys.readouterr().out
    assert shown.startswith("a would")
    assert ("project alpha may use 4 GPU" in shown) is (would != "start")
    assert fake.seen[0].url.params["dry_run"] == "true"


@pytest.mark.parametrize(("end", "status"), [(DONE, 0), ({**FAILED, "id": "wl_1"}, 1)])
def test_waiting_ends_with_the_outcome(
    end: dict[str, object], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    running = {**WAITING, "phase": "running", "version": 3}
    fake = installed().on("GET /v1/workloads/wl_1", WAITING, running, end)
    assert fake.run("submit", "train-1", "-n", "lab", "--wait", "--", "true") == status
    captured = capsys.readouterr()
    assert "train-1: queued" in captured.err
    assert "train-1: running" in captured.err
    assert ("✓ succeeded after running 10.0s" in captured.out) is (status == 0)
    assert ("exit code 3" in captured.out) is (status == 1)


def test_waiting_as_json_gives_the_end_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    fake = installed().on("GET /v1/workloads/wl_1", WAITING, DONE)
    assert fake.run("submit", "a", "-n", "lab", "--wait", "-o", "json", "--", "true") == 0
    assert json.loads(capsys.readouterr().out) == DONE
