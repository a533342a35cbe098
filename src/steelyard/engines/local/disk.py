"""The free space below which nothing new is started on this machine."""

from __future__ import annotations

import os

_MIB = 1 << 20


class Floor:
    """Reached once less than `least` MiB are free, and left only with an eighth more: a disk about as full as
    that must not go in and out of service with each file."""

    def __init__(self, folder: str, least: int) -> None:
        self._folder = folder
        self._least = least
        self._below = False

    def reached(self) -> bool:
        """Whether nothing new may start now. A disk that can't be asked is not held to be full."""
        free = free_space(self._folder)
        if free is None or self._least <= 0:
            return False
        self._below = free < self._least + (self._least // 8 if self._below else 0)
        return self._below


def free_space(folder: str) -> int | None:
    """MiB that an ordinary user may still write, None where it can't be told."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize // _MIB
