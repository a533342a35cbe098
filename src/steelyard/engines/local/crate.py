"""One member's container as its shim handles it: settled, made, started, told, and what its end means.

Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

from steelyard.engines.local import container, ending, environment, launch, podman
from steelyard.engines.local.environment import Failure
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.podman import Refusal

_MARKS = ("STEELYARD_INSTALL", "STEELYARD_ATTEMPT", "STEELYARD_MEMBER")
_STAGES = {"isolation-failed": "environment", "working-directory-missing": "environment"}
#: The supervisor repeats KILL 20 times a second.
_MOST_KILLS = 200
#: Exit codes by which podman tells of a failure of its own; a program may use them, too.
_OWN_CODES = (125, 126, 127)


class Crate:
    """The container of one member. `stopped` is asked whenever something takes its time."""

    def __init__(
        self, layout: Layout, attempt: dict[str, Any], member: dict[str, Any], groups: tuple[str, ...],
        stopped: Callable[[], bool],
    ) -> None:
        self._layout = layout
        self._attempt = attempt
        self._member = member
        self._groups = groups
        self._stopped = stopped
        self._flags: list[str] = []
        self._image = ""
        self._name = ""
        self._kills = 0
        self.pid = 0  # its first process

    def settle(self) -> Failure | None:
        """The image stage."""
        if self._member["image"] is None:
            return Failure("environment", "isolation-failed", "this cluster runs images alone; none is named")
        flags = container.flags_of(self._attempt)
        if isinstance(flags, str):
            return Failure("image", "image-runtime-missing", flags[:200])
        self._flags = flags
        try:
            found = container.settle_image(flags, self._member, self._stopped)
        except OSError as failed:
            return Failure("image", "image-runtime-missing", str(failed)[:200])
        if isinstance(found, Refusal):
            return Failure("image", found.code, found.text)
        self._image = found.id
        return None

    def make(self, program: launch.Program) -> Failure | None:
        """The container, with a first process that waits."""
        command = self._member["command"]
        if not command or not command[0]:  # podman would run what the image has
            return Failure("launch", "command-not-found", "")
        resume = environment.resume_folder(self._layout, self._attempt, self._member)
        given = container.Given(program.env, program.folder, resume, program.files_limit, program.data_limit)
        try:
            box = container.box_of(self._layout, self._attempt, self._member, self._image, given)
            made = container.make(self._layout, self._flags, self._member["member"], box, self._groups)
        except ValueError as wrong:
            return Failure("launch", "start-failed", f"a variable with a line break: {wrong}"[:200])
        except OSError as failed:
            if failed.errno == errno.E2BIG:
                return Failure("launch", "start-failed", str(failed)[:200])
            return Failure("environment", "isolation-failed", str(failed)[:200])
        if isinstance(made, Refusal):
            return Failure(_STAGES.get(made.code, "launch"), made.code, made.text)
        self._name, self.pid = box.name, made
        return None

    def start(self, program: launch.Program) -> launch.Program:
        """What is executed outside to start the program inside, and to wait for it."""
        marks = {key: program.env[key] for key in _MARKS}
        words = podman.command(self._flags, "start", "--attach", "--sig-proxy=false", self._name)
        return program._replace(
            path=podman.find() or podman.PROGRAM,
            arguments=words,
            env={**podman.outer_env(), **marks},
            folder="/",
            groups=(),  # the program's are those of its container
            data_limit=None,
            confinement=None,
        )

    def told(self, number: int, outer: int | None) -> None:
        """After all processes of the container were signalled. `outer`: podman, which waits for them.

        The first process of a container gets no TERM that it does not handle, so what would have ended it
        anywhere else ends it here. Podman, which ends with it, is ended only if it does not.
        """
        if number == signal.SIGTERM and container.term_is_the_end(self.pid):
            ending.kill(self.pid, signal.SIGKILL)
        self._kills += number == signal.SIGKILL
        if self._kills > _MOST_KILLS and outer is not None:
            ending.kill(outer, signal.SIGKILL)

    def outside(self, pids: Iterable[int]) -> set[int]:
        """Those of these processes that are not in the container: podman and its helpers."""
        return {pid for pid in pids if _space(pid) == _space(os.getpid())}

    def failure_after(self, status: int | None) -> Failure | None:
        """Whether podman failed where its exit code looks like one of the program."""
        code = None if status is None else os.waitstatus_to_exitcode(status)
        if code in _OWN_CODES and container.never_ran(self._flags, self._name):
            return Failure("launch", "start-failed", f"podman ended with {code}")
        return None


def _space(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None
