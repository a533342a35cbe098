"""Whether this machine can run containers, found out by making one, and what podman needs here for that.

No image is needed: the machine's own programs are shown to it, read only. Where podman's own choice of a
runtime fails, as crun does with mixed control groups, the others that are installed are tried.
Standard library only: the runner imports this.
"""

from __future__ import annotations

import errno
import os
import resource

from steelyard.engines.local import podman
from steelyard.engines.local.container import Box, bring_up, limits_of, mountable
from steelyard.engines.local.files import remove_tree
from steelyard.engines.local.isolation import PRIVATE
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.podman import Refusal

#: The runner waits for it, and who asks the runner waits, too.
_SECONDS = 20.0
_RUNTIMES = ("crun", "runc")
_PLACES = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")


def run(layout: Layout, user: int | None) -> tuple[tuple[str, ...], str | None]:
    """(flags of every call, None) where a container ran; else ((), why not). Raises OSError."""
    if not mountable(layout.work):
        return (), "podman can't mount a data folder whose path has a comma, a colon or a quotation mark"
    reason: str | None = None
    there = [name for name in _RUNTIMES if any(os.path.exists(f"{place}/{name}") for place in _PLACES)]
    for flags in ((), *(("--runtime", name) for name in there)):
        failed = _try(layout, flags, user)
        if failed is None:
            return flags, None
        reason = reason or failed
    return (), reason


def _try(layout: Layout, flags: tuple[str, ...], user: int | None) -> str | None:
    folder = os.path.join(layout.work, ".trial")
    remove_tree(folder)
    os.makedirs(os.path.join(folder, "root"))
    os.chmod(os.path.join(folder, "root"), 0o755)  # for the project's user, who sees nothing around it
    with open(os.path.join(folder, "env"), "w", encoding="ascii"):
        pass
    box = Box(
        name=f"steelyard-trial-{os.getpid()}",
        image=os.path.join(folder, "root"),
        labels=(),
        env_file=os.path.join(folder, "env"),
        pid_file=os.path.join(folder, "pid"),
        user=user,
        groups=(),
        network=PRIVATE,
        mounts=tuple((path, path, True) for path in _SYSTEM if os.path.isdir(path)),
        files=(),
        limits=limits_of(resource.getrlimit(resource.RLIMIT_NOFILE), None),
        shared_memory=64,
        folder="/",
        command=("/bin/true",),
        rootfs=True,
    )
    try:
        made = bring_up(flags, box, (), _SECONDS)
        if isinstance(made, Refusal):
            return made.text
        words = podman.command(flags, "start", "--attach", "--sig-proxy=false", box.name)
        said = podman.call(words, _SECONDS)
        if said.code is None:
            raise OSError(errno.EAGAIN, "podman start does not answer")
        return None if said.code == 0 else said.why
    finally:
        podman.call(podman.command(flags, "rm", "--force", "--ignore", "--time=0", box.name), _SECONDS)
        remove_tree(folder)
