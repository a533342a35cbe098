"""Documents to begin with: one of each kind of work, in the reader's namespace."""

from __future__ import annotations

from typing import Any

from steelyard.console.document import dump

Json = dict[str, Any]
_STARTS: dict[str, Json] = {
    "batch": {
        "kind": "batch",
        "timeLimit": "10m",
        "roles": [
            {
                "name": "main",
                "command": ["python3", "-c", "print('hello')"],
                "requests": {"cpu": 1, "memory": "256Mi"},
            }
        ],
    },
    "training": {
        "kind": "training",
        "timeLimit": "12h",
        "restart": "on-infrastructure",
        "artifacts": ["checkpoints"],
        "roles": [
            {
                "name": "worker",
                "count": 2,
                "command": ["python3", "train.py", "--epochs", "3"],
                "requests": {"cpu": 8, "memory": "64Gi", "gpu": 1},
            }
        ],
    },
    "inference": {
        "kind": "inference",
        "restart": "on-failure",
        "roles": [
            {
                "name": "server",
                "command": ["python3", "serve.py"],
                "requests": {"cpu": 4, "memory": "16Gi", "gpu": 1},
                "port": True,
                "probe": {"path": "/healthz", "interval": "5s"},
            }
        ],
    },
    "evaluation": {
        "kind": "evaluation",
        "timeLimit": "2h",
        "artifacts": ["result.json"],
        "roles": [
            {
                "name": "main",
                "command": ["python3", "evaluate.py"],
                "requests": {"cpu": 4, "memory": "16Gi", "gpu": 1},
            }
        ],
    },
}
KINDS = tuple(_STARTS)


def start(kind: str, namespace: str) -> str:
    """A document of a kind; the first one for a kind that has none."""
    spec = _STARTS.get(kind, _STARTS[KINDS[0]])
    return dump(
        {"kind": "Workload", "metadata": {"name": f"my-{spec['kind']}", "namespace": namespace}, "spec": spec}
    )


def start_of_template(name: str, namespace: str) -> str:
    """A document that takes everything from a declared template."""
    metadata = {"name": f"my-{name}"[:63], "namespace": namespace}
    return dump({"kind": "Workload", "metadata": metadata, "spec": {"template": name}})
