"""Calling podman(1): where it is, one call of it with a time limit, and what it says of an image.

Every call is a list of arguments; no shell has a part in it. Nothing of a member stands in the environment of
podman itself, which may be root. What it prints goes into memory files, not pipes: a helper of podman that
lives on holds no reader up. Standard library only: the runner imports this.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PROGRAM = "podman"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HANDED_ON = ("HOME", "XDG_RUNTIME_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy",
              "no_proxy")  # fmt: skip
_PLACES = ("/usr/bin", "/usr/local/bin", "/bin")
#: A helper that waits for a lock, or a registry that does not answer, ends with this.
CALL_SECONDS = 60.0
PULL_SECONDS = 1800.0
_LOOK_SECONDS = 0.2
_MOST = 1 << 20
#: podman's own failure, as its manual has it.
OWN_FAILURE = 125
_DENIED = ("unauthorized", "denied", "authentication required", "403 (forbidden)")
_UNKNOWN = ("manifest unknown", "name unknown", "not found", "repository name not known", "did not resolve")
_LONGEST = 200


class Answer(NamedTuple):
    """How a call ended: its exit code, None where it had to be ended, and what it printed."""

    code: int | None
    out: str
    error: str

    @property
    def why(self) -> str:
        """The last line of what it complained of; its end, where that is long: there stands the cause."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        text = (lines[-1] if lines else f"podman ended with {self.code}").removeprefix("Error: ")
        return text if len(text) <= _LONGEST else "…" + text[1 - _LONGEST :]


def find() -> str | None:
    """The program, None where it is not installed."""
    places = (f"{place}/{PROGRAM}" for place in _PLACES)
    return next((path for path in places if os.access(path, os.X_OK)), None)


def outer_env() -> dict[str, str]:
    """The environment of podman itself."""
    found = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    return {"PATH": _PATH, "LANG": "C.UTF-8", **found}


def command(flags: Sequence[str], *words: str) -> list[str]:
    """The arguments of a call. `flags`: what this machine needs of every call."""
    return [PROGRAM, "--cgroup-manager=cgroupfs", *flags, *words]


def call(
    arguments: Sequence[str], seconds: float = CALL_SECONDS, stopped: Callable[[], bool] = lambda: False
) -> Answer:
    """Runs podman to its end, or until the time is over or `stopped` says so. Raises OSError."""
    path = find()
    if path is None:
        raise FileNotFoundError(2, "podman is not installed")
    out, error = os.memfd_create("out"), os.memfd_create("error")
    try:
        pid = os.posix_spawn(
            path,
            list(arguments),
            outer_env(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, error, 2),
            ],
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
        )
        code = _wait(pid, time.monotonic() + seconds, stopped)
        return Answer(code, *(os.pread(fd, _MOST, 0).decode("utf-8", "replace") for fd in (out, error)))
    finally:
        os.close(out)
        os.close(error)


def _wait(pid: int, until: float, stopped: Callable[[], bool]) -> int | None:
    poll = select.poll()
    handle = os.pidfd_open(pid)
    try:
        poll.register(handle, select.POLLIN)
        while not poll.poll(_LOOK_SECONDS * 1000):
            if time.monotonic() >= until or stopped():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Image(NamedTuple):
    """What is known of an image that is here."""

    id: str
    digests: tuple[str, ...]  # `sha256:…`: of the image, and by which registries know it
    labels: dict[str, str]
    env: dict[str, str]


class Refusal(NamedTuple):
    """Why an image can't be had: a code of the stage `image`, and what was said."""

    code: str
    text: str


def look(flags: Sequence[str], name: str) -> Image | Refusal | None:
    """An image of this machine, None where there is none of that name. Raises OSError."""
    said = call(command(flags, "image", "inspect", "--format", "json", name))
    if said.code == 0:
        return read_image(said.out) or Refusal("image-runtime-missing", "podman's answer can't be read")
    if said.code == OWN_FAILURE and ("not known" in said.error or "no such image" in said.error):
        return None
    if "invalid reference format" in said.error or "repository name must be" in said.error:
        return None
    return Refusal("image-runtime-missing", said.why)


def read_image(text: str) -> Image | None:
    """What `podman image inspect` prints; None where that is something else."""
    try:
        found: dict[str, Any] = json.loads(text)[0]
        config = found.get("Config") or {}
        known = [found.get("Digest") or "", *(found.get("RepoDigests") or ())]
        digests = [one.rpartition("@")[2] for one in known]
        identity = str(found["Id"]).removeprefix("sha256:")
        pairs = (text.partition("=") for text in config.get("Env") or ())
        return Image(
            id=identity,
            digests=tuple(sorted({*digests, f"sha256:{identity}"} - {""})),
            labels={str(key): str(value) for key, value in (found.get("Labels") or {}).items()},
            env={key: value for key, _, value in pairs},
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def pull(flags: Sequence[str], name: str, stopped: Callable[[], bool]) -> Refusal | None:
    """Fetches an image from the registry that it names; None where it is here then. Raises OSError.

    Podman would read a file of the machine for `dir:…` or `oci-archive:…`, so it is told what this is.
    """
    registry = name.partition("/")[0] if "/" in name else ""
    if "." not in registry and ":" not in registry and registry != "localhost":
        return Refusal("image-not-found", f"{name[:120]}: names no registry to fetch it from")
    _, at, digest = name.partition("@")
    source = f"docker://{_repository(name)}@{digest}" if at else f"docker://{name}"  # not a tag and a digest
    said = call(command(flags, "pull", "--quiet", source), PULL_SECONDS, stopped)
    return None if said.code == 0 else refusal_of_pull(said, name)


def _repository(name: str) -> str:
    """An image's name without tag and digest."""
    bare = name.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def refusal_of_pull(said: Answer, name: str) -> Refusal:
    """What a failed fetch means, by what the registry answered. The image's name, which podman repeats, is
    the submitter's word and says nothing."""
    text = said.error.replace(name, "").replace(_repository(name), "").lower()
    if any(word in text for word in _DENIED):
        return Refusal("image-pull-denied", said.why)
    if any(word in text for word in _UNKNOWN):
        return Refusal("image-not-found", said.why)
    return Refusal("image-pull-failed", said.why)
