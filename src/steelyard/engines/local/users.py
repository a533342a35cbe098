"""A user id for each project of one data folder, remembered for good and never another project's.

The ids are taken at random from a range that systemd's table of ids leaves unused (1879048192 to 2147483647,
UIDS-GIDS), so that two installations on one machine, which know nothing of each other, don't meet. Where a
user namespace maps fewer ids, from the upper half of its last range. Standard library only: the runner
imports this.
"""

from __future__ import annotations

import os

from steelyard.engines.local.files import read_json, write_json

_FIRST, _END = 1_879_048_192, 2_147_483_647
_LEAST = 1_000  # of a range that is worth being drawn from
_LOWEST = 10_000  # below are the ids of people and services
_UID_MAP = "/proc/self/uid_map"


class UserBook:
    """The ids. The file is the truth: one that can't be read gives no ids, for it may name any of them."""

    def __init__(self, path: str, mapped: str = _UID_MAP) -> None:
        self._path = path
        self._range = _usable(mapped)
        self._users: dict[str, int] | None = None

    def user_of(self, project: str) -> int:
        """The id of a project, written down before it is given. Raises OSError."""
        users = self._load()
        if project in users:
            return users[project]
        if self._range is None:
            raise OSError("this user namespace maps too few user ids")
        taken = set(users.values())
        first, end = self._range
        user = first + _random(end - first)
        while user in taken:
            user = first + _random(end - first)
        write_json(self._path, {**users, project: user})
        users[project] = user
        return user

    def spare(self) -> int | None:
        """An id that no project has, for a trial; None where there are none."""
        return None if self._range is None else self._range[1]

    def _load(self) -> dict[str, int]:
        if self._users is None:
            found = read_json(self._path)
            if found is None and os.path.lexists(self._path):
                raise OSError(f"{self._path} can't be read")
            self._users = {str(project): int(user) for project, user in (found or {}).items()}
        return self._users


def _random(below: int) -> int:
    return int.from_bytes(os.urandom(8), "big") % below


def _usable(path: str) -> tuple[int, int] | None:
    """(first, end) of the ids to draw from; the end itself is never drawn."""
    with open(path, encoding="ascii") as file:
        ranges = [(int(words[0]), int(words[0]) + int(words[2])) for line in file if (words := line.split())]
    first, end = max(ranges, key=lambda one: one[1], default=(0, 0))
    if first <= _FIRST and end > _END:
        return _FIRST, _END
    first = max(first + (end - first) // 2, _LOWEST)
    return (first, end - 1) if end - 1 - first >= _LEAST else None
