"""What a member finds when it starts: its environment, and whether what it needs is there.

The environment is made from nothing: no variable of the server reaches a workload. Standard library only.
"""

from __future__ import annotations

import os
import re
import select
import signal
from contextlib import suppress
from typing import Any, NamedTuple

from steelyard.engines.local import launch
from steelyard.engines.local.files import is_real_folder, read_json
from steelyard.engines.local.paths import Layout, is_id

LANG = "C.UTF-8"
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PYTHON = re.compile(r"python[0-9.]*")
_PROBE_SECONDS = 60.0
_PROBE = (
    "import importlib.util as u,sys\n"
    "for n in sys.argv[1:]:\n"
    " try:\n"
    "  s=u.find_spec(n)\n"
    " except Exception:\n"
    "  s=None\n"
    " if s is None:\n"
    "  print('steelyard-missing',n)\n"
)


class Failure(NamedTuple):
    """Why a member did not start."""

    stage: str
    code: str
    text: str


def compose(layout: Layout, attempt: dict[str, Any], member: dict[str, Any]) -> dict[str, str]:
    """The member's whole environment. Later ones win: defaults, the submitter's, devices, Steelyard's own."""
    work = layout.member_work(attempt["attempt"], member["member"])
    env = {"PATH": member["path"], "LANG": LANG}
    env.update(dict(member["env"]))
    env.update(dict(member["fixed"]))
    env.update(
        HOME=work,
        TMPDIR=os.path.join(work, "tmp"),
        STEELYARD_ARTIFACTS=os.path.join(work, "artifacts"),
        STEELYARD_ATTEMPT=attempt["attempt"],
        STEELYARD_INDEX=str(member["index"]),
        STEELYARD_INSTALL=attempt["install"],
        STEELYARD_MEMBER=member["member"],
        STEELYARD_ROLE=member["role"],
        STEELYARD_WORKLOAD=attempt["workload"],
    )
    if member["port"] is not None:
        env["STEELYARD_PORT"] = str(member["port"])
    resume = _resume_folder(layout, attempt, member)
    if resume is not None:
        env["STEELYARD_RESUME_DIR"] = resume
    return env


def _resume_folder(layout: Layout, attempt: dict[str, Any], member: dict[str, Any]) -> str | None:
    """The work folder of the same role and index in the attempt that this one goes on from."""
    before = attempt["resume_from"]
    if before is None:
        return None
    places = read_json(os.path.join(layout.attempt_work(before), "members.json")) or {}
    former = places.get(place(member))
    if not isinstance(former, str) or not is_id(former):
        return None
    folder = layout.member_work(before, former)
    return folder if is_real_folder(folder) else None


def place(member: dict[str, Any]) -> str:
    """What tells a member from the others of its attempt and stays the same in the next one."""
    return f"{member['role']}/{member['index']}"


def folder(layout: Layout, attempt: dict[str, Any], member: dict[str, Any]) -> str:
    """Where the member starts: its work folder, an absolute folder, or one below the work folder, which is
    made; where that fails, the check says that it is missing."""
    work = layout.member_work(attempt["attempt"], member["member"])
    asked = member["folder"]
    if asked is None or os.path.isabs(asked):
        return asked or work
    inner = os.path.join(work, asked)
    with suppress(OSError):
        os.makedirs(inner, mode=0o700, exist_ok=True)
    return inner


def check(member: dict[str, Any], program: launch.Program) -> Failure | None:
    """The environment stage: image, working directory, required programs and modules."""
    if member["image"] is not None:
        return Failure("image", "image-runtime-missing", member["image"][:200])
    if not os.path.isdir(program.folder):
        return Failure("environment", "working-directory-missing", program.folder[:200])
    search = program.env["PATH"]
    needed = [name for name in member["requires"] if not name.startswith("python:")]
    for name in needed:
        wanted = name.removeprefix("program:")
        if launch.find_program(wanted, search, program.folder)[0] is None:
            return Failure("environment", "program-missing", wanted[:200])
    modules = [name.removeprefix("python:") for name in member["requires"] if name.startswith("python:")]
    return _check_modules(modules, member["command"], program) if modules else None


def _check_modules(modules: list[str], command: list[str], program: launch.Program) -> Failure | None:
    for name in modules:
        if _MODULE.fullmatch(name) is None:
            return Failure("environment", "module-missing", name[:200])
    search = program.env["PATH"]
    named = command[0] if command and _PYTHON.fullmatch(os.path.basename(command[0])) else "python3"
    interpreter, _ = launch.find_program(named, search, program.folder)
    if interpreter is None:
        return Failure("environment", "program-missing", named[:200])
    arguments = [named, "-c", _PROBE, *modules]
    output = _run(program._replace(path=interpreter, arguments=arguments))
    if output is None:
        return Failure("environment", "module-missing", f"{named}: no answer")
    missing = re.findall(r"^steelyard-missing (\S+)$", output, re.MULTILINE)
    return Failure("environment", "module-missing", ", ".join(missing)[:200]) if missing else None


def _run(program: launch.Program) -> str | None:
    """What a short program prints, run as the member would be; None when it fails or takes too long."""
    read, write = os.pipe()
    gated = launch.spawn(program._replace(output=write))
    os.close(write)
    try:
        failed = launch.open_gate(gated)
        text = b"" if failed else _read_all(read)
    finally:
        os.close(read)
    if failed or text is None:
        os.killpg(gated.pid, signal.SIGKILL) if not failed else None
    _, status = os.waitpid(gated.pid, 0)
    if failed or text is None or os.waitstatus_to_exitcode(status) != 0:
        return None
    return text.decode("utf-8", "replace")


def _read_all(fd: int) -> bytes | None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    text = b""
    while len(text) < 1 << 20:
        if not poll.poll(_PROBE_SECONDS * 1000):
            return None
        chunk = os.read(fd, 65536)
        if not chunk:
            return text
        text += chunk
    return None
