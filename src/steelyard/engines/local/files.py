"""Small files that are either whole or not there, and folders that are removed without following anything.

Standard library only: the runner imports this.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from typing import Any

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_TOPDIR_FL of linux/fs.h.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x00020000
_MAX_NOTE = 64 << 20
_CHUNK = 1 << 14


def sync_folder(path: str) -> None:
    """Makes names that were just written in a folder last through a power failure."""
    fd = os.open(path, _FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_new(path: str, value: dict[str, Any]) -> tuple[str, int]:
    """A new file beside `path`, and its descriptor; nothing of it is synced."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        fd = os.open(temporary, _CREATE, 0o600)
    except FileExistsError:  # left by a process of the same number that died in between
        os.unlink(temporary)
        fd = os.open(temporary, _CREATE, 0o600)
    try:
        _write_fully(fd, json.dumps(value, separators=(",", ":")).encode("ascii"))
    except OSError:
        os.close(fd)
        os.unlink(temporary)
        raise
    return temporary, fd


def write_json(path: str, value: dict[str, Any]) -> None:
    """Replaces a file: written beside it, fsynced, renamed, the folder fsynced. Raises OSError."""
    temporary, fd = _write_new(path, value)
    try:
        os.fsync(fd)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.rename(temporary, path)
    sync_folder(os.path.dirname(path))


