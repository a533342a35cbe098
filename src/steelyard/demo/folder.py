"""The folder that the story writes into: made anew each time, never at the cost of somebody else's files."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil

from steelyard.model.errors import ConflictError, UnavailableError

MARKER = ".steelyard-demo"
_MARK = "Made by `steelyard demo`, which replaces everything in this folder.\n"
_PATIENCE = 15.0
#: What runs on a data folder: the server, and the supervisor of local work, which outlives it.
_OURS = ("steelyard.cli.main", "steelyard.engines.local.runner", "steelyard.engines.local")


def prepare(out: Path) -> Path:
    """The folder, empty but for its marker. What an earlier run left running in it is ended first.

    Raises ConflictError `demo-folder-foreign` where there is something that no earlier run made, and
    UnavailableError `demo-folder-unusable` where it can't be written.
    """
    out = out.absolute()
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise ConflictError("demo-folder-foreign", path=str(out))
        if out.is_dir() and any(out.iterdir()):
            if not is_ours(out):
                raise ConflictError("demo-folder-foreign", path=str(out))
            end_processes(out / "data")
            _empty(out)
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        (out / MARKER).write_text(_MARK, encoding="utf-8")
    except OSError as error:
        raise UnavailableError("demo-folder-unusable", path=str(out), reason=str(error)) from error
    return out


def is_ours(out: Path) -> bool:
    """Whether an earlier run made the folder."""
    marker = out / MARKER
    return marker.is_file() and not marker.is_symlink() and marker.read_text(encoding="utf-8") == _MARK


def _empty(out: Path) -> None:
    """Removes what is in it; a link is removed, not followed. The marker goes last, so that a run that was
    interrupted here can be followed by another."""
    for entry in sorted(out.iterdir(), key=lambda path: path.name == MARKER):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def end_processes(data: Path) -> None:
    """Ends, by their ids, the processes of ours that were started on exactly this data folder (the local
    engine's supervisor works in `local/` below it)."""
    found = [process for process in psutil.process_iter(["cmdline"]) if _is_on(process, data)]
    for process in found:
        with suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=_PATIENCE)
    for process in alive:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=_PATIENCE)


def _is_on(process: psutil.Process, data: Path) -> bool:
    arguments = process.info.get("cmdline") or []
    if process.pid == os.getpid() or not any(argument in _OURS for argument in arguments):
        return False
    named = [after for before, after in pairwise(arguments) if before == "--data"]
    place = data.absolute()
    return any(Path(os.path.abspath(name)) in (place, place / "local") for name in named)


def write_private(path: Path, text: str) -> None:
    """A new file that only its owner reads."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
