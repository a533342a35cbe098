"""Runs a vendor's tool: found in declared folders only, bounded in time and output, in an empty folder.

No shell. Its environment holds nothing of ours. Where this process is root, the tool is run as nobody with
the groups that own the family's device files: reading a card's state needs its device file and no more. A
tool that needs more is named in the cluster's document. The whole process group is killed at the limit; one
that even a kill does not end (it hangs in its driver) is left, told, and not started anew while it lives.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from steelyard.model.health import SignCode

#: Where vendors install their tools. A cluster's document may name other folders.
TOOL_FOLDERS = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
    "/opt/rocm/bin", "/opt/hyhal/bin", "/usr/local/corex/bin", "/opt/mxdriver/bin", "/opt/maca/bin",
    "/opt/aws/neuron/bin", "/usr/lib/wsl/lib",
)  # fmt: skip
TIME_LIMIT = 10.0  # seconds
OUTPUT_LIMIT = 4 * 1024 * 1024  # bytes
_ERROR_LIMIT = 64 * 1024
_FILE_LIMIT = 64 * 1024 * 1024  # bytes of any file that it writes
_NOBODY = 65534
_AFTER_END = 0.5  # seconds in which what it left behind may still hold its output
_REAP = 2.0
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's absolute path, resolved; or why there is none that may be run."""

    name: str
    path: str | None
    problem: SignCode | None = None
    detail: str = ""


@dataclass(slots=True)
class Outcome:
    """What came of a run. `problem` None: it ended by itself and within all limits, with whatever status."""

    text: str
    error: str = ""
    status: int | None = None
    problem: SignCode | None = None
    detail: str = ""
    micros: int = 0
    left: subprocess.Popen[bytes] | None = None  # it could not be ended


def find_tool(name: str, folders: Sequence[str] = TOOL_FOLDERS) -> Tool:
    """The first program of that name. One that others than root and this user may change is not run."""
    refused = ""
    for folder in folders:
        path = os.path.realpath(os.path.join(folder, name))
        try:
            file = os.stat(path)
            folders_above = [os.stat(above) for above in PurePath(path).parents]
        except OSError:
            continue
        if not stat.S_ISREG(file.st_mode) or not file.st_mode & 0o111:
            continue
        if _is_ours(file, 0o022) and all(_is_kept(above) for above in folders_above):
            return Tool(name, path)
        refused = refused or f"{path}: others may change it"
    if refused:
        return Tool(name, None, SignCode.PERMISSION_DENIED, refused[:200])
    return Tool(name, None, SignCode.TOOL_MISSING, name)


def _is_ours(one: os.stat_result, writable: int) -> bool:
    return one.st_uid in (0, os.geteuid()) and not one.st_mode & writable


def _is_kept(folder: os.stat_result) -> bool:
    """Whether others can't replace what is in a folder; in one like /tmp they can't."""
    return bool(folder.st_mode & stat.S_ISVTX) or _is_ours(folder, 0o002)


def run_tool(
    path: str,
    arguments: Sequence[str],
    *,
    seconds: float = TIME_LIMIT,
    output_limit: int = OUTPUT_LIMIT,
    groups: Sequence[int] = (),
    keep_user: bool = False,
    libraries: str = "",
    stop: threading.Event | None = None,
) -> Outcome:
    """Runs it to its end, to a limit or until `stop` is set. Never raises for what the tool does."""
    began = time.monotonic()
    drop = os.geteuid() == 0 and not keep_user
    with tempfile.TemporaryDirectory(prefix="steelyard-probe-", ignore_cleanup_errors=True) as folder:
        if drop:
            os.chown(folder, _NOBODY, _NOBODY)
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": sorted({*groups} - {0})} if drop else {}
        try:
            process = subprocess.Popen(
                [path, *arguments], cwd=folder, env=_environment(folder, libraries), close_fds=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, umask=0o077, **who,  # type: ignore[call-overload]
            )  # fmt: skip
        except OSError as error:
            return _not_started(error, began)
        _bound(process.pid)
        outcome = _follow(process, began + seconds, output_limit, stop or threading.Event())
    outcome.micros = int((time.monotonic() - began) * 1_000_000)
    return outcome


def _environment(folder: str, libraries: str) -> dict[str, str]:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": folder, "TMPDIR": folder}
    return {**env, "LD_LIBRARY_PATH": libraries} if libraries else env


def _not_started(error: OSError, began: float) -> Outcome:
    denied = isinstance(error, PermissionError)
    problem = SignCode.PERMISSION_DENIED if denied else SignCode.TOOL_FAILED
    micros = int((time.monotonic() - began) * 1_000_000)
    return Outcome("", problem=problem, detail=(error.strerror or "")[:200], micros=micros)


def _bound(pid: int) -> None:
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _FILE_LIMIT)):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, what, (most, most))


def _follow(
    process: subprocess.Popen[bytes], until: float, output_limit: int, stop: threading.Event
) -> Outcome:
    """Reads both streams until the program has ended, or a limit is reached; then ends its whole group."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    read = {out: bytearray(), err: bytearray()}
    with selectors.DefaultSelector() as selector:
        for fd in read:
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        ended = False
        while (selector.get_map() or not ended) and len(read[out]) <= output_limit:
            if not ended and _has_ended(process.pid):
                ended, until = True, min(until, time.monotonic() + _AFTER_END)
            rest = until - time.monotonic()
            if rest <= 0 or stop.is_set() or (ended and not selector.get_map()):
                break
            for key, _ in selector.select(min(rest, 0.05)):
                if not _take(key.fd, read[key.fd]):
                    selector.unregister(key.fd)
            del read[err][_ERROR_LIMIT:]
    text, error = (bytes(read[fd]).decode("utf-8", "replace") for fd in (out, err))
    outcome = Outcome(text, error, left=_end(process))
    if len(read[out]) > output_limit:
        outcome.problem, outcome.detail = SignCode.TOOL_FAILED, f"more than {output_limit} bytes"
    elif not ended:
        outcome.problem = SignCode.TOOL_TIMEOUT
    else:
        outcome.status = process.returncode
    return outcome


def _has_ended(pid: int) -> bool:
    """Without reaping it: its number, which is that of its group, stays its own until the group is killed."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _take(fd: int, data: bytearray) -> bool:
    """Reads what is there; False once nothing more comes."""
    try:
        piece = os.read(fd, _CHUNK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    data += piece
    return bool(piece)


def _end(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes] | None:
    """Kills what is left of its group. The process itself is given back where even that does not end it."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    try:
        process.wait(_REAP)
    except subprocess.TimeoutExpired:
        return process
    return None
