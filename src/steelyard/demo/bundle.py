"""The exported bundle: unpacked without trust in its names, verified by its own verifier, another process."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.demo.expect import Json
from steelyard.model.errors import InvalidError

MAX_BYTES = 512 * 1024 * 1024
_VERIFY_SECONDS = 120


def unpack(archive: bytes, folder: Path) -> int:
    """Writes the archive's files below the folder and gives their number.

    Only plain files with plain relative names are taken; anything else is an InvalidError `bundle-path`
    and nothing more is written.
    """
    count = written = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for entry in tar:
            path = PurePosixPath(entry.name)
            if entry.isdir():
                continue
            parts = [part for part in path.parts if part != "."]
            written += entry.size
            sound = entry.isreg() and parts and not path.is_absolute() and ".." not in parts
            if not sound or written > MAX_BYTES:
                raise InvalidError("bundle-path", path=entry.name[:200])
            source = tar.extractfile(entry)
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(source.read() if source is not None else b"")
            count += 1
    return count


def verify(folder: Path, python: str, key: str | None, anchor: str | None = None) -> Json:
    """What the bundle's own verifier says: exit status, its words in both languages, its JSON answer."""
    command = [python, "-I", str(folder / "verify" / "verify.py"), str(folder)]
    command += ["--key", key] if key else []
    command += ["--anchor", anchor] if anchor else []
    texts = {lang: _run([*command, "--lang", lang]) for lang in ("en", "zh")}
    answer = _run([*command, "--json"])
    try:
        report: Any = json.loads(answer.stdout)
    except ValueError:
        report = {}
    return {
        "command": command[1:],
        "exit": answer.returncode,
        "report": report,
        "text": {lang: done.stdout + done.stderr for lang, done in texts.items()},
    }


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_VERIFY_SECONDS,
        check=False,
        env={},
    )


def read_rows(path: Path) -> list[Json]:
    """The objects of a JSON-lines file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
