"""The confinement of one member, made from its claim. Standard library only: the runner imports this."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from steelyard.engines.local import surroundings
from steelyard.engines.local.files import read_json
from steelyard.engines.local.isolation import HOST, NONE, Confinement, hides, wished
from steelyard.engines.local.paths import Layout, is_id

#: In an attempt's members.json, beside the places, which all hold a slash.
PROJECT = "project"
#: The last surroundings of programs with a user id of their own: the same for all of them. A shim, which is a
#: fork of the runner, finds here what the runner found.
_KNOWN: dict[surroundings.Needs, surroundings.Surroundings] = {}


def of(
    layout: Layout, attempt: dict[str, Any], member: dict[str, Any], env: Mapping[str, str]
) -> Confinement | None:
    """What is put around a member; None where nothing is. `env`: its environment."""
    mode, network, shared = wished(attempt)
    if mode == NONE:
        return None
    user = user_of(attempt)
    work = layout.member_work(attempt["attempt"], member["member"])
    devices = member.get("devices") or []
    own = () if user is not None else _own(layout, attempt, [*member["command"], *env.values()])
    return Confinement(
        mode=mode,
        network=network if member["port"] is None else HOST,
        user=user,
        surroundings=around(layout, user, (work,), (*shared, *own)),
        temporary=os.path.join(work, "tmp"),
        devices=bool(devices),
        groups=groups_of(path for device in devices for path in device.get("files", ())),
        hide=hides(attempt),
    )


def user_of(attempt: Mapping[str, Any]) -> int | None:
    """The user id of an attempt's project, None where its programs run as the supervisor's user."""
    user = (attempt.get("isolation") or {}).get("user")
    return user if isinstance(user, int) and user > 0 else None


def give(path: str, attempt: Mapping[str, Any]) -> None:
    """Makes a folder the project's, unless it is already; a link is an error. Raises OSError."""
    user = user_of(attempt)
    if user is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != user:
            os.fchown(fd, user, user)
    finally:
        os.close(fd)


def hand_over(layout: Layout, before: str | None, user: int) -> None:
    """Makes what an attempt of before left the project's, where that ran as the supervisor's own user. Files
    with several names stay as they are: one of the names may be anywhere."""
    if before is None:
        return
    over = layout.attempt_work(before)
    with suppress(OSError):
        if os.lstat(over).st_gid == user:
            return
        for _, folders, files, fd in os.fwalk(over, follow_symlinks=False):
            for name in (*folders, *files):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if (plain or stat.S_ISDIR(status.st_mode)) and name != "members.json":
                    os.chown(name, user, user, dir_fd=fd, follow_symlinks=False)
        os.chown(over, 0, user)
        os.chmod(over, 0o710)


def around(
    layout: Layout, user: int | None, writable: tuple[str, ...], readable: tuple[str, ...]
) -> surroundings.Surroundings:
    """The surroundings of a program. With a user id of its own the kernel keeps it from other projects' work
    folders, so all of them may be there; as the server's user it sees those that are named, and no home."""
    home = os.path.expanduser("~")
    own = user is None
    needs = surroundings.Needs(
        sealed=(layout.data, os.path.join(home, ".config", "steelyard")),
        writable=writable if own else (layout.work,),
        readable=(*surroundings.prefixes(), *(path for path in readable if os.path.isdir(path))),
        home=home if own else None,
        services=own,
    )
    if own:
        return surroundings.describe(needs, lambda _path: True)
    found = _KNOWN.get(needs)
    if found is None:
        _KNOWN.clear()  # what was shared a while ago is not kept for good
        found = _KNOWN[needs] = surroundings.describe(needs)
    return found


def hidden(confinement: Confinement, folder: str, command: list[str], requires: list[str]) -> str | None:
    """A path that a program was told and will not find, for it is covered; None where there is none.

    Whether it exists is not looked at: nobody is to learn that of what is hidden.
    """
    there = confinement.surroundings
    required = (text.partition(":")[2] or text for text in requires)
    places = [folder, *(word for word in (*command[:1], *required) if word.startswith("/"))]
    if found := next((path for path in places if there.hides(path)), None):
        return found
    words = (word for word in command[1:] if word.startswith("/"))
    return next((word for word in words if there.hides(word, temporary=False)), None)


def _own(layout: Layout, attempt: dict[str, Any], texts: Iterable[str]) -> list[str]:
    """The work folders of the same project's other attempts that a text names."""
    found = []
    begin = layout.work + "/"
    named = {part.partition("/")[0] for text in texts for part in text.split(begin)[1:]}
    for name in sorted(named):
        if is_id(name) and name != attempt["attempt"]:
            folder = layout.attempt_work(name)
            noted = (read_json(os.path.join(folder, "members.json")) or {}).get(PROJECT)
            if noted is not None and noted == attempt["project"]:
                found.append(folder)
    return found


def groups_of(files: Iterable[str]) -> tuple[int, ...]:
    """The groups that may open these device files."""
    found = set()
    for path in files:
        with suppress(OSError):
            found.add(os.stat(path).st_gid)
    return tuple(sorted(found - {0}))
