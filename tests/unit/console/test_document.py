"""A workload's document made of what is stored means the same; the lines of its fields are found."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import msgspec
import pytest
import yaml

from steelyard.console.document import document_of, duration, line_of
from steelyard.console.starts import KINDS, start
from steelyard.model.units import parse_duration
from steelyard.model.workloads import Role, WorkloadSpec
from steelyard.services.workload_document import parse_workload

MODEL, DATA = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
PLAIN = {"name": "main", "command": ["true"], "requests": {"cpu": "500m"}}
SPECS: list[dict[str, Any]] = [
    {
        "kind": "training",
        "queue": "main",
        "priorityClass": "high",
        "timeLimit": "1h30m",
        "grace": "2500ms",
        "checkpoint": "30s",
        "topology": {"required": "zone", "preferred": "rack"},
        "throughput": {"A100": "120", "V100": "48.5"},
        "restart": "never",
        "maxAttempts": 7,
        "hold": True,
        "preemptible": False,
        "artifacts": ["out", "log.txt"],
        "workFolder": {"sizeLimit": "3Gi"},
        "roles": [
            {
                "name": "worker",
                "count": 4,
                "min": 2,
                "grow": True,
                "command": ["sh", "-c", "echo 'a: b' # \u4f60\u597d\n"],
                "env": {"A": "1", "B": "yes", "C": "null"},
                "image": "registry/image:1",
                "pull": "missing",
                "workingDirectory": "src",
                "port": True,
                "tty": True,
                "probe": {"path": "/health", "interval": "1500ms", "failures": 9},
                "requires": ["python:numpy"],
                "expect": {"run": "1s", "exit": "3"},
                "requests": {"cpu": "1500m", "memory": "513Mi", "gpu": "250m"},
                "flavors": ["a100"],
                "models": ["A100"],
                "clusters": ["sim"],
                "nodeLabels": {"zone": "a"},
                "needs": {"framework": "jax"},
            },
            {**PLAIN, "name": "reader", "venv": "/opt/venv", "count": 2, "min": 1, "shrink": False},
        ],
    },
    {
        "kind": "inference",
        "replicas": {"initial": 1, "guaranteed": 2, "max": 3, "lend": True},
        "roles": [PLAIN],
    },
    {"kind": "inference", "preemptible": True, "roles": [PLAIN]},
    {"kind": "batch", "array": {"completions": 9, "parallelism": 2}, "roles": [PLAIN]},
    {"kind": "experiment", "idleLimit": {"after": "30m", "cpu": "100m", "device": 20}, "roles": [PLAIN]},
    {
        "kind": "evaluation",
        "evaluation": {
            "model": {"name": "m", "digest": MODEL},
            "dataset": {"name": "d", "digest": DATA},
            "result": "score.json",
        },
        "roles": [PLAIN],
    },
]


def parsed(spec: dict[str, Any]) -> WorkloadSpec:
    metadata = {"name": "w", "namespace": "n", "labels": {"team": "a"}}
    return parse_workload({"kind": "Workload", "metadata": metadata, "spec": spec}, lambda *_: None)


def written(spec: WorkloadSpec) -> str:
    stored = msgspec.json.decode(msgspec.json.encode(spec))
    return document_of({"name": spec.name, "namespace": spec.namespace, "spec": stored})


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_a_document_that_was_written_means_what_was_stored(spec: dict[str, Any]) -> None:
    before = parsed(spec)
    again = parse_workload(yaml.safe_load(written(before)), lambda *_: None)
    assert again == before


def test_the_documents_above_set_every_field_there_is() -> None:
    """A field that is added to the nouns fails here until the document says it, too."""
    specs = [parsed(spec) for spec in SPECS]
    roles = [role for spec in specs for role in spec.roles]

    def unset(kind: Any, records: list[Any]) -> set[str]:
        defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING}
        return {
            name for name, value in defaults.items() if all(getattr(one, name) == value for one in records)
        }

    assert unset(WorkloadSpec, specs) == {"template"}  # expanded already
    assert unset(Role, roles) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_to_begin_with_is_a_document(kind: str) -> None:
    assert parse_workload(yaml.safe_load(start(kind, "n")), lambda *_: None).kind == kind


@pytest.mark.parametrize("micros", [1_000, 1_500_000, 90_000_000, 5_400_000_000, 90_061_001_000])
def test_a_span_is_read_back(micros: int) -> None:
    assert parse_duration(duration(micros)) == micros


@pytest.mark.parametrize(
    ("path", "line"),
    [("kind", 1), ("metadata.name", 2), ("spec.roles[1].requests.cpu", 6), ("spec.roles[1].nothing", 6),
     ("nothing", None), ("", None)],
)  # fmt: skip
def test_the_line_of_a_field_is_that_of_the_innermost_part_that_is_there(path: str, line: int | None) -> None:
    text = "kind: Workload\nmetadata: {name: x}\nspec:\n  roles:\n  - name: a\n  - {requests: {cpu: 1}}\n"
    assert line_of(text, path) == line


def test_what_is_no_document_has_no_lines() -> None:
    assert line_of("a: [", "a") is None
