"""A real, small inference service: answers with the model that `train_numpy.py` has trained.

Listens on 127.0.0.1 at STEELYARD_PORT. `GET /healthz` says whether it is ready, `GET /predict?x=&y=` and
`POST /predict` with `{"points": [[x, y], …]}` answer with classes and probabilities. Ends on SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_BODY = 1 << 20
MAX_POINTS = 10_000


class Model:
    """The weights, read once."""

    def __init__(self, path: Path) -> None:
        found = path / "model.npz" if path.is_dir() else path
        with np.load(found, allow_pickle=False) as stored:
            self._weights: dict[str, Array] = {name: stored[name] for name in ("w1", "b1", "w2", "b2")}

    def predict(self, points: list[list[float]]) -> dict[str, Any]:
        """Class and probabilities of each point."""
        w = self._weights
        hidden = np.tanh(np.asarray(points, dtype=np.float64) @ w["w1"] + w["b1"])
        scores = hidden @ w["w2"] + w["b2"]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance = scores / scores.sum(axis=1, keepdims=True)
        return {"classes": chance.argmax(axis=1).tolist(), "probabilities": chance.round(6).tolist()}


class Handler(BaseHTTPRequestHandler):
    """One request. The model is set on the class before the server starts."""

    model: Model
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Health, or one point in the query."""
        parts = urlsplit(self.path)
        if parts.path == "/healthz":
            self._answer(200, {"status": "ok"})
        elif parts.path == "/predict":
            query = parse_qs(parts.query)
            self._predict([[query.get("x", [""])[0], query.get("y", [""])[0]]])
        else:
            self._answer(404, {"error": "not found"})

    def do_POST(self) -> None:
        """Many points in the body."""
        try:
            length = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY or urlsplit(self.path).path != "/predict":
            self.close_connection = True
            self._answer(404 if length >= 0 else 400, {"error": "not found"})
            return
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            body = None
        self._predict(body.get("points") if isinstance(body, dict) else None)

    def _predict(self, raw: Any) -> None:
        points = read_points(raw)
        if points is None:
            self._answer(400, {"error": "points: a list of [x, y]"})
        else:
            self._answer(200, self.model.predict(points))

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """One line a request, to standard output."""
        print(f"{self.command} {self.path[:200]!r} {args[1] if len(args) > 1 else ''}", flush=True)


def read_points(raw: Any) -> list[list[float]] | None:
    """The points, None when they are not a list of pairs of finite numbers."""
    if not isinstance(raw, list) or not 0 < len(raw) <= MAX_POINTS:
        return None
    try:
        points = [[float(x), float(y)] for x, y in raw]
    except (TypeError, ValueError):
        return None
    return points if all(math.isfinite(value) for point in points for value in point) else None


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Serve a trained model over HTTP.")
    parser.add_argument("--model", type=Path, default=Path(os.environ.get("MODEL", "model.npz")))
    parser.add_argument("--port", type=int, default=int(os.environ.get("STEELYARD_PORT", "0")))
    options = parser.parse_args()
    Handler.model = Model(options.model)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True

    def stop(_signal: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    print(f"serving {options.model} on 127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    print("stopped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
