"""Where the local engine keeps what: one place that turns ids into paths, and lets no other text in.

    DATA/runner.sock, runner.lock, runner.log     the supervisor (DATA is 0700)
    DATA/local/claims/ATTEMPT.json                what was accepted; its existence is the acceptance
    DATA/local/members/MEMBER/                    lock, run.json, stop.json, ready.json, exit.json, swept
    DATA/local/logs/MEMBER.log                    stdout and stderr, kept
    DATA/local/hints                              a FIFO by which shims wake the runner; never the truth
    DATA/local/users.json                         the user id of each project, where projects have one
    DATA/work/ATTEMPT/MEMBER/                     work folder, with artifacts/ and tmp/, which is emptied
"""

from __future__ import annotations

import os
import re

from steelyard.engines.local.files import spread

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def is_id(text: object) -> bool:
    """Whether the text may become part of a path: letters, digits, `_`, `-`; no dots, no slashes."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def checked(text: str) -> str:
    """The id itself. Raises ValueError for anything that is not one."""
    if not is_id(text):
        raise ValueError(f"not an id: {text[:80]!r}")
    return text


class Layout:
    """The paths of one data folder."""

    __slots__ = ("data", "hints", "local", "lock", "log", "socket", "work")

    def __init__(self, data: str) -> None:
        self.data = os.path.abspath(data)
        self.socket = os.path.join(self.data, "runner.sock")
        self.lock = os.path.join(self.data, "runner.lock")
        self.log = os.path.join(self.data, "runner.log")
        self.local = os.path.join(self.data, "local")
        self.hints = os.path.join(self.local, "hints")
        self.work = os.path.join(self.data, "work")

    @property
    def claims(self) -> str:
        """Folder of the claims."""
        return os.path.join(self.local, "claims")

    @property
    def members(self) -> str:
        """Folder of the members' notes."""
        return os.path.join(self.local, "members")

    @property
    def logs(self) -> str:
        """Folder of the logs."""
        return os.path.join(self.local, "logs")

    @property
    def users(self) -> str:
        """The user ids of projects."""
        return os.path.join(self.local, "users.json")

    def make(self) -> None:
        """Makes the folders, all 0700."""
        for folder in (self.data, self.local, self.claims, self.members, self.logs, self.work):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        for folder in (self.local, self.members, self.work):
            spread(folder)

    def claim(self, attempt: str) -> str:
        """The claim of an attempt."""
        return os.path.join(self.claims, checked(attempt) + ".json")

    def notes(self, member: str, name: str = "") -> str:
        """A member's folder of notes, or a file in it."""
        folder = os.path.join(self.members, checked(member))
        return os.path.join(folder, name) if name else folder

    def member_log(self, member: str) -> str:
        """A member's log."""
        return os.path.join(self.logs, checked(member) + ".log")

    def attempt_work(self, attempt: str) -> str:
        """The folder over an attempt's work folders. It stays, so that an id is never used twice."""
        return os.path.join(self.work, checked(attempt))

    def member_work(self, attempt: str, member: str) -> str:
        """A member's work folder."""
        return os.path.join(self.attempt_work(attempt), checked(member))


def short_socket_path(folder_fd: int) -> str:
    """The socket's path by an open folder: a unix socket's own path may have 107 bytes only."""
    return f"/proc/self/fd/{folder_fd}/runner.sock"
