"""The parts of a workload document that only some kinds have: replicas, array, idle limit, evaluation."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from steelyard.model.units import DAY, SECOND
from steelyard.model.workloads import Array, Evaluation, IdleLimit, Replicas, Topology, WorkloadKind
from steelyard.services.model_speeds import read_throughput
from steelyard.services.reading import DocumentReader, check_label_key

MAX_REPLICAS = 100
MAX_COMPLETIONS = 100_000
MAX_PARALLELISM = 1_000
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IDLE = IdleLimit(0)
_WORKLOAD = re.compile(r"wl_[0-9a-z]{13}")
#: Which kinds may have the part.
_OF = {
    "replicas": frozenset({WorkloadKind.INFERENCE}),
    "array": frozenset(WorkloadKind) - {WorkloadKind.INFERENCE},
    "idleLimit": frozenset({WorkloadKind.EXPERIMENT}),
    "evaluation": frozenset({WorkloadKind.EVALUATION}),
}


def read(r: DocumentReader, kind: WorkloadKind) -> dict[str, Any]:
    """The fields of `WorkloadSpec`. Raises InvalidError for a part that the kind does not have."""
    for key, kinds in _OF.items():
        if r.has(key) and kind not in kinds and not r.is_wrong("kind"):
            expected = "kind " + " | ".join(sorted(one.value for one in kinds))
            r.wrong("field-invalid", r.at(key), expected=expected)
    return {
        "replicas": _replicas(r.reader("replicas")) if r.has("replicas") else None,
        "array": _array(r.reader("array")) if r.has("array") else None,
        "idle_limit": _idle(r.reader("idleLimit")) if r.has("idleLimit") else None,
        "evaluation": _evaluation(r.reader("evaluation")) if r.has("evaluation") else None,
        "topology": _topology(r.reader("topology")) if r.has("topology") else None,
        "throughput": read_throughput(r.reader("throughput")) if r.has("throughput") else (),
    }


def _topology(r: DocumentReader) -> Topology | None:
    """Keys of node labels; an empty block says nothing."""
    found = Topology(_level(r, "required"), _level(r, "preferred"))
    r.finish()
    return None if found == Topology() else found


def _level(r: DocumentReader, key: str) -> str | None:
    if not r.has(key):
        return None
    return r.attempt("", lambda: check_label_key(r.take(key), r.at(key)))


def _replicas(r: DocumentReader) -> Replicas:
    initial = r.integer("initial", 1, low=1, high=MAX_REPLICAS)
    guaranteed = r.integer("guaranteed", 0, low=0, high=MAX_REPLICAS)
    most = r.integer("max", max(initial, guaranteed), low=1, high=MAX_REPLICAS)
    if most < max(initial, guaranteed):
        r.wrong("field-out-of-bounds", r.at("max"), low=max(initial, guaranteed), high=MAX_REPLICAS)
    found = Replicas(initial, guaranteed, most, r.flag("lend"))
    r.finish()
    return found


def _array(r: DocumentReader) -> Array:
    if not r.has("completions"):
        r.wrong("field-missing", r.at("completions"))
    completions = r.integer("completions", 1, low=1, high=MAX_COMPLETIONS)
    most = min(completions, MAX_PARALLELISM)
    found = Array(completions, r.integer("parallelism", most, low=1, high=MAX_PARALLELISM))
    r.finish()
    return found


def _idle(r: DocumentReader) -> IdleLimit:
    after = r.span("after", None, longest=30 * DAY)
    if after is None:
        r.wrong("field-missing", r.at("after"))
    elif after < SECOND:
        r.wrong("span-out-of-bounds", r.at("after"), low=SECOND, high=30 * DAY)
    cpu = r.amount("cpu", "cpu", _IDLE.cpu)
    device = r.integer("device", _IDLE.device, low=0, high=1000)
    r.finish()
    return IdleLimit(after or 0, cpu, device)


def _evaluation(r: DocumentReader) -> Evaluation:
    model, data = r.reader("model"), r.reader("dataset")
    workload = model.optional_text("workload", limit=16)
    if workload is not None and not _WORKLOAD.fullmatch(workload):
        model.wrong("field-invalid", model.at("workload"), expected="wl_…")
    result = r.text("result", "result.json", limit=1024)
    pure = PurePosixPath(result)
    if pure.is_absolute() or ".." in pure.parts or str(pure) == ".":
        r.wrong("path-outside", r.at("result"), value=result[:60])
    found = Evaluation(
        model.text("name", limit=253),
        _digest(model),
        workload,
        data.text("name", limit=253),
        _digest(data),
        str(pure),
    )
    for inner in (model, data, r):
        inner.finish()
    return found


def _digest(r: DocumentReader) -> str | None:
    text = r.optional_text("digest", limit=71)
    if text is not None and not _DIGEST.fullmatch(text):
        r.wrong("field-invalid", r.at("digest"), expected="sha256:HEX")
    return text
