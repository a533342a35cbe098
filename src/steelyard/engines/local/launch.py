"""Starting a program behind a gate: the child waits before exec until it is told, or ends without.

The gate is what makes a start idempotent: whoever holds its writing end notes the child's pid and start
time first. When the holder dies before it opened the gate, the child reads the end of the pipe and ends,
so a program that is not noted was certainly never executed.

Where the program is to be kept apart from those of other projects, the child confines itself before the
gate opens (isolation.py says how), while its supervisor notes it. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import termios
from typing import NamedTuple, NoReturn

from steelyard.engines.local import bubble, cgroups, confine, isolation, journal

_OPEN = b"g"
#: The kernel should end the member before its supervisor.
_OOM_SCORE = b"500"
_SCORE = "/proc/self/oom_score_adj"
#: Signals of which the interpreter, or the supervisor, made something else.
_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Program(NamedTuple):
    """What to execute, and in what surroundings."""

    path: str
    arguments: list[str]
    env: dict[str, str]
    folder: str
    output: int  # descriptor for stdout and stderr
    groups: tuple[str, ...]
    data_limit: int | None  # bytes for RLIMIT_DATA
    files_limit: tuple[int, int]  # RLIMIT_NOFILE as it was before the runner raised its own
    confinement: isolation.Confinement | None = None  # None: as the supervisor's own user, kept from nothing
    terminal: bool = False  # `output` is one, and is its input, too


class Gated(NamedTuple):
    """A child that waits. `gate`: write to it to execute; `error`: what it says when that fails.

    `status`: where a process inside of a sandbox says how the program ended; None where there is none.
    """

    pid: int
    gate: int
    error: int
    status: int | None = None


#: In the text of an OSError of `open_gate`: the program was not executed, for it could not be confined.
NOT_CONFINED = "isolation"


def is_plain(program: Program) -> bool:
    """Whether a program needs nothing done between the fork and its execution that `spawn_plainly` can't."""
    return program.confinement is None and not program.terminal and program.data_limit is None


def spawn_plainly(program: Program, homes: tuple[str, ...]) -> Gated:
    """Executes at once, without a gate: for a supervisor that noted before that it may have. Raises OSError.

    A fork of the interpreter costs several times what the program's start does, so the kernel makes the new
    process as vfork does, and what the child would do for itself this process does beforehand and takes back:
    it joins the groups, is in the folder, has the limits. `homes` are its own groups.
    """
    adjusted = _read_score()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    where = "working directory"
    try:
        os.chdir(program.folder)
        where = "limits"
        _limits(program)
        where = "exec"
        pid = os.posix_spawn(
            program.path, program.arguments, program.env, setsid=True, setsigmask=(), setsigdef=_DEFAULT,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, program.output, 1), (os.POSIX_SPAWN_DUP2, program.output, 2),
            ),
        )  # fmt: skip
    except OSError as failed:
        raise OSError(failed.errno, f"{os.strerror(failed.errno or 0)} ({where})") from failed
    finally:
        _go_back(homes)
        _write_score(adjusted)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.chdir("/")
    return Gated(pid, -1, -1)


def _go_back(homes: tuple[str, ...]) -> None:
    """A supervisor that stayed in a member's groups would be ended with it, and bring the next one into them:
    such a one ends here, and whoever sweeps after it ends the program, too."""
    try:
        cgroups.join(homes)
    except OSError as failed:
        journal.log(f"a supervisor can't go back to its control groups: {failed}")
        os._exit(1)


def find_program(name: str, search: str, folder: str) -> tuple[str | None, str]:
    """(path, "") of a program as a shell would find it, else (None, code)."""
    if not name:
        return None, "command-not-found"
    places = [name] if "/" in name else [f"{place or '.'}/{name}" for place in search.split(":")]
    code = "command-not-found"
    for place in places:
        path = os.path.join(folder, place)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path, ""
        if os.path.exists(path):
            code = "not-executable"
    return None, code


