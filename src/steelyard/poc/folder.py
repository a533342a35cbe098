"""The folder of a trial: evidence as JSON files, made once, and where each came from."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from steelyard.model.errors import ConflictError, UnavailableError

_encode = msgspec.json.Encoder(order="sorted").encode


class Folder:
    """A new or empty folder.

    Raises ConflictError `poc-folder-used`, UnavailableError `poc-folder-unusable`.
    """

    def __init__(self, out: Path) -> None:
        self.path = out.absolute()
        try:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise ConflictError("poc-folder-used", path=str(self.path))
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(
                "poc-folder-unusable", path=str(self.path), reason=error.strerror or ""
            ) from None

    def write(self, name: str, value: Any) -> str:
        """Writes a value as JSON; the name of its file, from the folder on."""
        data = msgspec.json.format(_encode(value), indent=1) + b"\n"
        self.write_bytes(name, data)
        return name

    def append(self, name: str, value: Any) -> None:
        """Adds a line of JSON."""
        path = self.path / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(_encode(value) + b"\n")

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file below the folder."""
        path = self.path / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(data)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file."""
        found = sorted(path for path in self.path.rglob("*") if path.is_file())
        return {
            path.relative_to(self.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in found
        }
