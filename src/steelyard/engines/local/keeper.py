"""Keeping members: decides by their notes what each needs, forks its shim, and waits for the shim's end.

All it knows is on disk (the table of shim.py) and found again by whoever comes after it. Two things wake
it: a shim's hint, and the end of a shim (pidfd). Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import resource
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from typing import NoReturn

from steelyard.engines.local import (
    beside,
    cgroups,
    enclosure,
    ending,
    environment,
    forked,
    hand,
    isolation,
    procfs,
    shim,
)
from steelyard.engines.local.ability import Abilities
from steelyard.engines.local.book import PENDING, RUNNING, STARTING, Book, Record, read_notes
from steelyard.engines.local.broom import Broom
from steelyard.engines.local.crew import Crew, Work, channel
from steelyard.engines.local.files import is_real_folder, note_newly, read_json, write_json
from steelyard.engines.local.journal import log
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.readiness import Prober
from steelyard.engines.local.users import UserBook

#: Starts are spread over turns, so that requests are answered in between however many wait.
_FORKS_PER_TURN = 16
_FORK_SECONDS = 0.02
#: Members between their fork and their program: more would only take the processor from each other.
MAX_STARTING = 64
_MAX_TRIES = 3
_AGAIN = 0.2
_LOOK_AT_STARTING = 1.0


class Keeper:
    """All members of one data folder. `turn` is called whenever something may be due."""

    def __init__(self, layout: Layout, selector: selectors.BaseSelector) -> None:
        self.layout = layout
        self.selector = selector
        self.abilities = Abilities(layout, UserBook(layout.users))
        self.book = Book(layout, self.abilities.settle)
        self.prober = Prober(selector, self._ready_changed)
        self.crew = Crew(selector)
        self.hierarchy = cgroups.detect(cgroups.outer_name(layout.data))
        self.files_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files_limit[1], self.files_limit[1]))
        self.to_fork: deque[Record] = deque()
        self.broom = Broom(layout)
        self.starting: set[str] = set()  # ids of members that were forked and do not run yet
        self.unsettled: dict[str, Record] = {}  # to be looked at again, for nothing wakes us for them
        self._looked = 0.0
        self._hints = self._open_hints()
        self._hint_rest = ""
        selector.register(self._hints, selectors.EVENT_READ, self._read_hints)
        self._recover()

    @property
    def busy(self) -> bool:
        """Whether anything here runs or is still to be done."""
        return bool(self.book.live() or self.unsettled or self.to_fork)

    def turn(self) -> float | None:
        """Does what is due; seconds until something is due again, None when only an event can matter."""
        forked.reap()
        for record in list(self.unsettled.values()):
            self._settle(record)
        self._start_some()
        waits = [self.prober.tick(), self._look_at_starting(), self.broom.due()]
        if self.to_fork and len(self.starting) < MAX_STARTING:
            waits.append(0.0)
        elif self.unsettled:
            waits.append(_AGAIN)
        return min((wait for wait in waits if wait is not None), default=None)

    def _start_some(self) -> None:
        """Starts a few of those that wait."""
        until = time.monotonic() + _FORK_SECONDS
        for _ in range(_FORKS_PER_TURN):
            if not self.to_fork or len(self.starting) >= MAX_STARTING:
                return
            self._start_shim(self.to_fork.popleft())
            if time.monotonic() >= until:
                return

    def _look_at_starting(self) -> float | None:
        """A hint may be lost, so those that start are looked at now and then."""
        starting = [record for record in self.book.members.values() if record.phase == STARTING]
        if not starting:
            return None
        at = time.monotonic()
        if at - self._looked >= _LOOK_AT_STARTING:
            self._looked = at
            for record in starting:
                self.refresh(record)
        return _LOOK_AT_STARTING

    def _open_hints(self) -> int:
        if not os.path.lexists(self.layout.hints):
            os.mkfifo(self.layout.hints, 0o600)
        return os.open(self.layout.hints, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    # ---- what is on disk

    def _recover(self) -> None:
        self.book.claims.recover()
        self.book.load()
        for record in self.book.members.values():
            self.refresh(record)
            if not record.settled:
                self._settle(record)
        for name in os.listdir(self.layout.members):
            if is_id(name) and name not in self.book.members:
                self.broom.add(name)

    def refresh(self, record: Record) -> None:
        """Reads a member's notes and books what is new."""
        before = (record.phase, record.stage, record.swept)
        read_notes(self.layout, record)
        if record.phase != STARTING:
            self.starting.discard(record.id)
        if (record.phase, record.stage, record.swept) != before:
            self.book.touch(record)
            self.book.settled += record.settled
            if record.phase == RUNNING:
                self.prober.watch(record)

    def _settle(self, record: Record) -> None:
        """Decides by the table of shim.py what a member needs for which no living shim is watched."""
        self.unsettled.pop(record.id, None)
        if record.pidfd is not None or record in self.to_fork:
            return
        try:
            self._decide(record)
        except OSError as failed:  # disk full, no processes left: nothing was done, so try again
            log(f"{record.id}: not settled yet: {failed}")
            self.unsettled[record.id] = record

    def _decide(self, record: Record) -> None:
        self.make_notes(record)
        self.make_work(record)
        lock = self._try_lock(record)
        self.refresh(record)
        if lock is None:
            if self._watch(record):
                self.tell(record, shim.LOOK)  # the runner before may have died between stop.json and this
            else:
                self.unsettled[record.id] = record
            return
        run = read_json(self.layout.notes(record.id, "run.json"))
        executed = run is not None and (run.get("child") is not None or run.get("executes") is True)
        if record.settled:
            os.close(lock)
        elif record.exit is not None or executed or record.tries >= _MAX_TRIES:
            self._fork(record, lock, sweep="the supervisor of this member ended before it")
        elif record.attempt["boot"] != self.book.boot:
            self._fork(record, lock, sweep="the machine was started anew")
        else:
            os.close(lock)
            self.to_fork.append(record)

    def make_notes(self, record: Record) -> None:
        """Makes the folder of a member's notes. Raises OSError."""
        folder = self.layout.notes(record.id)
        if not is_real_folder(folder):
            os.mkdir(folder, 0o700)

    def make_work(self, record: Record) -> None:
        """Makes a member's work folder, which keeps its attempt's id from being used anew. Raises OSError."""
        attempt = record.attempt["attempt"]
        over = self.layout.attempt_work(attempt)
        work = self.layout.member_work(attempt, record.id)
        if not is_real_folder(over):
            os.mkdir(over, 0o700)
            places = {environment.place(member): member["member"] for member in record.attempt["members"]}
            places[enclosure.PROJECT] = record.attempt["project"]
            note_newly(os.path.join(over, "members.json"), places)
        user = enclosure.user_of(record.attempt)
        if user is not None and os.stat(over).st_gid != user:
            os.chown(over, 0, user)
            os.chmod(over, 0o710)  # the project passes through; what is in it is the supervisor's
        if not is_real_folder(work):
            os.mkdir(work, 0o700)

    def provision(self, record: Record) -> None:
        """Makes what a member needs to start. Only under its lock: one that ended and was cleared while we
        did not look must not be given its temporary files again. Raises OSError."""
        self.make_work(record)
        work = self.layout.member_work(record.attempt["attempt"], record.id)
        for name in ("tmp", "artifacts"):
            with suppress(FileExistsError):
                os.mkdir(os.path.join(work, name), 0o700)
            enclosure.give(os.path.join(work, name), record.attempt)
        enclosure.give(work, record.attempt)

    def _try_lock(self, record: Record) -> int | None:
        fd = os.open(
            self.layout.notes(record.id, "lock"),
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
        )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    # ---- shims

    def _start_shim(self, record: Record) -> None:
        try:
            self.make_notes(record)
            lock = self._try_lock(record)
            if lock is None:
                self.unsettled[record.id] = record
                return
            try:
                self.provision(record)
            except OSError:
                os.close(lock)
                raise
            self._fork(record, lock, sweep=None)
        except OSError as failed:  # disk full, no processes left: nothing was executed, so try again
            log(f"{record.id}: not started yet: {failed}")
            self.unsettled[record.id] = record
            self.broom.hurry()

    def _fork(self, record: Record, lock: int, sweep: str | None) -> None:
        """Gives a member to a shim, or a sweeper, that then holds the lock. Raises OSError."""
        self.broom.stirred()
        try:
            taken = None
            if sweep is None:
                work = self._work(record)
                record.tries += 1
                taken = self.crew.give(work, lock, lambda: self._shim_ended(record))
            if taken is None:
                taken = self._fork_shim(record, lock, work if sweep is None else None, sweep or "")
        finally:
            os.close(lock)
        record.shim = taken
        if record.phase == PENDING:
            self.starting.add(record.id)
            record.phase, record.stage = STARTING, "provision"
            self.book.touch(record)
        if not self._watch(record):
            self.unsettled[record.id] = record

    def _fork_shim(self, record: Record, lock: int, work: Work | None, sweep: str) -> tuple[int, int]:
        """A new process that takes `work`, or sweeps: its pid and start time. Raises OSError."""
        ours, theirs = channel()
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, shim.WATCHED)
            pid = os.fork()
            if pid == 0:
                self._be_shim(record, lock, theirs, work, sweep)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        start = procfs.start_time(pid) or 0
        if work is None:
            ours.close()
        else:
            self.crew.add(ours, pid, start, lambda: self._shim_ended(record))
        return pid, start

    def _work(self, record: Record) -> Work:
        return Work({**record.attempt, "members": [record.member]}, record.member)

    def _be_shim(
        self, record: Record, lock: int, channel: socket.socket, work: Work | None, sweep: str
    ) -> NoReturn:
        """The forked process: one member after another, or one sweep."""
        try:
            forked.enter(lock, keep=(channel.fileno(),))
            if work is None:
                groups = cgroups.named(self.hierarchy, record.id)
                ending.sweep(self.layout, record.attempt, record.id, sweep, groups)
            else:
                hand.serve(self.layout, self.hierarchy, channel, work, lock, self.files_limit)
        except BaseException as wrong:  # nothing may come back into the runner's loop from here
            log(f"{record.id}: the shim failed: {wrong!r}")
        finally:
            forked.leave()

    def _watch(self, record: Record) -> bool:
        """Waits for the end of the shim that is noted; False where there is none of that number any more."""
        if record.shim is None:
            return False
        pid, start = record.shim
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            record.shim = None
            return False
        if procfs.start_time(pid) != start:
            os.close(fd)
            record.shim = None
            return False
        record.pidfd = fd
        self.selector.register(fd, selectors.EVENT_READ, lambda _mask: self._shim_ended(record))
        return True

    def _shim_ended(self, record: Record) -> None:
        if record.pidfd is not None:
            self.selector.unregister(record.pidfd)
            os.close(record.pidfd)
        record.pidfd, record.shim = None, None
        self.starting.discard(record.id)
        self.refresh(record)
        if record.id not in self.book.members:
            self.broom.add(record.id)
        elif not record.settled:
            self.unsettled[record.id] = record

    def _read_hints(self, _mask: int) -> None:
        with suppress(BlockingIOError):
            text = self._hint_rest + os.read(self._hints, 1 << 16).decode("ascii", "replace")
            *names, self._hint_rest = text.split("\n")
            for name in dict.fromkeys(names):
                record = self.book.members.get(name)
                if record is not None:
                    self.refresh(record)

    def tell(self, record: Record, number: int) -> None:
        """Signals a member's shim, if one is there."""
        if record.pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(record.pidfd, number)

    def setting(self, record: Record) -> beside.Setting | None:
        """Where a command beside a member runs; None while its program is not there."""
        run = read_json(self.layout.notes(record.id, "run.json")) or {}
        child, groups = run.get("child") or {}, tuple(run.get("groups", ()))
        if run.get("boot") != self.book.boot or not isinstance(child.get("start"), int):
            return None
        memory = record.member["memory"]
        limited = not groups and memory >= cgroups.MIN_RLIMIT_MEMORY
        return beside.Setting(
            child=(child["pid"], child["start"]),
            env=environment.compose(self.layout, record.attempt, record.member),
            folder=environment.folder(self.layout, record.attempt, record.member), groups=groups,
            data_limit=memory << 20 if limited else None, files_limit=self.files_limit,
            isolated=isolation.mode_of(record.attempt, record.member) != isolation.NONE,
            user=enclosure.user_of(record.attempt),
        )  # fmt: skip

    def _ready_changed(self, record: Record) -> None:
        path = self.layout.notes(record.id, "ready.json")
        if record.ready_at is not None and not os.path.lexists(path):
            with suppress(OSError):
                write_json(path, {"v": 1, "at": record.ready_at})
        self.book.touch(record)
