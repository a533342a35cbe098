"""What a program can leave behind that no process's end takes away: whose it is, and how it is removed.

Shared memory, semaphores and message queues belong to nobody's process. In a namespace of its own (isolation)
they end with it; without one, only what the kernel or its own name ties to a process of the member is the
member's for certain, and nothing else is ever touched. shmctl(2), umount(2). Standard library only: the shim
imports this.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable

from steelyard.engines.local.kerneltables import Object, all_objects

SHARED_FOLDER = "/dev/shm"
_REMOVE = 0  # IPC_RMID
_NOFOLLOW = 8  # UMOUNT_NOFOLLOW
_NUMBERS = re.compile(r"[0-9]+")
_LIBC = ctypes.CDLL(None, use_errno=True)


def is_its(one: Object, pids: frozenset[int], since: int) -> bool:
    """Whether a System V object was made by one of these processes since then (s UTC)."""
    return one.maker in pids and one.changed >= since


def shared_files(since: int = 0) -> list[tuple[str, os.stat_result]]:
    """Files of POSIX shared memory; none where none was made since then (s UTC)."""
    try:
        if int(os.stat(SHARED_FOLDER).st_mtime) < since:
            return []  # a new name changes its folder
        with os.scandir(SHARED_FOLDER) as entries:
            found = [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []  # none there, or one went while we looked: the next look sees the rest
    return found


def is_its_memory(
    path: str, status: os.stat_result, pids: frozenset[int], ids: tuple[str, ...], since: int
) -> bool:
    """Whether a file of shared memory bears the number of one of these processes, or one of these ids."""
    if status.st_ctime < since or status.st_uid != os.geteuid():
        return False  # older, or another user's; a project that has one of its own has its own folder, too
    name = os.path.basename(path)
    numbers = {int(one) for one in _NUMBERS.findall(name) if len(one) < 10}
    return bool(numbers & pids) or any(one in name for one in ids)


def remove_memory(pids: Iterable[int], ids: tuple[str, ...], since: int) -> tuple[int, int]:
    """Removes what is theirs for certain; (how many, bytes). What is still attached stays until it is not."""
    known = frozenset(pids)
    count = size = 0
    for one in all_objects():
        if is_its(one, known, since) and not one.removed and _remove(one):
            count, size = count + 1, size + (one.size if one.kind != "sem" else 0)
    for path, status in shared_files(since):
        if not is_its_memory(path, status, known, ids, since):
            continue
        named = any(one in os.path.basename(path) for one in ids)
        if (named or not _is_mapped(path)) and _unlink(path):
            count, size = count + 1, size + status.st_size
    return count, size


def _is_mapped(path: str) -> bool:
    """Whether a living process has it in its memory: a number in a name may be there by chance."""
    wanted = f" {path}\n".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/maps", "rb") as file:
                if wanted in file.read():
                    return True
        except OSError:
            continue
    return False


def _remove(one: Object) -> bool:
    if one.kind == "shm":
        return bool(_LIBC.shmctl(one.id, _REMOVE, None) == 0)
    if one.kind == "sem":
        return bool(_LIBC.semctl(one.id, 0, _REMOVE) == 0)
    return bool(_LIBC.msgctl(one.id, _REMOVE, None) == 0)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def unmount(point: str) -> bool:
    """Takes a mount away; False where it is in use, or not ours to take away."""
    return bool(_LIBC.umount2(os.fsencode(point), _NOFOLLOW) == 0)
