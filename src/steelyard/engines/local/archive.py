"""What of a member's work is kept: the manifest of its artifacts, and the end of old work folders.

    DATA/work/ATTEMPT/MEMBER.artifacts.json   path, bytes and SHA-256 of every file that is kept as a result
    DATA/local/removed.jsonl                  a line for each folder that was removed: when, what, how much

Both are made by a process of their own, forked by the runner: a result may be large, and nobody waits for it.
The content of the folders was chosen by strangers: links are not followed. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from steelyard.engines.local import kerneltables
from steelyard.engines.local.files import measure, read_json, remove_tree, write_json
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.walking import Walk

ARTIFACTS = "artifacts"
MOST_FILES = 10_000
#: Bytes that a member's results may have in holes; files beyond are not listed.
MOST_HOLES = 16 << 30
_CHUNK = 1 << 20
_NICE = 19
#: A removed folder is noted in this file; it is begun anew when it is longer.
_MOST_NOTES = 4 << 20


class Finished(NamedTuple):
    """A member that ended. `declared`: further paths in its work folder that are results."""

    attempt: str
    member: str
    declared: tuple[str, ...]


class Archivist:
    """The runner's queue of what is to be archived or removed, and the one process that does it."""

    def __init__(self, layout: Layout, is_child: Callable[[int], bool], clean: Callable[[], None]) -> None:
        """`is_child`: whether a forked process is still there; `clean`: what a fork does first."""
        self._layout = layout
        self._is_child = is_child
        self._clean = clean
        self._wanted: list[Finished] = []
        self._old: tuple[int | None, int | None] | None = None
        self._child: int | None = None

    @property
    def busy(self) -> bool:
        """Whether something waits or is at work."""
        return bool(self._wanted or self._old or self._child is not None)

    def finished(self, one: Finished) -> None:
        """A member's end is booked: what it left as its result is listed."""
        if has_results(self._layout, one):
            self._wanted.append(one)

    def tidy(self, work: int | None, artifacts: int | None) -> None:
        """Work folders older than `work`, and artifacts older than `artifacts` (µs UTC), are of no use any
        more; None: whatever their age they stay."""
        self._old = (work, artifacts)

    def turn(self, live: Collection[str]) -> float | None:
        """Starts the process when there is work; seconds until it is to be looked at. `live`: attempts that
        are not forgotten. Raises OSError."""
        if self._child is not None:
            if self._is_child(self._child):
                return 1.0
            self._child = None
        if not self.busy:
            return None
        wanted, old, kept = self._wanted, self._old, set(live)
        pid = os.fork()
        if pid == 0:
            self._be_child(wanted, old, kept)
        self._wanted, self._old, self._child = [], None, pid
        return 1.0

    def _be_child(
        self, wanted: list[Finished], old: tuple[int | None, int | None] | None, live: set[str]
    ) -> NoReturn:
        try:
            self._clean()
            os.nice(_NICE)
            for one in wanted:
                with suppress(OSError):
                    archive(self._layout, one)
            if old is not None:
                remove_old(self._layout, live, *old)
        finally:
            os._exit(0)


# ---- manifests


def manifest_path(layout: Layout, attempt: str, member: str) -> str:
    """Where a member's manifest is: beside its folder, where its program could not write."""
    return layout.member_work(attempt, member) + ".artifacts.json"


def has_results(layout: Layout, one: Finished) -> bool:
    """Whether there is anything to list."""
    work = layout.member_work(one.attempt, one.member)
    with suppress(OSError):
        if os.listdir(os.path.join(work, ARTIFACTS)):
            return True
    return any(os.path.lexists(os.path.join(work, path)) for path in one.declared)


