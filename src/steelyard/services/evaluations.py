"""Evaluations: model, data, resources and result of one workload in one record.

The result is a JSON object that the program left among its artifacts. It is hostile: at most `MAX_RESULT`
bytes are read, it has to be an object, and only its digest stands in the log.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Scope
from steelyard.model.units import wide_to_json
from steelyard.model.workloads import Evaluation
from steelyard.store import tables as t
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit

Json = dict[str, Any]
MAX_RESULT = 64 * 1024
MAX_DEPTH = 32
RECORDED, MISSING, TOO_LARGE, INVALID = "recorded", "missing", "too-large", "invalid"


def judge_result(data: bytes | None) -> tuple[str, str | None]:
    """(state, the object as compact JSON text) of a result as it was read: `MAX_RESULT` + 1 bytes at most."""
    if data is None:
        return MISSING, None
    if len(data) > MAX_RESULT:
        return TOO_LARGE, None
    try:
        found = msgspec.json.decode(data)
        if not isinstance(found, dict) or _depth(found) > MAX_DEPTH:
            return INVALID, None
        return RECORDED, msgspec.json.encode(found, order="deterministic").decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return INVALID, None


def _depth(value: object) -> int:
    level, deep = [value], 0
    while level and deep <= MAX_DEPTH:
        deep += 1
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return deep


def record_evaluation(
    unit: Unit, workload_id: int, attempt_id: int, asked: Evaluation, data: bytes | None, now: int
) -> Json:
    """Adds the row of an evaluation that has ended; what its leaf says of it."""
    state, text = judge_result(data)
    digest = None if data is None or state == TOO_LARGE else sha256(data).hexdigest()
    unit.upsert(
        t.evaluation, ("workload_id",), workload_id=workload_id, attempt_id=attempt_id,
        model_workload=_number(asked.model_workload), state=state, digest=digest,
        bytes=None if data is None or state == TOO_LARGE else len(data), result_json=text, recorded_at=now,
    )  # fmt: skip
    return {
        "model": {"name": asked.model, "digest": asked.model_digest, "workload": asked.model_workload},
        "dataset": {"name": asked.dataset, "digest": asked.dataset_digest},
        "result": {"path": asked.result, "state": state, "sha256": digest},
    }


def _number(workload: str | None) -> int | None:
    try:
        return None if workload is None else parse("workload", workload)
    except InvalidError:
        return None


def evaluation_view(view: View, scope: Scope, row: Record, asked: Json | None) -> Json | None:
    """The record for the workload's page; `result` is None until it has ended."""
    if asked is None:
        return None
    found = repository.evaluation_of(view, row["id"])
    number = _number(asked["model_workload"])
    known = {} if number is None else repository.names_of(view, scope, [number])
    result = None
    if found is not None:
        value = None if found["result_json"] is None else msgspec.json.decode(found["result_json"])
        result = {
            "path": asked["result"], "state": found["state"], "sha256": found["digest"],
            "bytes": found["bytes"], "recorded_at": found["recorded_at"], "value": value,
        }  # fmt: skip
    return {
        "model": {
            "name": asked["model"], "digest": asked["model_digest"],
            "workload": asked["model_workload"] if number in known else None,
            "workload_name": known[number]["name"] if number in known else None,
        },
        "dataset": {"name": asked["dataset"], "digest": asked["dataset_digest"]},
        "resources": _resources(view, row),
        "result": result,
    }  # fmt: skip


def _resources(view: View, row: Record) -> Json:
    """Quantity × µs by class that its attempts held, of what has ended."""
    attempts = [attempt["id"] for attempt in repository.attempts_of(view, row["id"])]
    held: dict[str, int] = {}
    for item in repository.allocations_of(view, attempts):
        if item["t1"] is not None:
            held[item["class"]] = held.get(item["class"], 0) + item["quantity"] * (item["t1"] - item["t0"])
    return {cls: wide_to_json(amount) for cls, amount in sorted(held.items())}


def evaluations_of_model(view: View, scope: Scope, workload_id: int) -> list[Json]:
    """Evaluations of what a workload left, as far as the scope allows: the way back."""
    numbers = repository.evaluations_of_model(view, workload_id)
    named = repository.names_of(view, scope, numbers)
    return [{"id": render("workload", n), "name": named[n]["name"]} for n in numbers if n in named]
