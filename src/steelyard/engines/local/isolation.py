"""How members of different projects are kept apart on one machine: the modes, the choice, what each enforces.

    none         every program runs as the supervisor's own user; nothing keeps projects apart
    user-id      each project has a user id of its own, in namespaces of mounts and of IPC of its own (root)
    bubblewrap   the sandbox of bwrap(1), which an ordinary user may have; as root with the project's user id
    container    an image run by a container runtime

The operator wishes for a mode, or for `auto`: the first of PREFERENCE that the machine can do. What was
wished for by name and can't be had is refused, never replaced by something weaker. Nothing here looks at the
machine: see ability.py. Standard library only: the runner imports this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from steelyard.engines.local.surroundings import Surroundings

NONE, USER_ID, BUBBLEWRAP, CONTAINER = "none", "user-id", "bubblewrap", "container"
MODES = (NONE, USER_ID, BUBBLEWRAP, CONTAINER)
AUTO = "auto"
#: The strongest first. `none` can always be had; a container needs an image, so nobody gets one unasked.
PREFERENCE = (USER_ID, BUBBLEWRAP, NONE)
HOST, PRIVATE = "host", "private"
NETWORKS = (HOST, PRIVATE)

#: What can be kept apart; what a member's isolation does not enforce of these is said to be `not-enforced`.
FILES = "files"  # other projects' work folders and logs, the server's own files, its user's home
PROCESSES = "processes"  # seeing, reading the environment of, and tracing what is not the project's
SIGNALS = "signals"
IPC = "ipc"  # shared memory, semaphores, message queues: System V and POSIX
TEMPORARY_FILES = "temporary-files"  # /tmp, /var/tmp, /dev/shm
PRIVILEGES = "privileges"  # programs with a set-user-id bit or file capabilities give none
DEVICES = "devices"  # accelerators that were not given to the member
NETWORK = "network"  # ports on loopback, sockets with abstract names
ASPECTS = (FILES, PROCESSES, SIGNALS, IPC, TEMPORARY_FILES, PRIVILEGES, DEVICES, NETWORK)
_ALWAYS = (FILES, PROCESSES, SIGNALS, IPC, TEMPORARY_FILES, PRIVILEGES)


class Wish(NamedTuple):
    """What the operator declared of a cluster. `shared`: folders that members may read, and no more."""

    mode: str = AUTO
    network: str = HOST
    shared: tuple[str, ...] = ()


AUTOMATIC = Wish()


def wish_of(said: Mapping[str, Any] | None) -> Wish:
    """The wish of a declared cluster: `isolation: {mode, network, sharedFolders}` as it was accepted."""
    said = said or {}
    return Wish(said.get("mode", AUTO), said.get("network", HOST), tuple(said.get("sharedFolders", ())))


class Choice(NamedTuple):
    """The mode that a wish comes to here; None where it can't be had, and `text` says why."""

    mode: str | None
    text: str = ""
    hide: bool = True  # processes of others are hidden, where the mode is one that hides them


class Confinement(NamedTuple):
    """What is put around one program. `user`: the project's user and group id, None: the supervisor's own.

    `temporary`: the member's temporary folder. `devices`: the machine's device files are there, for the
    program was given some, with the `groups` that may open them; else only those every program needs.
    `hide`: processes of others are not in /proc; kernels before 5.8 can do that for the whole machine only.
    """

    mode: str
    network: str
    user: int | None
    surroundings: Surroundings
    temporary: str
    devices: bool
    groups: tuple[int, ...] = ()
    hide: bool = True


def choose(wish: Wish, why_not: Mapping[str, str | None]) -> Choice:
    """The mode to run in. `why_not`: mode → None where the machine can do it, else the reason."""
    if wish.mode != AUTO:
        reason = why_not.get(wish.mode, "unknown")
        return Choice(wish.mode) if reason is None else Choice(None, f"{wish.mode}: {reason}")
    able = next(mode for mode in PREFERENCE if mode == NONE or why_not.get(mode, "unknown") is None)
    if able == NONE and wish.network == PRIVATE:
        return Choice(None, "; ".join(f"{mode}: {why}" for mode, why in why_not.items() if why is not None))
    return Choice(able)


def enforced(
    mode: str, network: str, *, port: bool, devices: bool, hide: bool = True
) -> tuple[str, ...]:
    """The aspects that hold for a member: one that is given devices sees those of the machine, and one that
    listens on a port is on the machine's network."""
    if mode == NONE:
        return ()
    more = [] if devices else [DEVICES]
    if network == PRIVATE and not port:
        more.append(NETWORK)
    return (*(aspect for aspect in _ALWAYS if hide or aspect != PROCESSES), *more)


def not_enforced(held: tuple[str, ...]) -> tuple[str, ...]:
    """The rest."""
    return tuple(aspect for aspect in ASPECTS if aspect not in held)


def of_member(attempt: Mapping[str, Any], member: Mapping[str, Any]) -> tuple[str, ...]:
    """The aspects that hold for a member of a claim. A container has only the devices that it was given."""
    mode, (_, network, _) = mode_of(attempt, member), wished(attempt)
    boxed = mode == CONTAINER
    port, devices = member["port"] is not None, bool(member.get("devices")) and not boxed
    return enforced(mode, network, port=port, devices=devices, hide=boxed or hides(attempt))


def mode_of(attempt: Mapping[str, Any], member: Mapping[str, Any]) -> str:
    """The mode that a member of a claim runs in: whoever names an image gets a container, whatever the rest
    of the cluster runs in."""
    return CONTAINER if member.get("image") is not None else wished(attempt)[0]


def wished(attempt: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """(mode, network, shared folders) of a claim; one of a server that knew no isolation has none."""
    said = attempt.get("isolation") or {}
    return said.get("mode", NONE), said.get("network", HOST), tuple(said.get("shared", ()))


def hides(attempt: Mapping[str, Any]) -> bool:
    """Whether processes of others are hidden from a claim's members."""
    return bool((attempt.get("isolation") or {}).get("hide", True))


def problem(said: object) -> bool:
    """Whether what a claim says of its isolation can't be read."""
    if said is None:
        return False
    if not isinstance(said, dict) or said.get("mode") not in MODES or said.get("network") not in NETWORKS:
        return True
    shared = said.get("shared")
    return not isinstance(shared, list) or not all(isinstance(p, str) and p.startswith("/") for p in shared)
