"""A command beside a member: in its surroundings, within its limits, ended with it.

One process for each, forked by the runner and given the connection of whoever asked; the runner has nothing
more to do with it. It starts the command as the member is (entering.py), carries bytes between the connection
and the command's pipes or pseudo-terminal, and ends the command when the connection ends, when the member
ends, or when its time is over. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import termios
import time
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from steelyard.engines.local import cgroups, console, ending, entering, forked, frames, launch, procfs

_ENOUGH = 256 << 10  # bytes waiting in one direction: no more is read until they are gone
_GRACE = 1.0  # seconds between HUP and KILL
_DRAIN = 0.5  # seconds in which what the command left behind may still write
_MAX_COMMAND = 256


class Setting(NamedTuple):
    """Where and how a command runs. `child`: (pid, start time) of the member's program."""

    child: tuple[int, int]
    env: dict[str, str]
    folder: str
    groups: tuple[str, ...]
    data_limit: int | None
    files_limit: tuple[int, int]
    isolated: bool
    user: int | None  # the project's


class Wish(NamedTuple):
    """What was asked for. `terminal`: (rows, columns), None for pipes."""

    command: list[str]
    terminal: tuple[int, int] | None
    term: str
    seconds: float | None


def read_wish(request: dict[str, Any]) -> Wish | None:
    """The request's fields, None where they can't be meant."""
    command: Any = request.get("command")
    size: Any = request.get("terminal")
    term: Any = request.get("term") or "xterm"
    limit: Any = request.get("limit") or 0
    sound = (
        isinstance(command, list) and 0 < len(command) <= _MAX_COMMAND and isinstance(limit, int)
        and all(isinstance(word, str) and "\0" not in word for word in command) and command[0] != ""
        and isinstance(term, str) and len(term) <= 40 and term.replace("-", "").replace(".", "").isalnum()
    )  # fmt: skip
    if not sound or (size is not None and not console.is_size(size)):
        return None
    terminal = None if size is None else (size[0], size[1])
    return Wish(command, terminal, term, limit / 1_000_000 if limit else None)


def run(sock: socket.socket, before: bytes, setting: Setting, wish: Wish) -> NoReturn:
    """The whole life of the process that was forked for a command."""
    try:
        forked.enter(sock.fileno())
        forked.set_name("steelyard-exec")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        Carrier(sock, before, setting, wish).carry()
    except BaseException as wrong:  # nothing may come back into the runner's loop from here
        with suppress(OSError):
            os.write(2, f"exec: {wrong!r}\n".encode("utf-8", "backslashreplace"))
    finally:
        _end_all()
        forked.leave()