def write_once(path: str, value: dict[str, Any]) -> None:
    """Makes a file that was not there: whole for whoever looks, lasting once this returns. Raises OSError.

    Synced once, after the renaming: the file systems in use commit a new file's name with its content. After
    a power failure in between it may be torn, which reads as not there.
    """
    temporary, fd = _write_new(path, value)
    try:
        os.rename(temporary, path)
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_json(path: str, value: dict[str, Any]) -> None:
    """Replaces a file, whole for whoever looks, but not lasting through a power failure. Raises OSError."""
    temporary, fd = _write_new(path, value)
    os.close(fd)
    os.rename(temporary, path)


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file of ours, None where there is none or it is torn."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        text = _read_fully(fd)
    finally:
        os.close(fd)
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _read_fully(fd: int) -> bytes:
    """What an open file holds, `_MAX_NOTE` bytes at most. Notes are short and read often: without a file
    object, and without room for the longest."""
    text = os.read(fd, _CHUNK)
    if len(text) < _CHUNK:
        return text
    pieces = [text]
    left = _MAX_NOTE - len(text)
    while left > 0 and (piece := os.read(fd, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def read_text(path: str) -> str:
    """A small file of the kernel's, whole; empty where it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    pieces = []
    try:
        while piece := os.read(fd, _CHUNK):
            pieces.append(piece)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def spread(folder: str) -> None:
    """Tells the file system that what is in one folder below this one has nothing to do with what is in the
    next (chattr(1), T), where it knows such a thing: ext4 then puts them apart, and does not make all files
    of today beside those that were removed a moment ago. Never raises."""
    try:
        fd = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        known = bytearray(8)
        fcntl.ioctl(fd, _GET_FLAGS, known)
        flags = int.from_bytes(known[:4], sys.byteorder) | _TOP_OF_HIERARCHIES
        fcntl.ioctl(fd, _SET_FLAGS, flags.to_bytes(4, sys.byteorder) + bytes(4))
    except OSError:
        pass  # another file system
    finally:
        os.close(fd)


def is_empty_folder(path: str) -> bool:
    """Whether this is a folder, no link to one, with nothing in it."""
    try:
        fd = os.open(path, _FOLDER)
    except OSError:
        return False
    try:
        return not os.listdir(fd)
    finally:
        os.close(fd)


def is_real_folder(path: str) -> bool:
    """Whether there is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def touch(path: str) -> None:
    """Makes an empty file; one that is there stays."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def remove_tree(path: str) -> bool:
    """Removes a folder whose content a stranger chose. True when nothing is left.

    Links are removed, never followed. Every inner folder is first moved up beside the outermost, so that
    depth costs neither recursion nor open files. What can't be removed (a mount) stays.
    """
    try:
        parent = open_folder(os.path.dirname(path))
    except OSError:
        return not os.path.lexists(path)
    name = os.path.basename(path)
    try:
        top = open_folder(name, parent)
    except FileNotFoundError:
        os.close(parent)
        return True
    except OSError:  # no folder any more: a file or a link stands in its place
        gone = _unlink(name, parent)
        os.close(parent)
        return gone
    try:
        _empty(top)
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    finally:
        os.close(top)
        os.close(parent)
    return True


def open_folder(name: str, folder: int | None = None) -> int:
    """Opens a folder of ours, also one whose owner, a workload of this user, took its own rights away."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        here = f"/proc/self/fd/{fd}"
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
            os.chmod(here, 0o700)
        return os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def _unlink(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _empty(top: int) -> None:
    prefix = f".gone-{os.urandom(8).hex()}-"
    moved = 0
    waiting = _clear(top)
    while waiting:
        name = waiting.pop()
        inner = open_folder(name, top)
        try:
            for deeper in _clear(inner):
                moved += 1
                os.close(open_folder(deeper, inner))  # to be moved, a folder must be writable itself
                os.rename(deeper, f"{prefix}{moved}", src_dir_fd=inner, dst_dir_fd=top)
                waiting.append(f"{prefix}{moved}")
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)


def _clear(folder: int) -> list[str]:
    """Unlinks what is no folder; the names of the folders in it."""
    inner = []
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if is_folder:
            inner.append(name)
        else:
            os.unlink(name, dir_fd=folder)
    return inner


def measure(path: str, most: int = 10_000) -> tuple[int, int]:
    """(files, bytes) below a folder whose content a stranger chose; links are counted, never followed.

    Looks at `most` entries and no more: of more there are at least so many.
    """
    files = size = seen = 0
    waiting = [path]
    while waiting and seen < most:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        files += 1
                        size += entry.stat(follow_symlinks=False).st_size
        except OSError:  # gone meanwhile, not ours to read, or too deep for a name
            continue
    return files, size


def note_plainly(path: str, value: dict[str, Any]) -> None:
    """A note that may be lost with the machine: written in place, not synced. One that is there already is
    written over, which needs no room on a full disk. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, os.write(fd, json.dumps(value, separators=(",", ":")).encode("ascii")))
    finally:
        os.close(fd)


def note_newly(path: str, value: dict[str, Any]) -> bool:
    """Makes a note where there is none, written in place: whole once this returns, but not lasting through a
    power failure; False where there is one. Raises OSError."""
    try:
        fd = os.open(path, _CREATE, 0o600)
    except FileExistsError:
        return False
    try:
        _write_fully(fd, json.dumps(value, separators=(",", ":")).encode("ascii"))
    except OSError:
        os.unlink(path)  # a part of it is nothing
        raise
    finally:
        os.close(fd)
    return True


def _write_fully(fd: int, data: bytes) -> None:
    """All of it: a disk with some room left takes a part. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def make_below(top: str, path: str, user: int | None) -> None:
    """Makes the folders of a relative path below a folder whose content a stranger may have chosen: a link in
    the way is an error. New ones are `user`'s, if that is not None. Raises OSError."""
    here = os.open(top, _FOLDER)
    try:
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                raise NotADirectoryError(f"{path!r} leaves its folder")
            made = _make_one(name, here, user)
            os.close(here)
            here = made
    finally:
        os.close(here)


def _make_one(name: str, folder: int, user: int | None) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return os.open(name, _FOLDER, dir_fd=folder)
    fd = os.open(name, _FOLDER, dir_fd=folder)
    if user is not None:
        os.fchown(fd, user, user)
    return fd


def read_beneath(folder: str, parts: list[str], limit: int) -> bytes | None:
    """The first bytes of a plain file below a folder, None of anything else. No link is followed and nothing
    is waited for, whoever made the names. Raises OSError."""
    if not parts or any(part in ("", ".", "..") for part in parts):
        return None
    at = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        last = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    try:
        if not stat.S_ISREG(os.fstat(last).st_mode):
            return None
        pieces, left = [], limit
        while left > 0 and (piece := os.read(last, left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(last)
