"""A runner that speaks no version of the protocol that this server speaks: what is done until it is gone.

Its members go on, and how they are is read from their notes, which shims write and not the runner. They can
be told to stop, for a shim looks at stop.json. Nothing new is started. Once nothing runs any more the runner
is told to end; the next request starts one of this release.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from steelyard.engines.local import procfs, shim
from steelyard.engines.local.book import ENDED, RUNNING, Book, Record, read_notes
from steelyard.engines.local.files import read_json, write_json
from steelyard.engines.local.paths import Layout
from steelyard.engines.port import Capabilities, EngineUnavailable, Signal

CODE = "runner-protocol"


class RunnerMismatch(EngineUnavailable):
    """The runner and this server have no version in common: `theirs`, `ours`."""

    def __init__(self, theirs: str, ours: str) -> None:
        super().__init__(CODE, theirs=theirs[:40], ours=ours)


class Watcher:
    """Reads the notes of one data folder."""

    def __init__(self, layout: Layout, install: str) -> None:
        self._layout = layout
        self._install = install
        self._told: float | None = None

    def observe(self) -> dict[str, Any]:
        """What a runner's `observe` answers. Not complete where a claim can't be read: somebody may run."""
        book, understood = self._read()
        ours = [one for one in book.members.values() if one.attempt["install"] == self._install]
        if understood and not book.live():
            self._end_runner()
        now = time.time_ns() // 1000
        foreign = {
            one.attempt["attempt"]: one.attempt["install"]
            for one in book.members.values()
            if one.attempt["install"] != self._install
        }
        return {
            "as_of": now, "complete": understood, "sequence": now, "cursor": "", "foreign": foreign,
            "members": [one.observation(True) for one in ours],
        }  # fmt: skip

    def running(self) -> list[list[Any]]:
        """(member, shim's pid, its start time) of those that run."""
        return [
            [one.id, *one.shim]
            for one in self._read()[0].members.values()
            if one.phase == RUNNING and one.shim is not None and one.attempt["install"] == self._install
        ]

    def stop(self, attempts: Iterable[str], grace: int) -> None:
        """As the runner does it: stop.json, and a signal to look."""
        wanted = set(attempts)
        for record in self._read()[0].members.values():
            if record.attempt["attempt"] not in wanted or record.attempt["install"] != self._install:
                continue
            if record.phase == ENDED or record.shim is None:
                continue
            path, ends = self._layout.notes(record.id, "stop.json"), time.time_ns() // 1000 + grace
            before = read_json(path)
            if before is None or ends < before.get("ends", 0):
                write_json(path, {"v": 1, "grace": grace, "ends": ends})
            self.tell(record, shim.LOOK)

    def signal(self, attempt: str, name: str) -> None:
        """Tells the members of an attempt."""
        for record in self._read()[0].attempts.get(attempt, ()):
            if record.phase == RUNNING and record.attempt["install"] == self._install:
                self.tell(record, shim.TOLD[name])

    def tell(self, record: Record, number: int) -> None:
        """Signals a member's shim, if that very process is there."""
        if record.shim is None:
            return
        with suppress(OSError):
            handle = os.pidfd_open(record.shim[0])
            try:
                if procfs.start_time(record.shim[0]) == record.shim[1]:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def _read(self) -> tuple[Book, bool]:
        book = Book(self._layout)
        book.load()
        for record in book.members.values():
            read_notes(self._layout, record)
            record.ready = record.ready_at is not None
        claims = [name for name in os.listdir(self._layout.claims) if name.endswith(".json")]
        return book, len(claims) == len(book.attempts)

    def _end_runner(self) -> None:
        """TERM to the process that holds the folder's lock, told again only after some time."""
        if self._told is not None and time.monotonic() - self._told < 5.0:
            return
        pid = lock_holder(self._layout)
        if pid is None:
            return
        self._told = time.monotonic()
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def lock_holder(layout: Layout) -> int | None:
    """The runner's process: it wrote its number into the lock that it holds, and was started for this folder.
    None where that can't be told for certain."""
    try:
        with open(layout.lock, encoding="ascii") as file:
            pid = int(file.read(32))
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read(1 << 16).split(b"\0")
        lock, fds = os.stat(layout.lock), f"/proc/{pid}/fd"
        held = any(os.path.samestat(lock, os.stat(f"{fds}/{name}")) for name in os.listdir(fds))
    except (OSError, ValueError):
        return None
    return pid if held and os.fsencode(layout.data) in arguments else None


def unable(mismatch: RunnerMismatch) -> Capabilities:
    """What the engine can do under a runner that it can't speak to."""
    return Capabilities(
        kind="local", simulated=False, signals=frozenset(Signal), can_exec=False, can_update=False,
        sees_device_processes=False, sees_utilisation=True, isolation=(), isolation_mode="unknown",
        limits="none", protocol=0, problem=mismatch.code,
        problem_params=tuple((key, str(value)) for key, value in mismatch.params.items()),
    )  # fmt: skip
