"""What a shim used is the member's that it had all the while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from steelyard.engines.local import looking
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import Sample


def test_what_a_shim_does_for_its_next_member_is_not_the_former_ones(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, ends, follows = ["mb_1", 100, 7, 0], ["mb_2", 200, 8, 0], ["mb_3", 200, 8, 50]
    answers = [[stays, ends], [stays, follows]]

    def ask(_op: str, **_fields: Any) -> Any:
        return answers.pop(0)

    def looked(running: Iterable[Sequence[Any]], at: int) -> tuple[Sample, ...]:
        return tuple(Sample(one[0], at, 1, 1, None) for one in running)

    monkeypatch.setattr(engine._link, "ask", ask)
    monkeypatch.setattr(looking, "sample", looked)
    try:
        assert [one.member_id for one in engine.sample()] == ["mb_1"]
    finally:
        monkeypatch.undo()
