"""Confining the calling process, a forked child that is about to execute a member's program (mode user-id).

A dozen calls of the kernel and no other program: what costs 7 ms as a command costs well under one here.
Call numbers and flags: the kernel's uapi headers (sched.h, mount.h, prctl.h, capability.h); unshare(2),
mount(2), proc(5) for `hidepid`, capabilities(7), keyctl(2). Standard library only: the runner imports this.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct

from steelyard.engines.local.isolation import PRIVATE, Confinement
from steelyard.engines.local.surroundings import COVER, READ, TEMPORARY, Step

_NEWNS, _NEWIPC, _NEWNET = 0x0002_0000, 0x0800_0000, 0x4000_0000
_NOSUID, _NODEV, _NOEXEC, _RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 2, 4, 8, 1, 32, 4096, 16384, 1 << 19
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
_LAST_CAPABILITY = 63  # of any kernel: those that it does not know are refused, which is as good
_CAPABILITY_VERSION = 0x2008_0522
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
#: Device files that a program may expect everywhere: name → (major, minor).
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
            "tty": (5, 0), "ptmx": (5, 2)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
          "stderr": "/proc/self/fd/2"}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_LIBC.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_LIBC.syscall.restype = ctypes.c_long


def enter(confinement: Confinement) -> None:
    """New namespaces, covered folders, the project's user id, no privileges. Raises OSError; half done then,
    so that the process has to end."""
    _unshare(_NEWNS | _NEWIPC | (_NEWNET if confinement.network == PRIVATE else 0))
    if confinement.network == PRIVATE:
        _loopback_up()
    os.umask(0o022)  # what is made below is for the program to pass through
    _mount("none", "/", None, _REC | _SLAVE)
    _surround(confinement)
    _devices(confinement.devices)
    os.umask(0o077)
    if confinement.hide:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC, "hidepid=invisible")
    if confinement.user is not None:
        become(confinement.user, confinement.groups)
    renounce()


def become(user: int, groups: tuple[int, ...] = ()) -> None:
    """Takes the user and group id, for good, and leaves every other group and keyring. Raises OSError."""
    leave_keyrings()
    for capability in range(_LAST_CAPABILITY + 1):
        if _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel knows no further one
    os.setgroups(groups)
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def leave_keyrings() -> None:
    """The process has a session keyring of its own, where the kernel has keyrings at all."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        _LIBC.syscall(ctypes.c_long(number), _JOIN_SESSION_KEYRING, None, 0, 0, 0)


def renounce() -> None:
    """No capability is left, and no program that is executed from here on gives any. Raises OSError."""
    _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _check(_LIBC.capset(header, bytes(24)), "capset")
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _surround(confinement: Confinement) -> None:
    """Carries out the steps. What is put back is opened before anything covers it."""
    opened: dict[str, int] = {}
    try:
        for step in confinement.surroundings.steps:
            if step.act != COVER:
                source = confinement.temporary if step.act == TEMPORARY else step.path
                opened[step.path] = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for step in confinement.surroundings.steps:
            _carry_out(step, opened)
    finally:
        for fd in opened.values():
            os.close(fd)


def _carry_out(step: Step, opened: dict[str, int]) -> None:
    if not os.path.isdir(step.path):  # below a cover, which is empty
        os.makedirs(step.path, 0o755)
    if step.act == COVER:
        _mount("none", step.path, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0755,size=1m,nr_inodes=1k")
        return
    _mount(f"/proc/self/fd/{opened[step.path]}", step.path, None, _BIND | _REC)
    if step.act == READ:
        _mount("none", step.path, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV)


def _devices(all_of_them: bool) -> None:
    """A folder of device files without any accelerator; else the machine's, with shared memory of its own.

    Terminals stay the machine's: each is its user's own, and a supervisor may have made one for the program.
    """
    if all_of_them:
        _mount("none", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")
        return
    terminals = os.open("/dev/pts", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount("none", "/dev", "tmpfs", _NOSUID | _NOEXEC, "mode=0755")
    before = os.umask(0)  # device files are everybody's
    for name, (major, minor) in _DEVICES.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm", 0o1777)
    os.mkdir("/dev/pts", 0o755)
    os.umask(before)
    _mount(f"/proc/self/fd/{terminals}", "/dev/pts", None, _BIND)
    os.close(terminals)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
        fcntl.ioctl(door, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _unshare(flags: int) -> None:
    _check(_LIBC.unshare(flags), "unshare")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    said = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(_LIBC.mount(said[0], said[1], said[2], flags, said[3]), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
