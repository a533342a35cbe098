"""An evaluation keeps model, data, resources and result in one record, whatever its program left."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.port import Engine
from steelyard.services.evaluations import MAX_RESULT, judge_result
from steelyard.services.log_check import check_log
from steelyard.store.database import sqlite_url
from tests.support.house import House

DIGEST = "sha256:" + "a" * 64


class Leaving:
    """A simulated engine whose members leave this as their result."""

    def __init__(self, engine: Engine, result: bytes | None) -> None:
        self._engine, self.result = engine, result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def read_artifact(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        return None if self.result is None else self.result[:limit]


@pytest.fixture
def leaves() -> list[bytes | None]:
    return [b'{"accuracy": 0.93}']


@pytest.fixture
def house(tmp_path: Path, leaves: list[bytes | None]) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, wrap=lambda engine: Leaving(engine, leaves[0]))  # type: ignore[arg-type,return-value]
    yield made
    made.close()


def evaluate(house: House, model: str | None = None) -> str:
    asked: dict[str, Any] = {
        "model": {"name": "detector", "digest": DIGEST, **({"workload": model} if model else {})},
        "dataset": {"name": "street"}, "result": "out/result.json",
    }  # fmt: skip
    return house.submit("eval", kind="evaluation", evaluation=asked)


@pytest.mark.requirement("D7")
def test_model_data_resources_and_result_are_one_record_linked_both_ways(house: House) -> None:
    model = house.submit("train")
    house.run_dry()
    workload = evaluate(house, model)
    house.run_dry()
    found = house.show(workload)["evaluation"]
    assert (found["model"]["workload"], found["model"]["digest"]) == (model, DIGEST)
    assert found["dataset"] == {"name": "street", "digest": None}
    assert int(found["resources"]["gpu"]) > 0
    assert found["result"]["value"] == {"accuracy": 0.93}
    assert found["result"]["sha256"] == sha256(b'{"accuracy": 0.93}').hexdigest()
    assert house.show(model)["evaluations"] == [{"id": workload, "name": "eval"}]
    with house.store.read() as view:
        assert all(check.ok for check in check_log(view))


@pytest.mark.parametrize("left", [None])
def test_a_result_that_is_not_there_is_said_to_be_missing(
    house: House, leaves: list[bytes | None], left: bytes | None
) -> None:
    for engine in house.engines.values():
        engine.result = left  # type: ignore[attr-defined]
    workload = evaluate(house)
    house.run_dry()
    result = house.show(workload)["evaluation"]["result"]
    assert (result["state"], result["sha256"], result["value"]) == ("missing", None, None)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"{}", "recorded"), (b"[1]", "invalid"), (b"{", "invalid"), (b"\xff\xfe", "invalid"),
        (b"", "invalid"), (b"x" * (MAX_RESULT + 1), "too-large"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "invalid"),
        (b'{"a": NaN}', "invalid"), (b"[" * 60_000, "invalid"),
    ],
)  # fmt: skip
def test_whatever_a_program_leaves_is_judged_and_never_fails_its_end(data: bytes, state: str) -> None:
    assert judge_result(data)[0] == state
