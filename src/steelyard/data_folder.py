"""The data folder of an installation: one server at a time has it, and a copy is not its original."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from steelyard.model.errors import InvalidError, UnavailableError

LOCK_FILE = "server.lock"
RUNNER_LOCK_FILE = "runner.lock"
HOME_FILE = "home"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """The data folder, made if need be (0700), for one server at a time.

    Raises InvalidError when it can't be used, UnavailableError when another server has it, or the one that it
    is a copy of.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InvalidError("data-folder-unusable", path=str(folder), cause=error.strerror or "") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnavailableError("data-folder-in-use", path=str(folder)) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        _settle(folder)
        yield folder
    finally:
        os.close(handle)


def _settle(folder: Path) -> None:
    """Notes where the folder is. A copy carries the marks of its original's processes and its log's key: it
    would end the ones and fork the other. So it is refused (UnavailableError `data-folder-copied`) while the
    original is in use; one that was moved, or restored after its original ended, is not.
    """
    here, note = str(folder.resolve()), folder / HOME_FILE
    try:
        home = note.read_text("utf-8").strip() if note.is_file() else here
        if home == here and note.is_file():
            return
        same = not os.path.isabs(home) or (os.path.isdir(home) and os.path.samefile(home, here))
        if not same and any(_is_held(Path(home) / name) for name in (LOCK_FILE, RUNNER_LOCK_FILE)):
            raise UnavailableError("data-folder-copied", path=here, original=home)
        if not same and (Path(home) / HOME_FILE).is_file():
            with contextlib.suppress(OSError):  # so that the original, started again, finds this one
                (Path(home) / HOME_FILE).write_text(f"{here}\n", "utf-8")
        note.write_text(f"{here}\n", "utf-8")
    except (OSError, ValueError) as error:
        raise InvalidError("data-folder-unusable", path=here, cause=str(error)[:200]) from None


def _is_held(lock: Path) -> bool:
    """Whether a process has this lock."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