def archive(layout: Layout, one: Finished) -> None:
    """Writes the manifest of a member's results. Raises OSError."""
    walk = Walk(layout.member_work(one.attempt, one.member))
    known: dict[tuple[int, int], str] = {}
    files: list[dict[str, Any]] = []
    seen: set[str] = set()
    holes = 0
    for top in dict.fromkeys((ARTIFACTS, *one.declared)):
        for path, folder, name in walk.files(top):
            if path in seen or len(files) >= MOST_FILES:
                continue
            seen.add(path)
            holes += _hole(folder, name)
            if holes > MOST_HOLES:
                walk.whole = False
                continue
            found = _entry(path, folder, name, known)
            if found is not None:
                files.append(found)
    complete = walk.whole and len(files) < MOST_FILES
    note = {"v": 1, "at": time.time_ns() // 1000, "complete": complete, "files": files}
    write_json(manifest_path(layout, one.attempt, one.member), note)


def _hole(folder: int, name: str) -> int:
    """How much of a file's size is nowhere on the disk: it costs nothing to make, and time to read."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return 0
    return max(0, status.st_size - status.st_blocks * 512) if stat.S_ISREG(status.st_mode) else 0


def _entry(path: str, folder: int, name: str, known: dict[tuple[int, int], str]) -> dict[str, Any] | None:
    """A plain file's path, size and digest; None for anything else, or what can't be read. `known`: digests
    of files with several names, by device and inode: each is read once."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    digest, size = hashlib.sha256(), 0
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        which, text = (status.st_dev, status.st_ino), None
        if status.st_nlink > 1 and which in known:
            size, text = status.st_size, known[which]
        while text is None and (chunk := os.read(fd, _CHUNK)):
            digest.update(chunk)
            size += len(chunk)
        text = text or digest.hexdigest()
        if status.st_nlink > 1:
            known[which] = text
    except OSError:
        return None
    finally:
        os.close(fd)
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"path": shown, "bytes": size, "sha256": text}


# ---- old folders


def remove_old(layout: Layout, live: Collection[str], work: int | None, artifacts: int | None) -> None:
    """Removes what is older (µs UTC); an attempt in `live` or with a claim stays whole, and so does what has
    something mounted in it. Each removal is noted with how many files and bytes it was."""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(os.listdir(layout.work))
    for attempt in names:
        if is_id(attempt) and attempt not in live and not os.path.lexists(layout.claim(attempt)):
            with suppress(OSError):  # one that can't be removed keeps no other
                _remove_old(layout, attempt, work, artifacts)


def _remove_old(layout: Layout, attempt: str, work: int | None, artifacts: int | None) -> None:
    over = layout.attempt_work(attempt)
    if kerneltables.mounts_below(over):
        return
    members = [name for name in os.listdir(over) if is_id(name) and os.path.isdir(os.path.join(over, name))]
    ended = max((_changed(os.path.join(over, name)) for name in (*members, "")), default=0)
    if artifacts is not None and ended < artifacts:
        for member in members:  # what was listed of them stays
            _remove(layout, attempt, "artifacts", os.path.join(over, member))
    elif work is not None and ended < work:
        for folder in (os.path.join(over, member) for member in members):
            for name in os.listdir(folder):
                if name != ARTIFACTS:
                    _remove(layout, attempt, "work", os.path.join(folder, name))


def _changed(path: str) -> int:
    """When a folder's content last changed, µs UTC: a work folder's when its temporary files were removed."""
    return int(os.stat(path, follow_symlinks=False).st_mtime_ns // 1000)


def _remove(layout: Layout, attempt: str, what: str, path: str) -> None:
    files, size = measure(path, 1_000_000) if os.path.isdir(path) and not os.path.islink(path) else (1, 0)
    if files == 1 and size == 0:
        with suppress(OSError):
            size = os.lstat(path).st_size
    status = os.stat(os.path.dirname(path))
    if not remove_tree(path):
        return
    with suppress(OSError):  # what is left keeps its age
        os.utime(os.path.dirname(path), ns=(status.st_atime_ns, status.st_mtime_ns))
    note = {"at": time.time_ns() // 1000, "attempt": attempt, "what": what, "files": files, "bytes": size}
    target = os.path.join(layout.local, "removed.jsonl")
    with suppress(OSError):
        if os.path.getsize(target) > _MOST_NOTES:
            os.replace(target, target + ".1")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(note, separators=(",", ":")).encode("ascii") + b"\n")
    finally:
        os.close(fd)


def read_manifest(layout: Layout, attempt: str, member: str) -> dict[str, Any] | None:
    """A member's manifest; None while there is none."""
    return read_json(manifest_path(layout, attempt, member)) if is_id(attempt) and is_id(member) else None
