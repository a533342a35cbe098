"""The engine's end of what is kept: asks the runner now and then to remove what is old, and lists results."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from steelyard.engines.local import archive
from steelyard.engines.local.files import read_beneath
from steelyard.engines.local.link import Link
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.walking import Walk
from steelyard.engines.port import Artifact, Artifacts, EngineUnavailable
from steelyard.model.units import HOUR

_MOST_LISTED = 1000


class Keeping:
    """`work`, `artifacts`: µs after an attempt's end for which its folders stay; None: for ever."""

    def __init__(
        self, link: Link, layout: Layout, now: Callable[[], int], work: int | None, artifacts: int | None
    ) -> None:
        self._link, self._layout, self._now = link, layout, now
        self._work, self._artifacts = work, artifacts
        self._next = 0

    def tidy(self) -> None:
        """Once an hour. A runner that does not know of it, or does not answer, is asked the next time."""
        now = self._now()
        if now < self._next or self._work is self._artifacts is None:
            return
        self._next = now + HOUR
        before = [None if kept is None else now - kept for kept in (self._work, self._artifacts)]
        with suppress(EngineUnavailable):
            self._link.ask("tidy", work=before[0], artifacts=before[1])

    def artifacts(self, attempt_id: str, member_id: str) -> Artifacts | None:
        """What a member left as its result. Until its manifest is made, names and sizes without digests."""
        if not is_id(attempt_id) or not is_id(member_id):
            return None
        note = archive.read_manifest(self._layout, attempt_id, member_id)
        work = self._layout.member_work(attempt_id, member_id)
        if note is None:
            files = tuple(self._unlisted(work))
            return Artifacts(None, files, len(files) < _MOST_LISTED) if files else None
        listed = []
        for one in note["files"][:_MOST_LISTED]:
            there = os.path.lexists(os.path.join(work, one["path"]))
            listed.append(Artifact(one["path"], one["bytes"], one["sha256"], there))
        complete = bool(note["complete"]) and len(note["files"]) <= _MOST_LISTED
        return Artifacts(note["at"], tuple(listed), complete)

    def read(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        """A file of a member's artifacts, its first bytes; None where it is not there or no plain file."""
        if not is_id(attempt_id) or not is_id(member_id):
            return None
        work = self._layout.member_work(attempt_id, member_id)
        with suppress(OSError, ValueError):
            return read_beneath(os.path.join(work, archive.ARTIFACTS), path.split("/"), limit)
        return None

    def _unlisted(self, work: str) -> list[Artifact]:
        found: list[Artifact] = []
        with suppress(OSError):
            for path, folder, name in Walk(work).files(archive.ARTIFACTS):
                if len(found) >= _MOST_LISTED:
                    return found
                with suppress(OSError):
                    size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
                    found.append(Artifact(path, size, None, True))
        return found
