"""YAML files of declared documents, read strictly (`model.yaml_text`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from steelyard.model.errors import InvalidError
from steelyard.model.yaml_text import MAX_BYTES, load_documents

__all__ = ["load_documents", "read_documents"]


def read_documents(path: str) -> list[dict[str, Any]]:
    """The documents of a file; `-` is standard input. Raises InvalidError with the file and the line."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidError("file-unreadable", path=path, reason=error.strerror or str(error)) from None
    return load_documents(data, path)
