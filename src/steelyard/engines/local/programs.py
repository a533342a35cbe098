"""Whether a program can run here, and a library be loaded, told from the files alone; nothing is executed.

Formats: elf(5) (header, PT_INTERP), the kernel's `#!` lines, and glibc's /etc/ld.so.cache (new format,
`glibc-ld.so.cache1.1`, sysdeps/generic/dl-cache.h). Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

#: uname's machine → (ELF class, e_machine) of what the kernel runs: elf.h.
_MACHINES = {
    "x86_64": ((2, 62), (1, 62), (1, 3)),
    "aarch64": ((2, 183), (1, 40)),
    "riscv64": ((2, 243),),
    "loongarch64": ((2, 258),),
    "ppc64le": ((2, 21),),
    "s390x": ((2, 22),),
}
_NAMES = {3: "i386", 62: "x86-64", 40: "ARM", 183: "AArch64", 243: "RISC-V", 258: "LoongArch", 8: "MIPS"}
_HANDLERS = "/proc/sys/fs/binfmt_misc"
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_MAX_CACHE = 32 << 20
#: Binaries that were looked at by this process and can run here, as they were then.
_RUN_HERE: set[tuple[int, int, int, str | None]] = set()
_MOST_KNOWN = 256
_MAX_DEPTH = 4  # of scripts whose interpreter is a script: the kernel's own bound


class Elf(NamedTuple):
    """What the header says. `loader`: the interpreter that it asks for, None where it is static."""

    bits: int  # 1: 32, 2: 64
    machine: int
    loader: str | None


def open_plain(path: str) -> BinaryIO:
    """A plain file, for reading; a named pipe, which would be waited for, is an error. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", path)
    return os.fdopen(fd, "rb")


def read_elf(path: str) -> Elf | None:
    """The header of an ELF file, None of anything else. Raises OSError, and ValueError for a header that
    points nowhere."""
    with open_plain(path) as file:
        head = file.read(64)
        if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] not in (1, 2):
            return None
        order = "<" if head[5] == 1 else ">"
        (machine,) = struct.unpack_from(order + "H", head, 18)
        wide = head[4] == 2
        begin, size, count = (
            (*struct.unpack_from(order + "Q", head, 32), *struct.unpack_from(order + "HH", head, 54))
            if wide
            else (*struct.unpack_from(order + "I", head, 28), *struct.unpack_from(order + "HH", head, 42))
        )
        loader = None
        for index in range(min(count, 128)):
            file.seek(begin + index * size)
            entry = file.read(56 if wide else 32)
            if len(entry) < 32 or struct.unpack_from(order + "I", entry)[0] != 3:  # PT_INTERP
                continue
            if wide and len(entry) < 40:
                break
            at = struct.unpack_from(order + ("Q" if wide else "I"), entry, 8 if wide else 4)[0]
            length = struct.unpack_from(order + ("Q" if wide else "I"), entry, 32 if wide else 16)[0]
            file.seek(at)
            loader = os.fsdecode(file.read(min(length, 4096)).split(b"\0")[0])
            break
    return Elf(head[4], machine, loader)


def problem(path: str, machine: str | None = None) -> tuple[str, str] | None:
    """Why a file that may be executed can't run on this machine: (code, what is wrong), None if it can.

    `program-architecture`: made for another processor; `interpreter-missing`: its loader, or what its first
    line names, is not there or is not executable.
    """
    for _ in range(_MAX_DEPTH):
        try:
            status = os.stat(path)
            which = status.st_dev, status.st_ino, status.st_ctime_ns, machine
            if which in _RUN_HERE:
                return None
            with open_plain(path) as file:
                head = file.read(256)
            if not head.startswith(b"#!"):
                found = _elf_problem(path, machine or os.uname().machine)
                if found is None and len(_RUN_HERE) < _MOST_KNOWN:
                    _RUN_HERE.add(which)
                return found
        except (OSError, ValueError, struct.error):
            return None  # may be executed, but not read: the kernel will say
        words = head[2:].split(b"\n")[0].split()
        if not words:
            return None
        inner = os.fsdecode(words[0])
        if not os.path.isfile(inner) or not os.access(inner, os.X_OK):
            return "interpreter-missing", f"{inner} (#! of {path})"
        path = inner
    return None


def script_interpreter(path: str) -> list[str]:
    """The words of a script's first line, empty where it is no script."""
    try:
        with open_plain(path) as file:
            head = file.read(256)
    except OSError:
        return []
    return [os.fsdecode(word) for word in head[2:].split(b"\n")[0].split()] if head[:2] == b"#!" else []


def _elf_problem(path: str, machine: str) -> tuple[str, str] | None:
    found = read_elf(path)
    able = _MACHINES.get(machine)
    if found is None or able is None:
        return None
    if (found.bits, found.machine) not in able:
        if _has_handlers():
            return None  # the kernel was told how to run what is foreign to it
        name = _NAMES.get(found.machine, str(found.machine))
        return "program-architecture", f"{path}: {name}, here: {machine}"
    if found.loader is not None and not os.path.exists(found.loader):
        return "interpreter-missing", f"{found.loader} (loader of {path})"
    return None


def _has_handlers() -> bool:
    try:
        return bool(set(os.listdir(_HANDLERS)) - {"register", "status"})
    except OSError:
        return False


def find_library(soname: str, search: str = "", root: str = "") -> str | None:
    """Where the loader would find a library for this machine: LD_LIBRARY_PATH, its cache, its folders."""
    able = _MACHINES.get(os.uname().machine)
    folders = [folder for folder in search.split(":") if folder]
    places = [f"{folder}/{soname}" for folder in folders]
    places += [root + path for path in _cached(soname, f"{root}/etc/ld.so.cache")]
    places += [f"{root}{folder}/{soname}" for folder in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")]
    for place in places:
        try:
            found = read_elf(place)
        except (OSError, ValueError, struct.error):
            continue
        if found is not None and (able is None or (found.bits, found.machine) == able[0]):
            return place
    return None


def _cached(soname: str, path: str) -> Iterator[str]:
    """The files of a name in the loader's cache. A cache in another format has none."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_CACHE)
    except OSError:
        return
    base = text.find(_CACHE_MAGIC)
    if base < 0 or len(text) < base + 48:
        return
    (count,) = struct.unpack_from("=I", text, base + 20)
    wanted = os.fsencode(soname)
    for index in range(min(count, (len(text) - base - 48) // 24)):  # keys and values count from `base`
        key, value = struct.unpack_from("=II", text, base + 48 + 24 * index + 4)
        if text[base + key : base + key + len(wanted) + 1] == wanted + b"\0":
            yield os.fsdecode(text[base + value : base + value + 4096].split(b"\0")[0])
