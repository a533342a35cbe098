"""Images for tests, made here of Debian's static busybox: nothing is fetched."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from steelyard.engines.local import podman
from steelyard.engines.local.ability import Abilities
from steelyard.engines.local.isolation import CONTAINER, Wish
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.users import UserBook

BUSYBOX = Path("/bin/busybox")
_PROGRAMS = ("cat", "echo", "env", "id", "ls", "setsid", "sh", "sleep", "test", "true", "wc")


def why_not() -> str | None:
    """Why no container can be run in a test here."""
    if os.geteuid() != 0:
        return "needs root"
    if podman.find() is None:
        return "needs podman"
    if not BUSYBOX.exists():
        return "needs busybox-static"
    return why_unable()


@cache
def why_unable() -> str | None:
    """Why this machine runs no containers, found out as a runner does."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder)
        layout.make()
        choice = Abilities(layout, UserBook(layout.users)).choose(Wish(CONTAINER))
    return None if choice.mode == CONTAINER else f"this machine can't run containers: {choice.text}"


def code_of_an_absent_image() -> str:
    """What becomes of a member whose image nobody has: that depends on the machine."""
    return "image-not-found" if why_unable() is None else "image-runtime-missing"


def layer() -> bytes:
    """A root folder with a shell and a few programs, as a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in ("bin", "etc", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        data = BUSYBOX.read_bytes()
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(data), 0o755
        archive.addfile(entry, io.BytesIO(data))
        for name in _PROGRAMS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return out.getvalue()


@contextmanager
def image(name: str, *changes: str) -> Iterator[str]:
    """An image that is there as long as it is needed. `changes`: instructions, as `LABEL key=value`."""
    told = [word for change in changes for word in ("--change", change)]
    words = ["podman", "import", "-q", *told, "-", name]
    subprocess.run(words, input=layer(), check=True, capture_output=True)
    try:
        yield name
    finally:
        subprocess.run(["podman", "rmi", "--force", name], check=False, capture_output=True)


def digest(name: str) -> str:
    """The digest of an image."""
    words = ["podman", "image", "inspect", "--format", "{{.Digest}}", name]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
