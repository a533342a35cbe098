"""Going through a folder whose content a stranger chose, and may still change while it is gone through.

Every name is opened from the folder it stands in, and no link is followed, at no place of a path: what is
found is in the folder. A name that waits for a writer (a named pipe) is never opened. Standard library only:
the runner imports this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

#: Folders inside folders; what is deeper is left out, and so is what comes after so many entries.
MOST_DEPTH = 64
MOST_ENTRIES = 1_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(NamedTuple):
    """A plain file: its path below the folder, an open descriptor of what it stands in, its name there."""

    path: str
    folder: int
    name: str


class Walk:
    """Goes through parts of one folder. `whole`: nothing was left out so far."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen = 0
        self.whole = True

    def files(self, path: str) -> Iterator[Place]:
        """The file at a relative path, or all below the folder there; nothing where it leads elsewhere."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts:
            return
        top = os.open(self._folder, _FOLDER)
        try:
            yield from self._at(top, parts)
        finally:
            os.close(top)

    def _at(self, top: int, parts: list[str]) -> Iterator[Place]:
        try:
            above = _open(top, parts[:-1])
        except OSError:
            return
        try:
            if parts and _is_file(parts[-1], above):
                yield Place("/".join(parts), above, parts[-1])
                return
        finally:
            os.close(above)
        waiting = [parts]
        while waiting:
            yield from self._inside(top, waiting.pop(), waiting, len(parts))

    def _inside(self, top: int, at: list[str], waiting: list[list[str]], above: int) -> Iterator[Place]:
        if len(at) - above > MOST_DEPTH:
            self.whole = False
            return
        try:
            fd = _open(top, at)
        except OSError:  # gone meanwhile, a link or a file by now, or not ours to read
            self.whole = self.whole and len(at) == above
            return
        try:
            names = self._names(fd)
            waiting += [[*at, name] for name, is_folder in reversed(names) if is_folder]
            for name, is_folder in names:
                if not is_folder:
                    yield Place("/".join((*at, name)), fd, name)
        finally:
            os.close(fd)

    def _names(self, fd: int) -> list[tuple[str, bool]]:
        """(name, whether it is a folder) of all that is in a folder, as far as it is looked at."""
        left = MOST_ENTRIES - self._seen
        try:
            with os.scandir(fd) as entries:
                some = [(e.name, e.is_dir(follow_symlinks=False)) for e in islice(entries, left + 1)]
        except OSError:
            some, left = [], -1
        self._seen += len(some)
        self.whole = self.whole and len(some) <= left
        return sorted(some)


def _open(top: int, parts: Sequence[str]) -> int:
    """A folder below an open one. Raises OSError, also where a link is in the way."""
    here = os.dup(top)
    try:
        for part in parts:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
    except OSError:
        os.close(here)
        raise
    return here


def _is_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
