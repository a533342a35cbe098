"""Claims that last: a file for each, whole for whoever looks, and a log of them that is synced once a batch.

    DATA/local/claims/ATTEMPT.json   the claim; gone once the attempt is forgotten
    DATA/local/claims.log            a line `{"boot": …}`, then `{"claim": {…}}` and `{"gone": ATTEMPT}`

Syncing every new file by itself costs more than starting a program does. So the files are left to the kernel,
and after a power failure what it had not written yet is made again from the log: a claim that was answered
is never lost, for what it names may have run. Standard library only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from steelyard.engines.local.files import create_json, read_json, sync_folder, write_once
from steelyard.engines.local.paths import Layout, is_id

#: Bytes after which the log is begun anew with what is not forgotten.
MOST_BYTES = 8 << 20


class Claims:
    """The runner's only way to make and to drop claims."""

    def __init__(self, layout: Layout, boot: str) -> None:
        self._layout = layout
        self._boot = boot
        self._path = layout.claims + ".log"
        self._fd: int | None = None
        self._lines: list[bytes] = []

    def recover(self) -> None:
        """Makes claims of another boot again whose files are not there, and the log anew: a runner that died
        may have made claims and not synced them. First of all. Raises OSError."""
        boot, logged = self._read()
        for attempt, claim in logged.items() if boot != self._boot else ():
            if read_json(self._layout.claim(attempt)) is None:
                write_once(self._layout.claim(attempt), claim)
        self._begin()

    def add(self, claim: dict[str, Any]) -> bool:
        """Makes a claim, which lasts after `sync`; False where there is one already. Raises OSError."""
        if not create_json(self._layout.claim(claim["attempt"]), claim):
            return False
        self._lines.append(_line({"claim": claim}))
        return True

    def sync(self) -> None:
        """Makes all claims last. Nothing of them may be started before. Raises OSError."""
        if self._fd is None or os.fstat(self._fd).st_size > MOST_BYTES:
            self._begin()
        elif self._lines:
            os.write(self._fd, b"".join(self._lines))
            os.fdatasync(self._fd)
        self._lines.clear()

    def drop(self, attempt: str) -> None:
        """Its work folder says from here on that it was. Raises OSError."""
        os.unlink(self._layout.claim(attempt))
        if self._fd is not None:
            with suppress(OSError):  # what is read again without need does no harm
                os.write(self._fd, _line({"gone": attempt}))

    def _begin(self) -> None:
        """A new log of every claim there is, in place of the one before."""
        names = sorted(name for name in os.listdir(self._layout.claims) if name.endswith(".json"))
        claims = [read_json(os.path.join(self._layout.claims, name)) for name in names]
        lines = [_line({"claim": claim}) for claim in claims if claim is not None]
        temporary = self._path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        data = memoryview(b"".join([_line({"boot": self._boot}), *lines]))
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
        os.rename(temporary, self._path)
        sync_folder(self._layout.local)
        if self._fd is not None:
            os.close(self._fd)
        self._fd = fd

    def _read(self) -> tuple[str | None, dict[str, dict[str, Any]]]:
        """(boot, claims that were not dropped). Lines that are torn say nothing."""
        boot: str | None = None
        claims: dict[str, dict[str, Any]] = {}
        try:
            with open(self._path, "rb") as file:
                for line in file:
                    try:
                        said = json.loads(line)
                    except ValueError:
                        continue
                    boot = said.get("boot", boot)
                    claims.pop(said.get("gone"), None)
                    if "claim" in said and is_id(said["claim"].get("attempt")):
                        claims[said["claim"]["attempt"]] = said["claim"]
        except OSError:
            pass
        return boot, claims


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
