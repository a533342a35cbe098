"""The kernel's tables of what outlives a process or belongs to none: sockets, System V objects, mounts.

Pure functions over the text of the files. Formats: proc(5), sysvipc(7), and the kernel's proc_net_tcp.txt.
Standard library only: the shim imports this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from steelyard.engines.local.files import read_text

LISTENING = "0A"
#: In the permissions of a segment that was removed while somebody is still attached: SHM_DEST.
_REMOVED = 0o1000
_ESCAPE = re.compile(r"\\([0-7]{3})")
TCP = ("/proc/net/tcp", "/proc/net/tcp6")
UNIX = "/proc/net/unix"
SYSTEM_V = {"shm": "/proc/sysvipc/shm", "sem": "/proc/sysvipc/sem", "msg": "/proc/sysvipc/msg"}
MOUNTS = "/proc/self/mountinfo"


def read(path: str) -> str:
    """A table's text, empty where the kernel has none."""
    return read_text(path)


class Listener(NamedTuple):
    """A TCP socket that accepts connections."""

    port: int
    inode: int


def listeners(text: str) -> list[Listener]:
    """The listening sockets of /proc/net/tcp or tcp6, on whatever address."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split(None, 10)
        if len(fields) < 10 or fields[3] != LISTENING:
            continue
        _, _, port = fields[1].rpartition(":")
        found.append(Listener(int(port, 16), int(fields[9])))
    return found


def named_sockets(text: str) -> list[tuple[str, int]]:
    """(path, inode) of the sockets of /proc/net/unix that have a name in the file system."""
    found = []
    for line in text.splitlines()[1:]:
        if "/" not in line:
            continue  # most have no name there
        fields = line.split(None, 7)
        if len(fields) == 8 and fields[7].startswith("/"):
            found.append((fields[7], int(fields[6])))
    return found


class Object(NamedTuple):
    """A System V object. `maker`: the process that made it, as far as the kernel notes it; who used it last
    may be a stranger. `changed`: s UTC."""

    kind: str  # shm | sem | msg
    id: int
    size: int  # bytes; semaphores: how many
    attached: int
    user: int
    maker: int | None
    changed: int
    removed: bool


_COLUMNS = {
    "shm": ("shmid", "size", "nattch", "cpid"),
    "sem": ("semid", "nsems", None, None),
    "msg": ("msqid", "cbytes", None, None),
}


def objects(kind: str, text: str) -> list[Object]:
    """The objects of /proc/sysvipc/shm, sem or msg; columns are found by their names."""
    lines = text.splitlines()
    names = lines[0].split() if lines else []
    number, size, attached, maker = _COLUMNS[kind]
    found = []
    for line in lines[1:]:
        fields = dict(zip(names, line.split(), strict=False))
        if number not in fields or not fields.get("ctime", "").isdigit():
            continue
        found.append(
            Object(
                kind, int(fields[number]), int(fields[size]), int(fields[attached]) if attached else 0,
                int(fields["cuid"]), int(fields[maker]) if maker else None,
                int(fields["ctime"]), bool(int(fields["perms"], 8) & _REMOVED),
            )
        )  # fmt: skip
    return found


def all_objects() -> list[Object]:
    """Every System V object of this IPC namespace of a kind of which the kernel notes who made it: of others
    nobody can tell whose they are."""
    kinds = [kind for kind, (_, _, _, maker) in _COLUMNS.items() if maker is not None]
    return [one for kind in kinds for one in objects(kind, read(SYSTEM_V[kind]))]


def mount_points(text: str) -> list[str]:
    """Where something is mounted, in order of mounting, from /proc/PID/mountinfo."""
    fields = (line.split(" ", 6) for line in text.splitlines())
    return [_ESCAPE.sub(lambda m: chr(int(m[1], 8)), one[4]) for one in fields if len(one) > 5]


def mounts_below(folder: str, points: Iterable[str] | None = None) -> list[str]:
    """What is mounted at or below a folder, the deepest first."""
    known = mount_points(read(MOUNTS)) if points is None else points
    below = [point for point in known if point == folder or point.startswith(folder + "/")]
    return sorted(below, key=lambda point: (-point.count("/"), point))
