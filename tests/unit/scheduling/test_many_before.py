"""What would start one behind many equal ones: told for as long as each of them can be given its own."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from steelyard.model.workloads import Shape
from steelyard.scheduling import Snapshot
from steelyard.scheduling.remedies import RemedyKind
from steelyard.scheduling.smallest import MAX_RAISES, smallest
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    group,
    item,
    node,
    nominal,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

ONE = request(gpu=1000, cpu=1000)
LAST = 1_000  # the one that is asked about


def behind(equals: int) -> tuple[Snapshot, Shape]:
    """The quota is in use, and so many equal ones came before."""
    base = started(
        snapshot([node(1, gpus=64)], queues=queue_tree(nominal("q", "gpu", 1000, 0))),
        group(shape("run", ONE), item(1)),
    )
    wanted = shape("s", ONE)
    waits = group(wanted, *(item(number) for number in range(2, 2 + equals)), item(LAST))
    return replace(base, pending=(waits,)), wanted


def raises(equals: int) -> list[int]:
    """By how much a limit would have to be raised; empty where nothing is told."""
    base, wanted = behind(equals)
    told = smallest(base, POLICY, NOW, wanted, item(LAST))
    return [each.by for one in told if one.kind is RemedyKind.RAISE_LIMIT for each in one.raises]


@pytest.mark.parametrize("equals", [0, 1, MAX_RAISES - 1])
def test_a_raise_gives_each_that_came_before_its_own(equals: int) -> None:
    assert raises(equals) == [1000 * (equals + 1)]


@pytest.mark.parametrize("equals", [MAX_RAISES - 1, MAX_RAISES, MAX_RAISES + 1, 40])
def test_nothing_is_lost_where_too_many_came_before(monkeypatch: pytest.MonkeyPatch, equals: int) -> None:
    shortened = raises(equals)
    module = importlib.import_module("steelyard.scheduling.smallest")
    monkeypatch.setattr(module, "equals_before", lambda *_: 0)
    assert shortened == raises(equals)
    assert bool(shortened) is (equals < MAX_RAISES)
