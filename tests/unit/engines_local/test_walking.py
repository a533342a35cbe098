"""A folder whose content a stranger chose: what is found is in it, whatever stands in the way."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from steelyard.engines.local import programs, requires, walking
from steelyard.engines.local.archive import MOST_HOLES, Finished, archive, manifest_path
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.walking import Walk


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path))
    os.makedirs(os.path.join(found.member_work("at_1", "mb_1"), "artifacts"))
    return found


def listed(layout: Layout, *declared: str) -> tuple[list[str], bool]:
    archive(layout, Finished("at_1", "mb_1", declared))
    note = json.loads(Path(manifest_path(layout, "at_1", "mb_1")).read_text())
    return [one["path"] for one in note["files"]], note["complete"]


def work(layout: Layout) -> Path:
    return Path(layout.member_work("at_1", "mb_1"))


def test_a_link_in_the_middle_of_a_declared_path_leads_nowhere(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/inner").mkdir(parents=True)
    (tmp_path / "elsewhere/inner/secret").touch()
    (work(layout) / "link").symlink_to(tmp_path / "elsewhere")
    assert listed(layout, "link/inner", "link/inner/secret", "link") == ([], True)


def test_a_link_in_place_of_the_folder_leads_nowhere(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (work(layout) / "artifacts").rmdir()
    (work(layout) / "artifacts").symlink_to(tmp_path)
    assert list(Walk(str(work(layout))).files("artifacts")) == []


@pytest.mark.timeout(30)
def test_nobody_waits_for_a_named_pipe(layout: Layout) -> None:
    os.mkfifo(work(layout) / "pipe")
    os.mkfifo(work(layout) / "artifacts/pipe")
    (work(layout) / "artifacts/plain").touch()
    assert listed(layout, "pipe") == (["artifacts/plain"], True)


def test_a_file_that_is_declared_by_its_path_is_listed(layout: Layout) -> None:
    (work(layout) / "out/inner").mkdir(parents=True)
    (work(layout) / "out/inner/model").touch()
    (work(layout) / "plain").touch()
    assert listed(layout, "out/inner/model", "plain") == (["out/inner/model", "plain"], True)


def test_what_is_too_deep_is_left_out_and_that_is_said(layout: Layout) -> None:
    deep = work(layout) / "artifacts" / "/".join(["d"] * (walking.MOST_DEPTH + 1))
    deep.mkdir(parents=True)
    (deep / "hidden").touch()
    (work(layout) / "artifacts/plain").touch()
    assert listed(layout) == (["artifacts/plain"], False)


def test_a_file_made_of_nothing_is_not_read(layout: Layout) -> None:
    with open(work(layout) / "artifacts/empty", "wb") as file:
        try:
            file.truncate(MOST_HOLES + 1)
        except OSError as failed:
            pytest.skip(f"a file with holes: {failed}")
    (work(layout) / "artifacts/a").touch()
    assert listed(layout) == (["artifacts/a"], False)


def test_a_file_with_two_names_has_one_digest(layout: Layout) -> None:
    (work(layout) / "artifacts/a").write_text("x")
    os.link(work(layout) / "artifacts/a", work(layout) / "artifacts/b")
    archive(layout, Finished("at_1", "mb_1", ()))
    one, two = json.loads(Path(manifest_path(layout, "at_1", "mb_1")).read_text())["files"]
    assert (one["sha256"], one["bytes"]) == (two["sha256"], two["bytes"])


@pytest.mark.timeout(30)
def test_a_named_pipe_is_no_library_and_no_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libx.so")
    assert programs.find_library("libx.so", str(tmp_path)) is None
    assert programs.problem(str(tmp_path / "libx.so")) is None


def test_a_header_that_points_nowhere_is_no_library(tmp_path: Path) -> None:
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 32, (1 << 64) - 1)
    struct.pack_into("<HH", head, 54, 56, 2)
    (tmp_path / "libx.so").write_bytes(head)
    assert programs.find_library("libx.so", str(tmp_path)) is None


def test_a_version_of_too_many_digits_holds_to_no_bound() -> None:
    for version in ("1" * 5000, "1." + "2" * 5000, "1rc" + "3" * 5000, "1!" * 3000):
        assert requires.satisfies(version, (("==", "987654321"),)) is False
