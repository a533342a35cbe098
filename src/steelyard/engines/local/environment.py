"""What a member finds when it starts: its environment, and whether what it needs is there.

The environment is made from nothing: no variable of the server reaches a workload. Standard library only.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from contextlib import suppress
from typing import Any, NamedTuple

from steelyard.engines.local import enclosure, launch, programs, requires
from steelyard.engines.local.files import is_real_folder, make_below, read_json
from steelyard.engines.local.isolation import Confinement
from steelyard.engines.local.paths import Layout, is_id

LANG = "C.UTF-8"
_PYTHON = re.compile(r"python[0-9.]*")
#: How long all that has to be asked of an interpreter may take.
PROBE_SECONDS = 30.0
#: Prints a line for each module that can be found, with the version of what brought it along, `-` if it has
#: none. A module is not imported: its parents are, which is how it is found.
_PROBE = """
import importlib.util as u, sys
def version(name):
    import importlib.metadata as m
    root = name.partition('.')[0]
    try:
        return m.version(root)
    except Exception:
        pass
    try:
        return m.version(m.packages_distributions()[root][0])
    except Exception:
        return '-'
for name in sys.argv[1:]:
    try:
        there = u.find_spec(name) is not None
    except Exception:
        there = False
    if there:
        print('\\nsteelyard-module', name, ''.join(version(name).split()) or '-')
print('\\nsteelyard-probed')
"""


class Failure(NamedTuple):
    """Why a member did not start."""

    stage: str
    code: str
    text: str


def compose(layout: Layout, attempt: dict[str, Any], member: dict[str, Any]) -> dict[str, str]:
    """The member's whole environment. Later ones win: defaults, the submitter's, devices, Steelyard's own."""
    work = layout.member_work(attempt["attempt"], member["member"])
    env = {"PATH": member["path"], "LANG": LANG}
    if member.get("tty"):
        env["TERM"] = "xterm"
    if enclosure.user_of(attempt) is not None:  # who is in no list of users has a name only here
        env.update(USER=attempt["project"], LOGNAME=attempt["project"])
    env.update(dict(member["env"]))
    env.update(dict(member["fixed"]))
    if member.get("venv"):
        env.update(PATH=f"{member['venv']}/bin:{env['PATH']}", VIRTUAL_ENV=member["venv"])
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
    resume = resume_folder(layout, attempt, member)
    if resume is not None:
        env["STEELYARD_RESUME_DIR"] = resume
    return env


def resume_folder(layout: Layout, attempt: dict[str, Any], member: dict[str, Any]) -> str | None:
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
        make_below(work, asked, enclosure.user_of(attempt))
    return inner


def may_take_long(member: dict[str, Any]) -> bool:
    """Whether there is more to do before a member is executed than to find its program."""
    return bool(
        member["requires"] or member.get("venv") or member.get("tty") or member["image"] is not None
    )


def executes(member: dict[str, Any]) -> bool:
    """Whether `check` runs something: to ask for modules it imports them, which is code of the member's."""
    wanted = map(requires.parse, member["requires"]) if member["image"] is None else ()
    return any(one is not None and one.kind == requires.MODULE for one in wanted)


def check(member: dict[str, Any], program: launch.Program) -> Failure | None:
    """The environment stage: working directory, devices, then whatever the member requires. In a container
    only what is the machine's is looked at: the rest is the image's."""
    if member["image"] is not None:
        classes = [wanted for wanted in map(requires.parse, member["requires"]) if wanted is not None]
        failures = (_check_class(wanted, member) for wanted in classes)
        found = _check_devices(member.get("devices", []), program.confinement)
        return found or next((failure for failure in failures if failure is not None), None)
    if (failure := _check_venv(member.get("venv"))) is not None:
        return failure
    if not os.path.isdir(program.folder):
        return Failure("environment", "working-directory-missing", program.folder[:200])
    failure = _check_devices(member.get("devices", []), program.confinement)
    if failure is not None:
        return failure
    modules = []
    for text in member["requires"]:
        wanted = requires.parse(text)
        failure = _unreadable(text) if wanted is None else _check_one(wanted, member, program)
        if failure is not None:
            return failure
        if wanted is not None and wanted.kind == requires.MODULE:
            modules.append(wanted)
    return _check_modules(modules, member["command"], program) if modules else None


def check_hidden(member: dict[str, Any], program: launch.Program, command: list[str]) -> Failure | None:
    """Whether the program is told to find what its isolation lets it not find."""
    if program.confinement is None:
        return None
    required = [*member["requires"], member.get("venv") or ""]
    path = enclosure.hidden(program.confinement, program.folder, command, required)
    return None if path is None else Failure("environment", "path-hidden", path[:200])


def check_program(path: str) -> Failure | None:
    """Whether what is found as the program can run here at all: its architecture, and its interpreter."""
    problem = programs.problem(path)
    return None if problem is None else Failure("environment", problem[0], problem[1][:200])


def _unreadable(text: str) -> Failure:
    """An entry that no server of today accepts: one of an earlier one. It names nothing that is there."""
    code = "module-missing" if text.startswith(("python:", "module:")) else "program-missing"
    return Failure("environment", code, text.partition(":")[2][:200] or text[:200])


