"""What an isolated program finds in place of the machine's folders: which are covered, and what is put back.

One list of steps serves both ways to make it real, the kernel's calls (confine.py) and bwrap's arguments
(bubble.py):

- `/tmp` and `/var/tmp` are the member's own temporary folder; it is removed when the member ends.
- An empty folder covers the data folder, the server's own configuration, where programs run as the server's
  user its home, and every folder over something needed that a stranger could not enter.
- What is needed below a cover is put back at its own path: the work folders, and, to be read only, the
  interpreter that the server itself runs in and the folders that the operator shares.

Standard library only: the runner imports this.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

COVER, TEMPORARY, READ, WRITE = "cover", "temporary", "read", "write"
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")
#: Of the system's services that an ordinary user may talk to some would start a program outside.
_SERVICES = "/run"
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")


class Step(NamedTuple):
    """What is done at a path: COVER, TEMPORARY (the member's own folder), READ or WRITE (put back)."""

    path: str
    act: str


class Surroundings(NamedTuple):
    """The steps, outer folders first."""

    steps: tuple[Step, ...]

    def hides(self, path: str, *, temporary: bool = True) -> bool:
        """Whether an absolute path of the machine is not there for the program. `temporary`: also where it
        is hidden by the member's own temporary folder."""
        over = _nearest(os.path.realpath(path), self.steps)
        return over is not None and (over.act == COVER or (temporary and over.act == TEMPORARY))

    def between(self, path: str) -> list[str]:
        """The folders that have to be made for a path to be put back, outermost first."""
        over = _nearest(os.path.dirname(path), self.steps)
        if over is None or over.act not in (COVER, TEMPORARY):
            return []
        inner = path[len(over.path) :].strip("/").split("/")[:-1]
        return ["/".join([over.path, *inner[: count + 1]]) for count in range(len(inner))]


class Needs(NamedTuple):
    """What members need, and what they must not see. Paths that don't exist are passed over.

    `sealed` stay covered whatever is shared; `home` may be shared; `services`: cover /run, too.
    """

    sealed: tuple[str, ...]
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    home: str | None = None
    services: bool = False


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it. Both absolute and without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def interpreter() -> str:
    """The interpreter that this process runs in."""
    return os.path.realpath(sys.executable)


def prefixes() -> tuple[str, ...]:
    """Where the interpreter of the server and its packages are, this one and its examples among them."""
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(interpreter())]
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    examples = os.path.join(os.path.dirname(os.path.dirname(package)), "examples")
    return tuple(dict.fromkeys([*places, package, examples]))


def stranger_may_enter(path: str) -> bool:
    """Whether a user that owns nothing here may pass through a folder."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IXOTH)
    except OSError:
        return True  # not there: nothing to cover


def describe(needs: Needs, may_enter: Callable[[str], bool] = stranger_may_enter) -> Surroundings:
    """The steps that come to these needs; those that change nothing are left out. Links are followed once."""
    acts = {path: TEMPORARY for path in _real(TEMPORARY_FOLDERS)}
    acts.update((path, COVER) for path in _real((needs.home, _SERVICES if needs.services else None)))
    wanted = {path: READ for path in _real((*needs.readable, *(_RESOLVERS if needs.services else ())))}
    wanted.update((path, WRITE) for path in _real(needs.writable))
    for path in wanted:
        acts.update((over, COVER) for over in _barred(path, may_enter) if over not in acts)
    acts.update(wanted)
    acts.update((path, COVER) for path in _real(needs.sealed))
    steps: list[Step] = []
    for path, act in sorted(acts.items()):
        over = _nearest(path, steps)
        if not _is_idle(act, None if over is None else over.act):
            steps.append(Step(path, act))
    return Surroundings(tuple(steps))


def _is_idle(act: str, over: str | None) -> bool:
    """Whether a step changes nothing below the step that is over it."""
    if act == COVER:
        return over in (COVER, TEMPORARY)
    return act == READ and over in (None, READ)


def _real(paths: Iterable[str | None]) -> list[str]:
    found = (os.path.realpath(path) for path in paths if path and os.path.isdir(path))
    return [path for path in found if path != "/"]


def _nearest(path: str, steps: Iterable[Step]) -> Step | None:
    over = [step for step in steps if is_below(path, step.path)]
    return max(over, key=lambda step: len(step.path), default=None)


def _barred(path: str, may_enter: Callable[[str], bool]) -> list[str]:
    """The outermost folder over a path that can't be passed; empty where the way is free."""
    parts = path.strip("/").split("/")
    over = ("/" + "/".join(parts[:count]) for count in range(1, len(parts)))
    return next(([folder] for folder in over if not may_enter(folder)), [])
