"""Entering the surroundings of a process that runs: its namespaces, its user, its privileges, and no more.

Whoever enters becomes what the process is; nothing of the supervisor's own rights is left afterwards.
setns(2), user_namespaces(7), capabilities(7), prctl(2). Standard library only: the runner imports this.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

from steelyard.engines.local import confine, procfs

_LIBC = ctypes.CDLL(None, use_errno=True)
_KINDS = ("cgroup", "ipc", "uts", "net", "pid", "mnt")
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _AMBIENT_CLEAR = 4, 24, 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_NS_GET_USERNS = 0xB701  # ioctl_ns(2)


class Identity(NamedTuple):
    """Who a process is, in the words of its own user namespace; `outer`: its user id as it is called here."""

    outer: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    effective: int  # capabilities
    bounding: int
    no_new_privileges: bool


def identity(pid: int) -> Identity | None:
    """Who a process is; None where it is gone."""
    fields: dict[str, list[str]] = {}
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                fields[key] = value.split()
        groups = tuple(_mapped(pid, "gid", int(one)) for one in fields["Groups"])
        outer = int(fields["Uid"][1])
        return Identity(
            outer, _mapped(pid, "uid", outer), _mapped(pid, "gid", int(fields["Gid"][1])), groups,
            int(fields["CapEff"][0], 16), int(fields["CapBnd"][0], 16), fields["NoNewPrivs"] == ["1"],
        )  # fmt: skip
    except (OSError, KeyError, IndexError, ValueError):
        return None


def _mapped(pid: int, kind: str, number: int) -> int:
    """An id as it is called here, as the process's user namespace calls it. Raises OSError where it has no
    name there. user_namespaces(7): read from outside, the map's second column is our own id."""
    with open(f"/proc/{pid}/{kind}_map", encoding="ascii") as file:
        for line in file:
            inner, outer, count = (int(part) for part in line.split())
            if outer <= number < outer + count:
                return inner + number - outer
    raise PermissionError(1, f"{kind} {number} is not known in the user namespace")


def _space(pid: int | str, kind: str) -> tuple[int, int] | None:
    try:
        status = os.stat(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_apart(pid: int) -> bool:
    """Whether a process has mounts of its own: it is not in the supervisor's surroundings."""
    return _space(pid, "mnt") not in (None, _space("self", "mnt"))


def inside(child: int, user: int | None) -> tuple[int, Identity] | None:
    """An isolated member's program, and who it is; None while it is not there yet.

    Its child, or, where that waits outside, the first below it: what has mounts of its own, has given up
    every privilege for good and, if its project has a user, is that user. What still makes the surroundings,
    or waits in them for the program, is not meant: it may be more.
    """
    below = [one.pid for one in procfs.descendants(child, procfs.processes())]
    for pid in (child, *below):
        who = identity(pid) if is_apart(pid) else None
        if who is None or who.effective or not who.no_new_privileges or user not in (None, who.outer):
            continue
        return pid, who
    return None


def enter(pid: int) -> bool:
    """Enters the namespaces of a process that are not ours; True when only children are in its pid
    namespace. To be called by a process of one thread. Raises OSError."""
    wanted = [kind for kind in _KINDS if _space(pid, kind) not in (None, _space("self", kind))]
    handles = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in (*wanted, "user")]
    here = os.stat("/proc/self/ns/user").st_ino  # now: once inside, /proc may be another's
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # what is inside must not read the supervisor's memory in us
    try:
        if len(handles) > 1 and os.geteuid() != 0:
            here = _enter_owner(handles[-2], here)  # who is not root has rights in a namespace as its owner
        for handle in handles[:-1]:
            _setns(handle)
        if os.fstat(handles[-1]).st_ino != here:
            _setns(handles[-1])
    finally:
        for handle in handles:
            os.close(handle)
    return "pid" in wanted


def _enter_owner(handle: int, here: int) -> int:
    """The user namespace that owns a namespace: not always the one that the process is in."""
    owner = _LIBC.ioctl(handle, _NS_GET_USERNS)
    if owner < 0:
        raise OSError(ctypes.get_errno(), "owner of a namespace")
    try:
        if os.fstat(owner).st_ino != here:
            _setns(owner)
        return os.fstat(owner).st_ino
    finally:
        os.close(owner)


def _setns(handle: int) -> None:
    if _LIBC.setns(handle, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} (setns)")


def become(who: Identity) -> None:
    """Takes on the user, groups and privileges, and leaves every keyring. Nothing leads back. Raises
    OSError."""
    confine.leave_keyrings()
    _drop_bounding(who.bounding)
    if sorted(os.getgroups()) != sorted(who.groups):
        os.setgroups(who.groups)
    if os.getresgid() != (who.gid,) * 3:
        os.setresgid(who.gid, who.gid, who.gid)
    if os.getresuid() != (who.uid,) * 3:
        os.setresuid(who.uid, who.uid, who.uid)
    _LIBC.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    _limit_capabilities(who.effective)
    if who.no_new_privileges:
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _drop_bounding(keep: int) -> None:
    for number in range(64):
        if not keep >> number & 1:
            _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # refused where it is not there or not ours


def _limit_capabilities(keep: int) -> None:
    """Permitted, effective and inheritable: what is in `keep`, at most what there is. Raises OSError."""
    head = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = ctypes.create_string_buffer(24)
    if _LIBC.capget(head, data) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    low = struct.unpack("=6I", data.raw)
    effective = (low[0] | low[3] << 32) & keep
    permitted = (low[1] | low[4] << 32) & keep
    parts = [effective, permitted, 0]
    new = struct.pack("=6I", *(one & 0xFFFFFFFF for one in parts), *(one >> 32 for one in parts))
    if _LIBC.capset(head, new) != 0:
        raise OSError(ctypes.get_errno(), "capset")