def _may_open(path: str, confinement: Confinement | None) -> bool:
    """Whether the member may read and write a file of the machine: as its project's user, if it has one."""
    if confinement is None or confinement.user is None:
        return os.access(path, os.R_OK | os.W_OK)
    status = os.stat(path)
    shift = 6 if status.st_uid == confinement.user else 3 if status.st_gid in confinement.groups else 0
    return status.st_mode >> shift & 6 == 6


def _check_devices(devices: list[dict[str, Any]], confinement: Confinement | None) -> Failure | None:
    """Each file by which a bound device is spoken to is there, and may be opened by the member's user."""
    for path in [path for device in devices for path in device.get("files", ())]:
        if not os.path.exists(path):
            return Failure("environment", "device-file-missing", path[:200])
        if not _may_open(path, confinement):
            return Failure("environment", "device-not-accessible", path[:200])
    return None


def _check_venv(folder: str | None) -> Failure | None:
    """Whether a Python environment has an interpreter that can run here."""
    if folder is None:
        return None
    path = os.path.join(folder, "bin", "python")
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return Failure("environment", "program-missing", path[:200])
    return check_program(path)


def _check_class(wanted: requires.Requirement, member: dict[str, Any]) -> Failure | None:
    given = {str(device.get("class")) for device in member.get("devices", ())} & {"gpu", "npu"}
    meant = requires.device_class(wanted)
    if meant is not None and meant not in given and (given or wanted.kind == requires.CLASS):
        said = f"{wanted}: {meant}; given: {', '.join(sorted(given)) or '-'}"
        return Failure("environment", "environment-mismatch", said[:200])
    return None


def _check_one(
    wanted: requires.Requirement, member: dict[str, Any], program: launch.Program
) -> Failure | None:
    failure = _check_class(wanted, member)
    if failure is not None:
        return failure
    env = program.env
    if wanted.kind == requires.PROGRAM:
        path, _ = launch.find_program(wanted.name, env["PATH"], program.folder)
        return Failure("environment", "program-missing", wanted.name) if path is None else check_program(path)
    if wanted.kind == requires.LIBRARY:
        found = programs.find_library(wanted.name, env.get("LD_LIBRARY_PATH", ""))
        return Failure("environment", "library-missing", wanted.name) if found is None else None
    return None


def _interpreter(command: list[str], program: launch.Program) -> str:
    """The Python that will run: the command itself, what its first line names, else `python3`."""
    if not command:
        return "python3"
    if _PYTHON.fullmatch(os.path.basename(command[0])):
        return command[0]
    path, _ = launch.find_program(command[0], program.env["PATH"], program.folder)
    words = programs.script_interpreter(path) if path is not None else []
    named = [word for word in words[:2] if _PYTHON.fullmatch(os.path.basename(word))]
    return named[0] if named else "python3"


def _check_modules(
    modules: list[requires.Requirement], command: list[str], program: launch.Program
) -> Failure | None:
    named = _interpreter(command, program)
    interpreter, _ = launch.find_program(named, program.env["PATH"], program.folder)
    if interpreter is None:
        return Failure("environment", "program-missing", named[:200])
    arguments = [named, "-c", _PROBE, *(wanted.name for wanted in modules)]
    output = _run(program._replace(path=interpreter, arguments=arguments), PROBE_SECONDS)
    if output is None:
        return Failure("environment", "environment-timeout", f"{named}: {PROBE_SECONDS:g} s")
    seen = dict(re.findall(r"^steelyard-module (\S+) (\S+)$", output, re.MULTILINE))
    if "steelyard-probed" not in output:
        return Failure("environment", "interpreter-failed", named[:200])
    missing = [str(wanted) for wanted in modules if wanted.name not in seen]
    if missing:
        return Failure("environment", "module-missing", ", ".join(missing)[:200])
    wrong = [
        f"{wanted} ({seen[wanted.name]})" for wanted in modules
        if not requires.satisfies(seen[wanted.name], wanted.bounds)
    ]
    return Failure("environment", "module-version", ", ".join(wrong)[:200]) if wrong else None


def _run(program: launch.Program, seconds: float) -> str | None:
    """What a short program prints, run as the member would be; empty when it fails, None when its time is
    over. Whatever it left running is ended."""
    read, write = os.pipe()
    gated = launch.spawn(program._replace(output=write))
    os.close(write)
    text: bytes | None = b""
    try:
        if launch.open_gate(gated) is None:
            text = _read_all(read, time.monotonic() + seconds)
    finally:
        os.close(read)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(gated.pid, signal.SIGKILL)
        os.waitpid(gated.pid, 0)
        if gated.status is not None:
            os.close(gated.status)
    return None if text is None else text.decode("utf-8", "replace")


def _read_all(fd: int, deadline: float) -> bytes | None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    text = b""
    while len(text) < 1 << 20:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        chunk = os.read(fd, 65536)
        if not chunk:
            break
        text += chunk
    return text
