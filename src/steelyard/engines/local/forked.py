"""What a fork of the runner does first and last: it is a process of its own, with nothing of the runner's.

Standard library only.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import NoReturn

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


def become_subreaper() -> bool:
    """Makes descendants that detach come back to this process as children, where the kernel can."""
    return bool(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def set_name(name: str) -> None:
    """The name that ps shows."""
    _LIBC.prctl(_PR_SET_NAME, name.encode("ascii"), 0, 0, 0)


def enter(lock: int, keep: tuple[int, ...] = ()) -> None:
    """First acts after the fork: own session, own name, nothing of the runner's but the lock."""
    os.setsid()
    set_name("steelyard-shim")
    become_subreaper()
    low = 3
    for fd in sorted({lock, *keep}):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def reap() -> None:
    """Takes away ended shims, and what detached from a shim that died before it."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def leave() -> NoReturn:
    """Ends without any of the runner's exit handlers."""
    os._exit(0)
