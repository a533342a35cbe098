"""The demo's folder: replaced when it is ours, left alone when it is anybody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from steelyard.demo import folder
from steelyard.model.errors import ConflictError, UnavailableError


def test_a_new_folder_carries_the_marker(tmp_path: Path) -> None:
    out = folder.prepare(tmp_path / "deep" / "out")
    assert [path.name for path in out.iterdir()] == [folder.MARKER]
    assert folder.is_ours(out)


def test_an_earlier_run_is_replaced_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "precious").write_text("x")
    out = folder.prepare(tmp_path / "out")
    (out / "bundle").mkdir()
    (out / "bundle" / "old").write_text("x")
    (out / "link").symlink_to(kept, target_is_directory=True)
    folder.prepare(out)
    assert [path.name for path in out.iterdir()] == [folder.MARKER]
    assert (kept / "precious").read_text() == "x"


@pytest.mark.parametrize("name", ["notes.txt", folder.MARKER])
def test_a_folder_that_no_run_made_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("somebody's own")
    (tmp_path / "data").mkdir()
    with pytest.raises(ConflictError) as caught:
        folder.prepare(tmp_path)
    assert caught.value.code == "demo-folder-foreign"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "data"])


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real", target_is_directory=True)
    with pytest.raises(ConflictError):
        folder.prepare(tmp_path / "out")


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnavailableError) as caught:
        folder.prepare(tmp_path / "file" / "out")
    assert caught.value.code == "demo-folder-unusable"


def test_what_an_earlier_run_left_running_is_ended_and_nothing_else(tmp_path: Path) -> None:
    out = folder.prepare(tmp_path / "out")
    sleep = [sys.executable, "-c", "import time; time.sleep(60)", "steelyard.cli.main", "up", "--data"]
    ours = subprocess.Popen([*sleep, str(out / "data")])
    other = subprocess.Popen([*sleep, str(out / "data-of-another")])
    try:
        folder.prepare(out)
        assert not psutil.pid_exists(ours.pid)
        assert other.poll() is None
        os.kill(other.pid, 0)
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()
