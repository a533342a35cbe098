"""A file that says it is a backup and was made by a stranger: refused by a sentence, at little cost."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import InvalidError
from steelyard.services import backup_file
from steelyard.services.backup_file import ENVELOPE, MANIFEST, open_backup, verify

LEAF, COLUMNS = "rows/leaf.jsonl", ["seq", "hash", "body"]


def manifest(rows: bytes) -> bytes:
    entry = {
        "path": LEAF, "size": len(rows), "sha256": sha256(rows).hexdigest(), "rows": rows.count(b"\n"),
        "columns": COLUMNS,
    }  # fmt: skip
    log = {"size": 0, "root": sha256(b"").hexdigest(), "epoch": 1}
    return json.dumps({
        "v": 1, "format": "steelyard-backup", "version": "1", "install_id": "in_x", "taken_at": 1,
        "database": "sqlite", "revision": "m0001", "folder": "/", "log": log, "files": [entry],
    }).encode()  # fmt: skip


@contextmanager
def making(path: Path, rows: bytes = b"", method: int = zipfile.ZIP_DEFLATED) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(LEAF, rows)
        archive.writestr(MANIFEST, manifest(rows))
        yield archive


def refused(path: Path) -> str:
    with pytest.raises(InvalidError) as caught, open_backup(path) as archive:
        verify(archive)
    return caught.value.code


@pytest.mark.parametrize("row", ['[0,null,null]', '[0,"a","a"]', '[0,{},[]]', '[0,"é","é"]'])
def test_a_leaf_that_is_no_text_of_bytes(tmp_path: Path, row: str) -> None:
    with making(tmp_path / "x", row.encode() + b"\n"):
        pass
    assert refused(tmp_path / "x") == "backup-log-differs"


def test_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "_MOST_LINE", 1000)
    with making(tmp_path / "x", b" " * 1001):
        pass
    assert refused(tmp_path / "x") == "backup-malformed"


def test_a_signature_that_is_larger_than_any(tmp_path: Path) -> None:
    with making(tmp_path / "x") as archive, archive.open(ENVELOPE, "w", force_zip64=True) as file:
        for _ in range(33):
            file.write(b" " * (1 << 20))
    assert refused(tmp_path / "x") == "backup-malformed"


def test_bytes_that_are_not_what_was_packed(tmp_path: Path) -> None:
    with making(tmp_path / "x", b"[0]" * 5000):
        pass
    data = bytearray((tmp_path / "x").read_bytes())
    begin = data.index(LEAF.encode()) + len(LEAF) + 1
    data[begin : begin + 8] = bytes(one ^ 0xFF for one in data[begin : begin + 8])
    (tmp_path / "x").write_bytes(data)
    assert refused(tmp_path / "x") == "backup-malformed"


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_what_is_packed_in_another_way(tmp_path: Path, method: int) -> None:
    with making(tmp_path / "x", method=method):
        pass
    assert refused(tmp_path / "x") == "backup-malformed"


def test_what_is_encrypted(tmp_path: Path) -> None:
    with making(tmp_path / "x"):
        pass
    data: Any = bytearray((tmp_path / "x").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(mark, at + 4)
    (tmp_path / "x").write_bytes(data)
    assert refused(tmp_path / "x") == "backup-malformed"
