"""What the kernel says of processes. A process is (pid, start time) within one boot, never a pid alone.

Fields of /proc/PID/stat and /proc/PID/status: proc(5). Standard library only: the runner imports this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

#: States in which a process runs nothing any more and holds nothing but its number.
_DEAD = frozenset("ZXx")


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as it is used. Times are in clock ticks."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    cpu: int  # own user and system time
    waited_cpu: int  # of children that it waited for
    start: int
    pages: int

    @property
    def alive(self) -> bool:
        """False for a zombie: it is only waited for."""
        return self.state not in _DEAD


@cache
def boot_id() -> str:
    """Differs after every start of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_process(pid: int) -> Process | None:
    """The process of a number, None where there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)  # one line; read for every process of the machine, so without a file object
    except OSError:
        return None
    finally:
        os.close(fd)
    opening, closing = text.find(b"("), text.rfind(b")")  # the name may hold brackets and spaces
    rest = text[closing + 2 :].split()
    if len(rest) < 22:
        return None
    number = [int(part) for part in rest[1:22]]
    return Process(
        pid=pid,
        name=text[opening + 1 : closing].decode("utf-8", "replace"),
        state=chr(rest[0][0]),
        parent=number[0],
        group=number[1],
        session=number[2],
        cpu=number[10] + number[11],
        waited_cpu=number[12] + number[13],
        start=number[18],
        pages=number[20],
    )


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None where there is no such process."""
    process = read_process(pid)
    return None if process is None else process.start


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process runs: the number of one that ended may be another's by now."""
    process = read_process(pid)
    return process is not None and process.start == start and process.alive


def processes() -> list[Process]:
    """Every process there is now."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for pid in numbers if (process := read_process(pid)) is not None]


class Known:
    """Processes as they were read before, so that a look for young ones reads only those.

    The inode number of /proc/PID tells a process from the next one of its number: the kernel makes a new one
    for each. It comes with the listing, without a call for every process.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[int, int], Process] = {}

    def processes(self, since: int | None) -> list[Process]:
        """Every process there is now. One that started before `since` (clock ticks) is as it was when first
        seen but for its number and start; None: each is read anew."""
        before = self._read
        now: dict[tuple[int, int], Process] = {}
        with os.scandir("/proc") as entries:
            there = [(int(entry.name), entry.inode()) for entry in entries if entry.name.isdigit()]
        for key in there:
            process = before.get(key)
            if process is None or since is None or process.start >= since:
                process = read_process(key[0])
            if process is not None:
                now[key] = process
        self._read = now  # at once: another thread may look at the same time
        return list(now.values())


def descendants(root: int, everyone: Iterable[Process]) -> list[Process]:
    """The living children of a process, theirs, and so on; the process itself is not among them."""
    children: dict[int, list[Process]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(), ()):
            waiting.append(process.pid)
            if process.alive:
                found.append(process)
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty where it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read(4 << 20)
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in text.split(b"\0"))
    return {_text(key): _text(value) for key, _, value in pairs if key}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def catches(pid: int, signum: int) -> bool:
    """Whether a process has a handler for a signal: others would be ended by it."""
    return _in_mask(pid, signum, "SigCgt:")


def ignores(pid: int, signum: int) -> bool:
    """Whether a process ignores a signal."""
    return _in_mask(pid, signum, "SigIgn:")


def _in_mask(pid: int, signum: int, mask: str) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(mask):
                    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    except OSError:
        return False
    return False
