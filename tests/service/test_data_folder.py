"""A data folder is used by one server at a time, and never beside the one that it is a copy of."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from steelyard.data_folder import HOME_FILE, locked
from steelyard.model.errors import UnavailableError


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "a"),
        pytest.raises(UnavailableError, match="data-folder-in-use"),
        locked(tmp_path / "a"),
    ):
        pass


def test_a_copy_is_refused_while_its_original_is_in_use(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with locked(first):
        shutil.copytree(first, second)
        with pytest.raises(UnavailableError, match="data-folder-copied") as told, locked(second):
            pass
        assert told.value.params == {"path": str(second), "original": str(first)}
    with locked(second):
        assert (second / HOME_FILE).read_text().strip() == str(second)
        with pytest.raises(UnavailableError, match="data-folder-copied"), locked(first):
            pass
    with locked(first), pytest.raises(UnavailableError, match="data-folder-copied"), locked(second):
        pass


def test_a_moved_folder_goes_on(tmp_path: Path) -> None:
    with locked(tmp_path / "old"):
        pass
    (tmp_path / "old").rename(tmp_path / "new")
    with locked(tmp_path / "new"):
        pass


def test_another_way_to_the_same_folder_is_no_copy(tmp_path: Path) -> None:
    with locked(tmp_path / "real"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with locked(tmp_path / "link"):
        pass
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"", b"relative/path", b"/nowhere/at/all", b"\x00", b"/a\n/b"])
def test_a_note_that_says_nothing_keeps_nobody_out(tmp_path: Path, content: bytes) -> None:
    with locked(tmp_path):
        pass
    (tmp_path / HOME_FILE).write_bytes(content)
    with locked(tmp_path):
        assert (tmp_path / HOME_FILE).read_text().strip() == str(tmp_path)
