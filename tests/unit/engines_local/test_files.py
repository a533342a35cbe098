"""Notes that are whole or absent, and folders removed whatever a stranger made of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.engines.local import files
from steelyard.engines.local.paths import Layout, is_id


def test_a_note_is_replaced_whole_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = str(tmp_path / "note.json")
    files.write_json(path, {"a": 1})
    files.write_json(path, {"a": 2})
    assert files.read_json(path) == {"a": 2}
    assert os.listdir(tmp_path) == ["note.json"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_note_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "claim.json")
    assert files.note_newly(path, {"a": 1}) is True
    assert files.note_newly(path, {"a": 2}) is False
    assert files.read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["claim.json"]


def test_a_half_written_file_of_a_dead_process_is_no_hindrance(tmp_path: Path) -> None:
    path = str(tmp_path / "note.json")
    (tmp_path / f"note.json.{os.getpid()}.tmp").write_text("{")
    files.write_json(path, {"a": 1})
    assert files.read_json(path) == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\0\0\0\0", "{\"a\": "])
def test_a_torn_note_is_no_note(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.json").write_text(text)
    assert files.read_json(str(tmp_path / "note.json")) is None


def test_a_link_or_a_pipe_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe.json")
    assert files.read_json(str(tmp_path / "link.json")) is None
    assert files.read_json(str(tmp_path / "pipe.json")) is None
    assert files.read_json(str(tmp_path / "none.json")) is None


def test_a_tree_is_removed_without_following_its_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "up").symlink_to(outside)
    (tree / "a" / "b" / "file").write_text("x")
    os.mkfifo(tree / "pipe")
    (tree / "a" / "b").chmod(0)
    tree.chmod(0)
    assert files.remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "kept").exists()


def test_depth_costs_neither_recursion_nor_open_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    here = os.open(tree, os.O_RDONLY)
    for _ in range(3000):  # far beyond the longest path, and beyond what recursion bears
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert files.remove_tree(str(tree))
    assert not tree.exists()


def test_a_link_in_a_folders_place_is_removed_alone(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert files.remove_tree(str(tmp_path / "link"))
    assert not os.path.lexists(tmp_path / "link")
    assert (tmp_path / "real").is_dir()
    assert files.remove_tree(str(tmp_path / "never"))


@pytest.mark.parametrize(
    "text", ["", ".", "..", "../x", "a/b", "a.b", "a\0", "-a", "x" * 65, "a\n", "ä", None, 7]
)
def test_only_plain_ids_become_paths(text: object) -> None:
    assert not is_id(text)


def test_a_path_is_never_made_of_another_text() -> None:
    layout = Layout("/data")
    assert layout.member_log("mb_1") == "/data/local/logs/mb_1.log"
    for make in (layout.claim, layout.notes, layout.member_log, layout.attempt_work):
        with pytest.raises(ValueError, match="not an id"):
            make("../x")


def test_a_hint_to_the_file_system_leaves_a_folder_as_it_is_and_a_link_alone(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    for name in ("folder", "link", "none"):
        files.spread(str(tmp_path / name))
    (folder / "below").mkdir()
    assert os.listdir(folder) == ["below"]
    assert not (tmp_path / "none").exists()


def test_a_folder_is_empty_only_if_it_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert [files.is_empty_folder(str(tmp_path / name)) for name in ("folder", "link", "none")] == [
        True, False, False,
    ]  # fmt: skip
    (folder / "inner").mkdir()
    assert not files.is_empty_folder(str(folder))


def test_a_note_that_could_not_be_written_whole_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: object) -> int:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space"):
        files.note_newly(str(tmp_path / "note.json"), {"a": 1})
    assert os.listdir(tmp_path) == []
