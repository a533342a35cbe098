"""A real, small training: a two-layer network learns to tell the arms of a spiral apart.

Needs numpy and nothing else. It writes `checkpoint.npz` into its working folder every few steps and on
SIGTERM, goes on from the checkpoint of the attempt before (STEELYARD_RESUME_DIR) where there is one, and
leaves `model.npz` and `metrics.json` in STEELYARD_ARTIFACTS. The same seed gives the same model, whether
it was interrupted or not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ARMS = 3
POINTS = 200
HIDDEN = 32
CHECKPOINT = "checkpoint.npz"
EXIT_TERMINATED = 143


def spiral(seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Points in the plane and the arm each belongs to."""
    source = np.random.default_rng(seed)
    radius = np.tile(np.linspace(0.05, 1.0, POINTS), ARMS)
    arm = np.repeat(np.arange(ARMS), POINTS)
    angle = arm * 2 * np.pi / ARMS + radius * 4.0 + source.normal(0, 0.12, ARMS * POINTS)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), arm


def fresh(seed: int) -> dict[str, Array]:
    """Weights before the first step."""
    source = np.random.default_rng(seed + 1)
    return {
        "w1": source.normal(0, 0.6, (2, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": source.normal(0, 0.3, (HIDDEN, ARMS)),
        "b2": np.zeros(ARMS),
    }


def forward(weights: dict[str, Array], points: Array) -> tuple[Array, Array]:
    """Hidden activations and class probabilities."""
    hidden = np.tanh(points @ weights["w1"] + weights["b1"])
    scores = hidden @ weights["w2"] + weights["b2"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def step(weights: dict[str, Array], points: Array, arms: NDArray[np.int64], rate: float) -> float:
    """One step of gradient descent over all points; returns the loss before it."""
    hidden, chance = forward(weights, points)
    rows = np.arange(len(arms))
    loss = float(-np.log(chance[rows, arms] + 1e-12).mean())
    slope = chance.copy()
    slope[rows, arms] -= 1
    slope /= len(arms)
    back = (slope @ weights["w2"].T) * (1 - hidden**2)
    for name, change in (
        ("w2", hidden.T @ slope),
        ("b2", slope.sum(axis=0)),
        ("w1", points.T @ back),
        ("b1", back.sum(axis=0)),
    ):
        weights[name] -= rate * change
    return loss


def accuracy(weights: dict[str, Array], points: Array, arms: NDArray[np.int64]) -> float:
    """The part of points told right."""
    return float((forward(weights, points)[1].argmax(axis=1) == arms).mean())


def save(path: Path, **values: Any) -> None:
    """Written beside and renamed, so that a kill leaves the old file or the new one, never a half."""
    beside = path.with_suffix(".tmp")
    with beside.open("wb") as file:
        np.savez(file, **values)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(folder: Path) -> tuple[int, dict[str, Array]] | None:
    """The step after which a checkpoint was written, and its weights."""
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as stored:
        return int(stored["step"]), {name: stored[name] for name in ("w1", "b1", "w2", "b2")}


def resume() -> tuple[int, dict[str, Array]] | None:
    """From this attempt's own folder, else from the one of the attempt before."""
    before = os.environ.get("STEELYARD_RESUME_DIR")
    return load(Path.cwd()) or (load(Path(before)) if before else None)


class Stop:
    """Set by SIGTERM, looked at between steps."""

    asked = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """What can be chosen."""
    parser = argparse.ArgumentParser(description="Train a small classifier with numpy.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=0.0, help="spread the steps over this time")
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args(given)


def train(options: argparse.Namespace, stop: Stop) -> int:
    """The exit status: 0 when all steps are done."""
    points, arms = spiral(options.seed)
    known = resume()
    done, weights = known or (0, fresh(options.seed))
    print(f"resumed at step {done}" if known else "started anew", flush=True)
    pace = options.seconds / max(1, options.steps)
    began, first = time.monotonic(), done
    while done < options.steps:
        loss = step(weights, points, arms, options.rate)
        done += 1
        if done % options.checkpoint_every == 0:
            save(Path.cwd() / CHECKPOINT, step=done, **weights)
            print(f"step {done} loss {loss:.4f} accuracy {accuracy(weights, points, arms):.3f}", flush=True)
        if stop.asked:
            save(Path.cwd() / CHECKPOINT, step=done, **weights)
            print(f"stopped at step {done}, checkpoint written", flush=True)
            return EXIT_TERMINATED
        time.sleep(max(0.0, began + pace * (done - first) - time.monotonic()))
    finish(options, weights, accuracy(weights, points, arms), first)
    return 0


def finish(options: argparse.Namespace, weights: dict[str, Array], reached: float, first: int) -> None:
    """Leave the model and its figures where results are kept."""
    folder = Path(os.environ.get("STEELYARD_ARTIFACTS") or "artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "model.npz", **weights)
    figures = {
        "steps": options.steps,
        "accuracy": round(reached, 4),
        "resumed_at": first,
        "seed": options.seed,
    }
    (folder / "metrics.json").write_text(json.dumps(figures, sort_keys=True) + "\n", encoding="utf-8")
    print(f"done: {json.dumps(figures, sort_keys=True)}", flush=True)


def main() -> int:
    """Run from the command line."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    return train(arguments(sys.argv[1:]), stop)


if __name__ == "__main__":
    sys.exit(main())
