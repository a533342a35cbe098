"""The runner: one process per data folder that starts shims, watches them and tells what it sees.

It outlives the server and may itself die at any moment. It is single-threaded, so that it may fork; shims
are forks of it, which costs a millisecond and shares its memory. Standard library only, and little of
that: the smaller it is, the smaller is every shim.

Usage: python -I -m steelyard.engines.local.runner --data FOLDER [--idle SECONDS]
"""

from __future__ import annotations

import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from steelyard.engines.local import beside, cgroups, forked, procfs, protocol, shim
from steelyard.engines.local.archive import Archivist, Finished
from steelyard.engines.local.book import ENDED, RUNNING, Record
from steelyard.engines.local.door import HAND_OVER, LISTENS, Door, HandOver, RequestError
from steelyard.engines.local.files import read_json, write_json
from steelyard.engines.local.isolation import MODES, Wish
from steelyard.engines.local.journal import log
from steelyard.engines.local.keeper import Keeper
from steelyard.engines.local.paths import Layout

_IDLE_SECONDS = 60.0
_MAX_LOG = 8 << 20
_MAX_BESIDE = 128  # commands beside members at a time


class Runner:
    """The loop, and what servers ask of it."""

    def __init__(self, layout: Layout, lock: int, idle_seconds: float) -> None:
        self.layout = layout
        self.lock = lock
        self.selector = selectors.DefaultSelector()
        self.keeper = Keeper(layout, self.selector)
        self.book = self.keeper.book
        self.idle_seconds = idle_seconds
        self.idle_since: float | None = None
        self.done = False
        self.beside: set[int] = set()  # descriptors of processes that run commands beside members
        self.archivist = Archivist(layout, _is_child, _step_aside)
        self.door = Door(layout, self.selector, self.handle)

    def serve(self) -> None:
        """Runs until told to end, or until nobody needs it."""
        while not self.done and self._folder_is_ours():
            due = (self.keeper.turn(), self.archivist.turn(self.book.attempts), self._idle())
            self.door.tell(self.book.settled)
            waits = [wait for wait in due if wait is not None]
            events = self.selector.select(min(waits, default=None))
            for key, mask in events:
                key.data(mask)
            self.keeper.broom.sweep(idle=not events)
        self.keeper.broom.sweep_all()

    def _folder_is_ours(self) -> bool:
        """False once somebody removed the folder: what is kept here can't be told to anyone any more."""
        try:
            return os.path.samestat(os.fstat(self.lock), os.lstat(self.layout.lock))
        except OSError:
            return False

    def _idle(self) -> float | None:
        """Without work and without a server a runner is of no use: it ends, and is started when needed."""
        if self.door.connections or self.keeper.busy:
            self.idle_since = None
            return None
        now = time.monotonic()
        self.idle_since = self.idle_since or now
        left = self.idle_since + self.idle_seconds - now
        if left <= 0:
            self.done = True
        return max(0.0, left)

    # ---- requests

    def handle(self, memory: dict[str, Any], request: dict[str, Any]) -> Any:
        """One request of a server. The first must be `hello`."""
        operation = request["op"]
        if operation == "hello":
            spoken = [one for one in protocol.ADOPTABLE if one in request["versions"]]
            if not spoken:
                raise RequestError("protocol-version", str(protocol.VERSION))
            memory["install"] = request["install"]
            return {"protocol": max(spoken), "life": self.book.life, "pid": os.getpid(),
                    "limits": self.keeper.hierarchy.mode}
        if "install" not in memory:
            raise RequestError("hello-first")
        try:
            if operation == "listen":
                memory[LISTENS] = self.book.settled
                return {}
            if operation == "exec":
                memory[HAND_OVER] = self._exec(memory["install"], request)
                return {}
            return self._operations()[operation](memory["install"], request)
        except OSError as failed:
            raise RequestError("runner-disk", str(failed)) from failed

    def _operations(self) -> dict[str, Any]:
        return {
            "isolation": self._isolation, "start": self._start, "signal": self._signal, "stop": self._stop,
            "observe": self._observe, "forget": self._forget, "running": self._running,
            "retire": self._retire, "tidy": self._tidy,
        }

    def _ours(self, install: str, attempts: list[str]) -> list[Record]:
        found = [record for name in attempts for record in self.book.attempts.get(name, ())]
        return [record for record in found if record.attempt["install"] == install]

    def _isolation(self, _install: str, request: dict[str, Any]) -> dict[str, Any]:
        """What a wish comes to here. `all`: also why each mode can't be had, None where it can."""
        mode, network, shared = request["wish"]
        abilities = self.keeper.abilities
        choice = abilities.choose(Wish(mode, network, tuple(shared)))
        found: dict[str, Any] = {"mode": choice.mode, "text": choice.text, "hide": choice.hide}
        if request.get("all"):
            found["why_not"] = {mode: abilities.why_not(mode) for mode in MODES}
        return found

    def _start(self, _install: str, request: dict[str, Any]) -> list[str]:
        answers = []
        new: list[Record] = []
        try:
            for attempt in request["attempts"]:
                answers.append(self.book.claim(attempt))
                if answers[-1] == "accepted":
                    new += self.book.attempts[attempt["attempt"]]
        finally:
            if new:  # also when a later one failed: what is claimed will run
                self._accept(new)
        return answers

    def _accept(self, new: list[Record]) -> None:
        """What is claimed runs once its claim lasts; else it was not accepted. Raises OSError."""
        try:
            self.book.claims.sync()
        except OSError:
            for name in {record.attempt["attempt"] for record in new}:
                self.book.claims.take_back(name)
                self.book.drop(name)
            raise
        self.keeper.to_fork += new

    def _signal(self, install: str, request: dict[str, Any]) -> None:
        for record in self._ours(install, [request["attempt"]]):
            self.keeper.tell(record, shim.TOLD[request["signal"]])

    def _stop(self, install: str, request: dict[str, Any]) -> None:
        for record in self._ours(install, request["attempts"]):
            if record.phase == ENDED:
                continue
            self.keeper.make_notes(record)
            path = self.layout.notes(record.id, "stop.json")
            ends = time.time_ns() // 1000 + request["grace"]
            before = read_json(path)
            if before is None or ends < before.get("ends", 0):
                write_json(path, {"v": 1, "grace": request["grace"], "ends": ends})
            self.keeper.tell(record, shim.LOOK)

    def _observe(self, install: str, request: dict[str, Any]) -> dict[str, Any]:
        life, _, number = (request["cursor"] or "").rpartition(":")
        known = life == self.book.life and number.isdigit()
        since = int(number) if known else -1
        self.book.sequence += 1
        records = [record for record in self.book.members.values() if record.changed > since]
        asked = bool(request.get("isolation"))
        foreign = {
            record.attempt["attempt"]: record.attempt["install"]
            for record in self.book.members.values()
            if record.attempt["install"] != install
        }
        return {
            "as_of": time.time_ns() // 1000, "complete": not known, "sequence": self.book.sequence,
            "cursor": f"{self.book.life}:{self.book.change}", "foreign": foreign,
            "members": [one.observation(asked) for one in records if one.attempt["install"] == install],
            "gone": self._gone(install, records),
        }

    def _gone(self, install: str, records: list[Record]) -> list[str]:
        """Attempts among these of which nothing is left to watch."""
        over = [one.attempt for one in records if one.settled and one.attempt["install"] == install]
        names = {attempt["attempt"] for attempt in over}
        return sorted(name for name in names if all(one.settled for one in self.book.attempts[name]))

    def _forget(self, install: str, request: dict[str, Any]) -> None:
        for name in request["attempts"]:
            records = self._ours(install, [name])
            if not records or any(record.phase != ENDED for record in records):
                continue
            # first: from here on its work folder says that it was
            self.book.claims.drop(name, self.layout.notes(records[0].id))
            self.book.drop(name)
            for record in records:
                declared = tuple(record.attempt.get("artifacts") or ())
                self.archivist.finished(Finished(name, record.id, declared))
                self.keeper.unsettled.pop(record.id, None)
                if record.pidfd is None:
                    self.keeper.broom.add(record.id)

    def _running(self, install: str, request: dict[str, Any]) -> list[list[Any]]:
        """Members with their shims; `waited` only to those who ask for it, for earlier servers do not."""
        waited = request.get("waited") is True
        return [
            [record.id, *record.shim, *([record.waited] if waited else [])]
            for record in self.book.members.values()
            if record.phase == RUNNING and record.shim is not None and record.attempt["install"] == install
        ]

    def _exec(self, install: str, request: dict[str, Any]) -> HandOver:
        """What takes the connection over: a fork that runs a command beside a member. Raises RequestError."""
        wish = beside.read_wish(request)
        if wish is None:
            raise RequestError("request-incomplete")
        record = self.book.members.get(request["member"])
        if record is not None and record.phase != ENDED:
            self.keeper.refresh(record)  # its shim's hint may still be on its way
        if record is None or record.attempt["install"] != install or record.phase != RUNNING:
            raise RequestError("member-not-running")
        setting = self.keeper.setting(record)
        if setting is None:
            raise RequestError("member-not-running")
        if len(self.beside) >= _MAX_BESIDE:
            raise RequestError("too-many-executions", str(_MAX_BESIDE))

        def take(sock: socket.socket, after: bytes) -> None:
            pid = os.fork()
            if pid == 0:
                beside.run(sock, after, setting, wish)
            self._watch_beside(pid)

        return take

    def _watch_beside(self, pid: int) -> None:
        """Counts a command until its process has ended; its end wakes the loop, which takes it away."""
        fd = os.pidfd_open(pid)

        def ended(_mask: int) -> None:
            self.selector.unregister(fd)
            os.close(fd)
            self.beside.discard(fd)

        self.beside.add(fd)
        self.selector.register(fd, selectors.EVENT_READ, ended)

    def _tidy(self, _install: str, request: dict[str, Any]) -> None:
        """Work folders and artifacts of ended attempts that are older (µs UTC) are removed; None: none is."""
        self.archivist.tidy(request["work"], request["artifacts"])

    def _retire(self, _install: str, _request: dict[str, Any]) -> dict[str, int]:
        """Ends the runner when nothing runs; says how much does where it stays."""
        live = self.book.live()
        self.done = not self.keeper.busy
        return {"live": live}


