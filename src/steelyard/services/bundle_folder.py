"""The files of a bundle on disk while it is made: what is large is written piece by piece, never held whole.

A mapping from a file's path to its bytes, for whoever wants one of them; the folder is gone with the object.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from steelyard.evidence.bundle import FileContent

Pieces = bytes | Iterable[bytes]


class BundleFolder(Mapping[str, bytes]):
    """Files by path. `beside`: the folder in which the temporary one is made (None: the system's)."""

    def __init__(self, beside: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=".bundle-", dir=beside)
        self._known: dict[str, tuple[Path, str, int]] = {}

    def put(self, files: Mapping[str, Pieces]) -> None:
        """Write files, in order; each is digested as it is written."""
        for path, content in files.items():
            pieces = [content] if isinstance(content, bytes) else content
            self._known[path] = self._write(pieces)

    def _write(self, pieces: Iterable[bytes]) -> tuple[Path, str, int]:
        place = Path(self._folder.name) / str(len(self._known))
        digest, size = sha256(), 0
        with place.open("wb") as out:
            for piece in pieces:
                out.write(piece)
                digest.update(piece)
                size += len(piece)
        return place, digest.hexdigest(), size

    def described(self) -> dict[str, FileContent]:
        """path → (hex SHA-256, size), as a manifest is made of it."""
        return {path: (digest, size) for path, (_, digest, size) in self._known.items()}

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._known[path][2]

    def open(self, path: str) -> BinaryIO:
        """A file, for reading."""
        return self._known[path][0].open("rb")

    def __getitem__(self, path: str) -> bytes:
        return self._known[path][0].read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
