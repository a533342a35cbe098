"""What members are told of the others is a fresh file in a folder that is theirs, whatever they put there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.engines.local.paths import Layout
from steelyard.engines.local.telling import MEMBERS, tell

ATTEMPT, MEMBER = "at_0b5c2jw000414", "mb_0b5c2jw000415"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A member's work folder."""
    folder = Path(Layout(str(tmp_path)).member_work(ATTEMPT, MEMBER))
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, indexes: list[int]) -> None:
    tell(Layout(str(folder)), ATTEMPT, MEMBER, json.dumps({"main": indexes}))


def test_the_newest_text_stands_alone_in_the_file(home: Path, tmp_path: Path) -> None:
    for indexes in ([0, 1, 2], [0, 1]):
        put(tmp_path, indexes)
        assert json.loads((home / MEMBERS).read_text()) == {"main": indexes}
    assert [one.name for one in home.iterdir()] == [MEMBERS]


def test_a_link_is_replaced_and_not_followed(home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (home / MEMBERS).symlink_to(victim)
    put(tmp_path, [0])
    assert victim.read_text() == "mine"
    assert not (home / MEMBERS).is_symlink()


def test_a_folder_in_the_way_or_no_work_folder_at_all_leaves_nothing(home: Path, tmp_path: Path) -> None:
    (home / MEMBERS).mkdir()
    put(tmp_path, [0])
    assert [one.name for one in home.iterdir()] == [MEMBERS]
    tell(Layout(str(tmp_path)), ATTEMPT, "mb_0b5c2jw000416", "{}")
    tell(Layout(str(tmp_path)), "../..", MEMBER, "{}")
