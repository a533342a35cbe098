"""The sandbox of bwrap(1) around a program: its arguments, and the process inside that reports how it ended.

bwrap tells of a program that a signal ended only as a shell does (128 and the number), and of one that could
not be executed nothing at all. So what it executes is a small process of our own: it starts the program,
says that it runs or why it does not, waits, and hands on the status as the kernel gave it. What it needs it
reads from a memory file: neither the program's environment nor its arguments stand in a command line, and no
variable of a member (LD_PRELOAD) reaches bwrap, which is outside of the sandbox.

Terminating signals are ignored by bwrap and by the process inside, which the supervisor signals with all
others: they end when the program does. Standard library only: the runner imports this.
"""

from __future__ import annotations

import marshal
import os
import sys
from typing import NamedTuple

from steelyard.engines.local.isolation import PRIVATE, Confinement
from steelyard.engines.local.surroundings import COVER, READ, TEMPORARY

PROGRAM = "bwrap"
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin")
_MARKS = ("STEELYARD_INSTALL", "STEELYARD_ATTEMPT", "STEELYARD_MEMBER")
_COVER_BYTES = str(1 << 20)
#: First word on the error pipe of a program that runs.
RUNS = b"0 exec"
_INSIDE = """
import marshal, os, signal, sys
spec, error, status = map(int, sys.argv[1:4])
path, arguments, env, folder, user, groups = marshal.loads(os.pread(spec, os.fstat(spec).st_size, 0))
for fd in (spec, error, status):
    os.set_inheritable(fd, False)
read, write = os.pipe()
child = os.fork()
if child == 0:
    where = 'signals'
    try:
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
        where = 'user'
        if user is not None:
            os.setgroups(groups)
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        where = 'working directory'
        os.chdir(folder)
        where = 'exec'
        os.execve(path, arguments, env)
    except OSError as failed:
        os.write(write, f'{failed.errno} {where}'.encode())
    os._exit(127)
os.close(write)
os.write(error, os.read(read, 200) or b'0 exec')
os.close(error)
os.write(status, b'%d' % os.waitpid(child, 0)[1])
os._exit(0)
"""


class Inner(NamedTuple):
    """What is executed within: as `launch.Program` has it."""

    path: str
    arguments: list[str]
    env: dict[str, str]
    folder: str


def find() -> str | None:
    """The sandbox's program, None where it is not installed."""
    places = (f"{place}/{PROGRAM}" for place in _PLACES)
    return next((path for path in places if os.access(path, os.X_OK)), None)


def outer_env(env: dict[str, str]) -> dict[str, str]:
    """The environment of bwrap itself: the marks by which a member's processes are known, and no more."""
    marks = [(key, env[key]) for key in _MARKS if key in env]
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **dict(marks)}


def write_inner(inner: Inner, confinement: Confinement) -> int:
    """A memory file that the process inside reads. Raises OSError."""
    fd = os.memfd_create("member", 0)  # to be inherited
    said = (inner.path, inner.arguments, inner.env, inner.folder, confinement.user, confinement.groups)
    data = memoryview(marshal.dumps(said))
    while data:
        data = data[os.write(fd, data) :]
    return fd


def command(bwrap: str, confinement: Confinement, fds: tuple[int, int, int]) -> list[str]:
    """The arguments of bwrap. `fds`: the memory file, the error pipe, the pipe for the status."""
    words = [bwrap, "--ro-bind", "/", "/", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
    words += ["--unshare-net"] if confinement.network == PRIVATE else []
    if confinement.devices:
        words += ["--dev-bind", "/dev", "/dev"]
    else:
        words += ["--dev", "/dev"]
    words += ["--perms", "1777", "--tmpfs", "/dev/shm"]
    words += ["--proc", "/proc"]
    for step in confinement.surroundings.steps:
        if step.act == COVER:
            words += ["--perms", "0755", "--size", _COVER_BYTES, "--tmpfs", step.path]
        elif step.act == TEMPORARY:
            words += ["--bind", confinement.temporary, step.path]
        else:
            for folder in confinement.surroundings.between(step.path):  # bwrap's own would be 0700
                words += ["--perms", "0755", "--dir", folder]
            words += ["--ro-bind" if step.act == READ else "--bind", step.path, step.path]
    for step in confinement.surroundings.steps:
        words += ["--remount-ro", step.path] if step.act == COVER else []
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    inside = [sys.executable, "-I", "-S", "-c", _INSIDE, *map(str, fds)]
    return [*words, "--chdir", "/", "--", *inside]