def spawn(program: Program) -> Gated:
    """Forks the child that waits behind its gate. Raises OSError."""
    pipes: list[int] = []
    try:
        gate_read, gate_write = _pipe(pipes)
        error_read, error_write = _pipe(pipes)
        status_read, status_write = _pipe(pipes) if _is_boxed(program) else (None, -1)
        pid = os.fork()
    except OSError:
        for fd in pipes:
            os.close(fd)
        raise
    if pid == 0:
        os.close(gate_write)
        os.close(error_read)
        _child(program, gate_read, error_write, status_write)
    os.close(gate_read)
    os.close(error_write)
    if status_read is not None:
        os.close(status_write)
    return Gated(pid, gate_write, error_read, status_read)


def _pipe(opened: list[int]) -> tuple[int, int]:
    pair = os.pipe()
    opened += pair
    return pair


def _is_boxed(program: Program) -> bool:
    return program.confinement is not None and program.confinement.mode == isolation.BUBBLEWRAP


def open_gate(gated: Gated) -> OSError | None:
    """Lets the child execute; None when the program runs, else why it does not. Closes both pipes."""
    try:
        os.write(gated.gate, _OPEN)
    except BrokenPipeError:
        pass  # the child ended before: what it says, or its status, tells why
    finally:
        os.close(gated.gate)
    with os.fdopen(gated.error, "rb") as file:
        said = file.read(200).decode("ascii", "replace")
    if said == ("" if gated.status is None else bubble.RUNS.decode()):
        return None
    number, _, where = said.partition(" ")
    code = int(number) if number.isdigit() else errno.EPERM  # a sandbox that was not made says nothing here
    return OSError(code, f"{os.strerror(code)} ({where or NOT_CONFINED})")


def true_status(gated: Gated, status: int) -> int:
    """The wait status of the program itself, given that of the child. Closes the pipe."""
    if gated.status is None:
        return status
    with os.fdopen(gated.status, "rb") as file:
        said = file.read(20)
    return int(said) if said.isdigit() else status


def _child(program: Program, gate: int, error: int, status: int) -> NoReturn:
    where = "session"
    try:
        os.setsid()
        _plain_signals()
        where = "output"
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(program.output if program.terminal else null, 0)
        os.dup2(program.output, 1)
        os.dup2(program.output, 2)
        if program.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        where = "limits"
        _limits(program)
        where = NOT_CONFINED
        inner = program
        if program.confinement is not None:
            program = _confine(program, program.confinement, error, status)
        where = "working directory"
        os.chdir(program.folder)
        os.umask(0o077)
        if os.read(gate, 1) != _OPEN:
            os._exit(0)
        where = "exec" if program is inner else NOT_CONFINED
        os.execve(program.path, program.arguments, program.env)
    except OSError as failed:
        os.write(error, f"{failed.errno} {where}".encode("ascii"))
    except BaseException:  # nothing may return from here into the supervisor's code
        os.write(error, f"{errno.EINVAL} {where}".encode("ascii"))
    finally:
        os._exit(127)


def _confine(program: Program, confinement: isolation.Confinement, error: int, status: int) -> Program:
    """Confines this process, or gives the sandbox that will confine the program. Raises OSError."""
    if confinement.mode == isolation.USER_ID:
        confine.enter(confinement)
        return program
    bwrap = bubble.find()
    if confinement.mode != isolation.BUBBLEWRAP or bwrap is None:
        raise OSError(errno.ENOSYS, confinement.mode)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    inner = bubble.Inner(program.path, program.arguments, program.env, program.folder)
    fds = (bubble.write_inner(inner, confinement), error, status)
    for fd in fds:
        os.set_inheritable(fd, True)
    command = bubble.command(bwrap, confinement, fds)
    return program._replace(path=bwrap, arguments=command, env=bubble.outer_env(program.env), folder="/")


def _plain_signals() -> None:
    for number in _DEFAULT:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _read_score() -> bytes:
    fd = os.open(_SCORE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 20).strip()
    finally:
        os.close(fd)


def _write_score(score: bytes) -> None:
    try:
        fd = os.open(_SCORE, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # only an order of preference
    try:
        os.write(fd, score)
    except OSError:
        pass
    finally:
        os.close(fd)


def _limits(program: Program) -> None:
    _write_score(_OOM_SCORE)
    cgroups.join(program.groups)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, program.files_limit)
    if program.data_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (program.data_limit, program.data_limit))
