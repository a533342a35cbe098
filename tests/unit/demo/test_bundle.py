"""Unpacking: only plain files with plain names are taken."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from steelyard.demo.bundle import unpack
from steelyard.model.errors import InvalidError


def archive(*entries: tuple[str, bytes | None, bytes]) -> bytes:
    """Entries of (name, content or None, type)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content, kind in entries:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.linkname = "/etc/passwd"
            entry.size = len(content or b"")
            tar.addfile(entry, io.BytesIO(content or b""))
    return buffer.getvalue()


def test_files_are_written_below_the_folder(tmp_path: Path) -> None:
    data = archive(
        ("audit", None, tarfile.DIRTYPE),
        ("audit/a.json", b"1", tarfile.REGTYPE),
        ("./b", b"22", tarfile.REGTYPE),
    )
    assert unpack(data, tmp_path / "bundle") == 2
    assert (tmp_path / "bundle" / "audit" / "a.json").read_bytes() == b"1"
    assert (tmp_path / "bundle" / "b").read_bytes() == b"22"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", tarfile.REGTYPE),
        ("/etc/absolute", tarfile.REGTYPE),
        ("a/../../outside", tarfile.REGTYPE),
        ("link", tarfile.SYMTYPE),
        ("hard", tarfile.LNKTYPE),
        ("device", tarfile.CHRTYPE),
    ],
)
def test_anything_else_is_refused_and_nothing_lies_outside(tmp_path: Path, name: str, kind: bytes) -> None:
    with pytest.raises(InvalidError) as caught:
        unpack(archive((name, b"x", kind)), tmp_path / "bundle")
    assert caught.value.code == "bundle-path"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    data = archive(("a", b"1", tarfile.REGTYPE), ("a", b"2", tarfile.REGTYPE))
    with pytest.raises(FileExistsError):
        unpack(data, tmp_path / "bundle")
