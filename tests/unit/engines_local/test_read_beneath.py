"""A result is read as it stands below its folder: no link is followed, nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.engines.local.files import read_beneath


def test_the_first_bytes_of_a_plain_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "r.json").write_bytes(b"x" * 100)
    assert read_beneath(str(tmp_path), ["sub", "r.json"], 10) == b"x" * 10
    assert read_beneath(str(tmp_path), ["sub", "r.json"], 1000) == b"x" * 100


def test_links_and_pipes_and_ways_out_are_not_results(tmp_path: Path) -> None:
    top = tmp_path / "artifacts"
    top.mkdir()
    (tmp_path / "secret").write_text("secret")
    (top / "link").symlink_to(tmp_path / "secret")
    (top / "folder").symlink_to(tmp_path)
    os.mkfifo(top / "pipe")
    assert read_beneath(str(top), ["pipe"], 10) is None
    assert read_beneath(str(top), ["..", "secret"], 10) is None
    for parts in (["link"], ["folder", "secret"], ["none"]):
        with pytest.raises(OSError, match=r".*"):
            read_beneath(str(top), parts, 10)