def _step_aside() -> None:
    """A fork that is nobody's shim lets go of everything of the runner's."""
    forked.enter(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _is_child(pid: int) -> bool:
    """Whether a process that we forked is still there: its number is free only once we waited for it."""
    process = procfs.read_process(pid)
    return process is not None and process.alive and process.parent == os.getpid()


def _take_lock(layout: Layout) -> int | None:
    """The folder's lock, None where another runner has it."""
    fd = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    for _ in range(20):  # a shim forked an instant before its runner died still closes its copy
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode("ascii"))
            return fd
    os.close(fd)
    return None


def _redirect(layout: Layout) -> None:
    with suppress(OSError):
        if os.path.getsize(layout.log) > _MAX_LOG:
            os.replace(layout.log, layout.log + ".1")
    out = os.open(layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


def _end(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def main(arguments: list[str]) -> int:
    """Runs the supervisor of one data folder; 0 also when another one is there already."""
    if len(arguments) not in (2, 4) or arguments[0] != "--data":
        sys.stderr.write("usage: runner --data FOLDER [--idle SECONDS]\n")
        return 2
    idle = float(arguments[3]) if len(arguments) == 4 else _IDLE_SECONDS
    layout = Layout(arguments[1])
    layout.make()
    lock = _take_lock(layout)
    if lock is None:
        return 0
    _redirect(layout)
    os.chdir("/")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, shim.WATCHED - {signal.SIGTERM, signal.SIGINT})
    forked.become_subreaper()
    forked.set_name("steelyard-run")
    runner = Runner(layout, lock, idle)
    signal.signal(signal.SIGTERM, _end)
    gc.collect()
    gc.freeze()
    gc.disable()
    log(f"serves {layout.data} ({runner.keeper.hierarchy.mode}), {runner.book.live()} members live")
    try:
        runner.serve()
    finally:
        runner.door.close()
        cgroups.remove(tuple(base for _, base in runner.keeper.hierarchy.bases))  # stays while in use
        log("ends")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
