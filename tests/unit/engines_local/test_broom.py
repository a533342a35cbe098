"""Notes of forgotten members are removed when it is quiet, or when there are very many."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from steelyard.engines.local import broom as module
from steelyard.engines.local.broom import Broom
from steelyard.engines.local.paths import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(str(tmp_path))
    made.make()
    for number in range(3):
        os.mkdir(made.notes(f"mb_{number}"))
        Path(made.notes(f"mb_{number}", "lock")).touch()
    return made


def test_nothing_is_removed_while_members_come_and_go(layout: Layout) -> None:
    broom = Broom(layout)
    broom.add("mb_0")
    broom.stirred()
    broom.sweep(idle=True)
    assert len(os.listdir(layout.members)) == 3
    due = broom.due()
    assert due is not None
    assert 0 < due <= module.QUIET
    broom.hurry()
    assert broom.due() == 0.0
    broom.sweep(idle=False)
    assert len(os.listdir(layout.members)) == 3
    broom.sweep(idle=True)
    assert sorted(os.listdir(layout.members)) == ["mb_1", "mb_2"]
    assert broom.due() is None


def test_of_very_many_some_are_removed_all_the_same(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    broom = Broom(layout)
    broom.stirred()
    for number in range(3):
        broom.add(f"mb_{number}")
        broom.sweep(idle=False)
    assert sorted(os.listdir(layout.members)) == ["mb_1", "mb_2"]


def test_notes_whose_shim_still_clears_up_stay(layout: Layout) -> None:
    broom = Broom(layout)
    for number in range(3):
        broom.add(f"mb_{number}")
    with open(layout.notes("mb_1", "lock"), encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        broom.sweep_all()
    assert os.listdir(layout.members) == ["mb_1"]
