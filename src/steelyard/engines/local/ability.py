"""Which modes of isolation this machine can do, found out by doing: an interpreter is run in each, once.

A mode is able when the server's own interpreter runs in it, for that is what most members need; else the
reason says what failed. A machine that is only full at the moment says nothing of its modes: OSError, and the
look is repeated when it is asked for again; else `auto` would come to something weaker by chance.
Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Any

from steelyard.engines.local import (
    bubble,
    container,
    container_trial,
    enclosure,
    isolation,
    launch,
    surroundings,
)
from steelyard.engines.local.files import remove_tree
from steelyard.engines.local.isolation import BUBBLEWRAP, CONTAINER, HOST, NONE, USER_ID, Wish
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.users import UserBook

_NO_ISOLATION = {"mode": NONE, "network": HOST, "shared": []}
_FULL = (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT)


class Abilities:
    """Of one runner. Every answer is found once, when it is asked for first."""

    def __init__(self, layout: Layout, users: UserBook) -> None:
        self._layout = layout
        self._users = users
        self._known: dict[tuple[str, str], str | None] = {}
        self._flags: tuple[str, ...] = ()  # what podman needs here
        self._hides = True  # this kernel can hide processes from one program

    def choose(self, wish: Wish) -> isolation.Choice:
        """What a wish comes to on this machine."""
        modes = isolation.PREFERENCE if wish.mode == isolation.AUTO else (wish.mode,)
        reasons: dict[str, str | None] = {}
        for mode in modes:
            reasons[mode] = self._tried(mode, wish.network)
            if reasons[mode] is None:
                break
        choice = isolation.choose(wish, reasons)
        return choice._replace(hide=self._hides or choice.mode != USER_ID)

    def settle(self, attempt: dict[str, Any]) -> str | None:
        """Completes what an attempt says of its isolation by the project's user id; the code of a refusal
        where it can't be had here. Raises OSError."""
        if isolation.problem(attempt.get("isolation")):
            return "isolation-invalid"
        mode, network, shared = isolation.wished(attempt)
        if self._tried(mode, network) is not None:
            return "isolation-unavailable"
        boxed = any(member.get("image") is not None for member in attempt.get("members", ()))
        if boxed:
            attempt["isolation"] = {**(attempt.get("isolation") or _NO_ISOLATION), "container": self._boxes()}
        if (boxed or mode in (USER_ID, BUBBLEWRAP)) and os.geteuid() == 0:
            user = attempt["isolation"]["user"] = self._users.user_of(attempt["project"])
            attempt["isolation"]["hide"] = self._hides or mode != USER_ID
            enclosure.around(self._layout, user, (), shared)  # known to the shims, then
        return None

    def why_not(self, mode: str, network: str = HOST) -> str | None:
        """Why a mode can't be had, None where it can. Raises OSError where that can't be told now. Containers
        are tried with the first one that is wished for; before, they can be had if their program is there."""
        if mode == CONTAINER and (mode, HOST) not in self._known:
            return container.why_not()
        return self._tried(mode, network)

    def _tried(self, mode: str, network: str) -> str | None:
        network = HOST if mode == CONTAINER else network  # podman has both
        if (mode, network) not in self._known:
            self._known[mode, network] = self._look(mode, network)
        return self._known[mode, network]

    def _boxes(self) -> dict[str, Any]:
        """What the shims have to know of this machine's podman."""
        why = self._tried(CONTAINER, HOST)
        return {"flags": list(self._flags)} if why is None else {"why": why}

    def _look(self, mode: str, network: str) -> str | None:
        if mode == NONE:
            return None if network == HOST else "the private network needs another mode"
        if mode == CONTAINER and (why := container.why_not()) is not None:
            return why
        if mode == USER_ID and os.geteuid() != 0:
            return "the server does not run as root"
        if mode == BUBBLEWRAP and bubble.find() is None:
            return "bwrap is not installed"
        user = self._users.spare() if os.geteuid() == 0 else None
        if user is None and os.geteuid() == 0:
            return "this user namespace maps too few user ids"
        try:
            if mode == CONTAINER:
                self._flags, reason = container_trial.run(self._layout, user)
                return reason
            reason = self._try(mode, network, user)
            if reason is not None and mode == USER_ID and self._hides:
                self._hides = False
                reason = self._try(mode, network, user)
                self._hides = reason is not None
            return reason
        except OSError as failed:
            if failed.errno in _FULL:
                raise
            return str(failed)

    def _try(self, mode: str, network: str, user: int | None) -> str | None:
        folder = os.path.join(self._layout.work, ".trial")
        remove_tree(folder)
        os.mkdir(folder, 0o700)
        if user is not None:
            os.chown(folder, user, user)
            os.chmod(self._layout.work, 0o711)  # within the data folder, which nobody else may enter
        output = os.memfd_create("trial")
        try:
            confinement = isolation.Confinement(
                mode, network, user, enclosure.around(self._layout, user, (folder,), ()), folder,
                devices=False, hide=self._hides,
            )  # fmt: skip
            return _run(confinement, folder, output)
        finally:
            os.close(output)
            remove_tree(folder)


def _run(confinement: isolation.Confinement, folder: str, output: int) -> str | None:
    program = launch.Program(
        path=surroundings.interpreter(),
        arguments=["python3", "-I", "-S", "-c", ""],
        env={"PATH": os.defpath},
        folder=folder,
        output=output,
        groups=(),
        data_limit=None,
        files_limit=resource.getrlimit(resource.RLIMIT_NOFILE),
        confinement=confinement,
    )
    gated = launch.spawn(program)
    failed = launch.open_gate(gated)
    status = launch.true_status(gated, os.waitpid(gated.pid, 0)[1])
    said = os.pread(output, 300, 0).decode("utf-8", "replace").strip().replace("\n", " ")
    if failed is not None and failed.errno in _FULL:
        raise failed
    if failed is not None:
        return f"{failed.strerror}: {said}" if said else str(failed.strerror)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        raise OSError(errno.EAGAIN, f"the trial of {confinement.mode} was ended by signal {-code}")
    return None if code == 0 else f"the interpreter ended with {code}: {said}"