def _end_all() -> None:
    """Ends whatever the command left behind."""
    for _ in range(200):
        rest = procfs.descendants(os.getpid(), procfs.processes())
        for process in rest:
            ending.kill(process.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not rest:
            return
        time.sleep(0.02)


class Carrier:
    """Carries bytes until there is nothing more to carry."""

    def __init__(self, sock: socket.socket, before: bytes, setting: Setting, wish: Wish) -> None:
        self.link = frames.Link(sock, before)
        self.setting = setting
        self.wish = wish
        self.input = bytearray()
        self.input_ends = False
        self.stdin: int | None = None
        self.outputs: dict[int, int] = {}  # descriptor → channel
        self.terminal: int | None = None
        self.reason: str | None = None  # why it is being ended
        self.kill_at: float | None = None
        self.status: int | None = None

    def carry(self) -> None:
        """Starts the command, and comes back when everything is said."""
        try:
            watched = os.pidfd_open(self.setting.child[0])
            if procfs.start_time(self.setting.child[0]) != self.setting.child[1]:
                raise OSError(errno.ESRCH, "the member has ended")
            child, said = self._start()
        except OSError as failed:
            self._tell(None, "not-started", str(failed)[:200])
            return
        if said:
            os.waitpid(child, 0)
            self._tell(None, "not-started", said)
            return
        self._loop(child, os.pidfd_open(child), watched)
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        self._tell(code, self.reason or "ended", "")

    def _tell(self, code: int | None, reason: str, text: str) -> None:
        status = {
            "code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None, "reason": reason, "text": text,
        }  # fmt: skip
        self.link.put(frames.STATUS, json.dumps(status).encode("ascii"))
        self.link.sock.settimeout(5.0)
        with suppress(OSError):
            self.link.sock.sendall(self.link.outgoing)
            self.link.sock.shutdown(socket.SHUT_WR)

    # ---- starting

    def _start(self) -> tuple[int, str]:
        """(pid, "") of the command, or (pid, why it is none)."""
        target, who = self._target()
        error_read, error_write = os.pipe()
        ours, theirs = self._pipes(who.outer)
        pid = os.fork()
        if pid == 0:
            _child(self.setting, self.wish, target, who, theirs, error_write)
        for fd in {*theirs, error_write}:
            os.close(fd)
        for fd in ours:
            os.set_blocking(fd, False)
        with os.fdopen(error_read, "rb") as file:
            return pid, file.read(300).decode("utf-8", "replace")

    def _target(self) -> tuple[int, entering.Identity]:
        """The process whose surroundings are meant, and who it is. Raises OSError while it is not there."""
        child = self.setting.child[0]
        if self.setting.isolated:
            found = entering.inside(child, self.setting.user)
        else:
            who = entering.identity(child)
            found = None if who is None else (child, who)
        if found is None:
            raise OSError(errno.ESRCH, "the member's program is not there yet, or not any more")
        return found

    def _pipes(self, uid: int) -> tuple[list[int], tuple[int, int, int]]:
        """(our ends, the command's stdin, stdout and stderr)."""
        if self.wish.terminal is not None:
            master, slave = os.openpty()
            with suppress(OSError):
                os.fchown(slave, uid, -1)
            console.resize(master, *self.wish.terminal)
            self.terminal = self.stdin = master
            self.outputs[master] = frames.STDOUT
            return [master], (slave, slave, slave)
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
        self.stdin = in_write
        self.outputs = {out_read: frames.STDOUT, err_read: frames.STDERR}
        return [in_write, out_read, err_read], (in_read, out_write, err_write)

    # ---- carrying

    def _loop(self, child: int, child_fd: int, member_fd: int) -> None:
        limit = None if self.wish.seconds is None else time.monotonic() + self.wish.seconds
        drain_until: float | None = None
        while True:
            now = time.monotonic()
            if self.status is not None and (not self.outputs or now >= (drain_until or now)):
                return
            if limit is not None and now >= limit:
                limit = None
                self._end(child, "time-limit")
            if self.kill_at is not None and now >= self.kill_at:
                self.kill_at = now + 0.1
                self._to_tree(signal.SIGKILL)
            due = [at for at in (limit, self.kill_at, drain_until) if at is not None]
            events = dict(self._poll(child_fd, member_fd, min(due, default=now + 60.0) - now))
            if member_fd in events and self.reason is None:
                self._end(child, "member-ended")
            if child_fd in events and self.status is None:
                self.status = os.waitpid(child, 0)[1]
                drain_until = time.monotonic() + _DRAIN
                self.kill_at = None
            mask = events.get(self.link.sock.fileno())
            if mask is not None and not self.link.serve(mask, self._take):
                self._end(child, "left")
            self._serve_command(events)

    def _poll(self, child_fd: int, member_fd: int, seconds: float) -> list[tuple[int, int]]:
        poll = select.poll()
        if self.status is None:
            poll.register(child_fd, select.POLLIN)
        if self.reason is None:
            poll.register(member_fd, select.POLLIN)
        if self.reason != "left":
            reads = select.POLLIN if len(self.input) < _ENOUGH else 0
            writes = select.POLLOUT if self.link.outgoing else 0
            poll.register(self.link.sock, reads | select.POLLRDHUP | writes)
        for fd in self.outputs:
            if len(self.link.outgoing) < _ENOUGH:
                poll.register(fd, select.POLLIN)
        if self.stdin is not None and (self.input or self.input_ends):
            known = self.stdin in self.outputs and len(self.link.outgoing) < _ENOUGH
            poll.register(self.stdin, select.POLLOUT | (select.POLLIN if known else 0))
        return poll.poll(max(0.0, seconds) * 1000 + 1)

    def _take(self, channel: int, data: bytes) -> None:
        if channel == frames.STDIN:
            self.input += data
            self.input_ends = self.input_ends or not data
        elif channel == frames.RESIZE and self.terminal is not None:
            size = console.read_size(data)
            if size is not None:
                console.resize(self.terminal, *size)

    def _serve_command(self, events: dict[int, int]) -> None:
        for fd, channel in list(self.outputs.items()):
            if events.get(fd, 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._read_output(fd, channel)
        if self.stdin is None or not events.get(self.stdin, 0) & (select.POLLOUT | select.POLLERR):
            return
        try:
            del self.input[: os.write(self.stdin, self.input[: frames.CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self.input.clear()
            self.input_ends = True
        if self.input_ends and not self.input:
            self._close_input()

    def _close_input(self) -> None:
        self.input_ends = False
        if self.terminal is not None:  # a terminal's input ends by its own character, if at all
            return
        if self.stdin is not None:
            os.close(self.stdin)
        self.stdin = None

    def _read_output(self, fd: int, channel: int) -> None:
        try:
            data = os.read(fd, frames.CHUNK)
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if data:
            if self.reason != "left":
                self.link.put(channel, data)
            return
        del self.outputs[fd]
        if fd == self.terminal:
            self.terminal = self.stdin = None
        os.close(fd)

    # ---- ending

    def _end(self, child: int, reason: str) -> None:
        """HUP to everything of it, KILL soon after."""
        self.reason = self.reason or reason
        if reason == "left":
            self.link.outgoing.clear()
        if self.status is None:
            self._to_tree(signal.SIGHUP)
            self._to_tree(signal.SIGCONT)
            self.kill_at = self.kill_at or time.monotonic() + (0.0 if reason == "member-ended" else _GRACE)

    def _to_tree(self, number: int) -> None:
        for process in procfs.descendants(os.getpid(), procfs.processes()):
            ending.kill(process.pid, number)


def _child(
    setting: Setting, wish: Wish, target: int, who: entering.Identity, io: tuple[int, int, int], error: int
) -> NoReturn:
    where = "session"
    try:
        os.setsid()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        if wish.terminal is not None:
            fcntl.ioctl(io[0], termios.TIOCSCTTY, 0)
        for number, fd in enumerate(io):
            os.dup2(fd, number)
        where = "limits"
        _limits(setting)
        where = "surroundings"
        if entering.enter(target):
            _wait_outside()
        where = "working directory"
        os.chdir(setting.folder)
        where = "user"
        entering.become(who)
        where = "command"
        os.umask(0o077)
        env = {**setting.env, "TERM": wish.term} if wish.terminal is not None else setting.env
        path, _ = launch.find_program(wish.command[0], env["PATH"], setting.folder)
        if path is None:
            raise FileNotFoundError(errno.ENOENT, f"command not found: {wish.command[0][:100]}")
        os.execve(path, wish.command, env)
    except OSError as failed:
        os.write(error, f"{failed.strerror or failed} ({where})".encode("utf-8", "backslashreplace"))
    except BaseException as wrong:  # nothing may return from here into the supervisor's code
        os.write(error, f"{wrong!r} ({where})".encode("utf-8", "backslashreplace")[:300])
    finally:
        os._exit(126)


def _limits(setting: Setting) -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")
    cgroups.join(setting.groups)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, setting.files_limit)
    if setting.data_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (setting.data_limit, setting.data_limit))


def _wait_outside() -> None:
    """Comes back in a child, which is in the pid namespace that was entered; this process stays outside,
    waits for it, and ends as it does."""
    pid = os.fork()
    if pid == 0:
        return
    for told in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(told, signal.SIG_IGN)  # they are meant for the one inside, who gets them, too
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128)
