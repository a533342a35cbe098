"""What running members are told of the others: a file in their work folder, made anew whenever that changes.

The folder is the member's own, so it may hold anything under any name: what is written is a fresh file that
takes the name's place, and no link is followed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

from steelyard.engines.local.paths import Layout, is_id

#: Below the member's home.
MEMBERS = "members.json"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def tell(layout: Layout, attempt: str, member: str, text: str) -> None:
    """Put the text into a member's file; nothing happens where its folder is gone."""
    if not is_id(attempt) or not is_id(member):
        return
    with suppress(OSError):
        folder = os.open(layout.member_work(attempt, member), _FOLDER)
        try:
            _put(folder, text.encode())
        finally:
            os.close(folder)


def _put(folder: int, data: bytes) -> None:
    fresh = f".{MEMBERS}.{secrets.token_hex(8)}"
    out = os.open(fresh, _FRESH, 0o644, dir_fd=folder)
    try:
        os.fchmod(out, 0o644)
        os.write(out, data)
        os.replace(fresh, MEMBERS, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(fresh, dir_fd=folder)
        raise
    finally:
        os.close(out)
