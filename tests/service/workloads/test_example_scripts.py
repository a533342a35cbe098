"""The example scripts: a training that goes on where it was stopped, a service that answers with a model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PYTHON = [sys.executable, "-u"]


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1", **more}


def train(folder: Path, *given: str, **more: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    env = environment(STEELYARD_ARTIFACTS=str(folder / "artifacts"), **more)
    command = [*PYTHON, str(EXAMPLES / "train_numpy.py"), *given]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.requirement("D4")
def test_a_training_that_was_stopped_ends_with_the_same_model(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    command = [*PYTHON, str(EXAMPLES / "train_numpy.py"), "--steps", "200", "--seconds", "20"]
    running = subprocess.Popen(
        [*command, "--checkpoint-every", "5"], cwd=first, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    while "step 5 " not in running.stdout.readline():
        assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 143
    resumed = train(tmp_path / "second", "--steps", "200", STEELYARD_RESUME_DIR=str(first))
    whole = train(tmp_path / "whole", "--steps", "200")
    assert (resumed.returncode, whole.returncode) == (0, 0), resumed.stderr + whole.stderr
    assert resumed.stdout.startswith("resumed at step ")
    models = [(tmp_path / name / "artifacts" / "model.npz").read_bytes() for name in ("second", "whole")]
    assert models[0] == models[1]


def test_a_training_learns_and_a_service_answers_with_its_model(tmp_path: Path) -> None:
    assert train(tmp_path, "--steps", "500").returncode == 0
    figures = json.loads((tmp_path / "artifacts" / "metrics.json").read_text())
    assert figures["accuracy"] > 0.95
    command = [*PYTHON, str(EXAMPLES / "serve_model.py"), "--model", str(tmp_path / "artifacts")]
    serving = subprocess.Popen(
        command, env=environment(STEELYARD_PORT="0"), stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert serving.stdout is not None
        base = "http://" + serving.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{base}/healthz", timeout=10) as answer:
            assert json.load(answer) == {"status": "ok"}
        body = json.dumps({"points": [[0.9, 0.1], [-0.4, 0.2]]}).encode()
        with urllib.request.urlopen(f"{base}/predict", body, timeout=10) as answer:
            said = json.load(answer)
        assert len(said["classes"]) == 2
        assert all(abs(sum(row) - 1) < 1e-3 for row in said["probabilities"])
        for path in ("/predict?x=nan&y=1", "/nowhere"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(base + path, timeout=10)
    finally:
        serving.terminate()
        assert serving.wait(20) == 0
