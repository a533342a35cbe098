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

from steelyard.engines.local.files import note_newly, read_json, sync_folder, write_once
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
        self._torn = False  # the log may end within a line
        self._most = MOST_BYTES

    def recover(self) -> None:
        """Makes claims of another boot again whose files are not there, and the log anew: a runner that died
        may have made claims and not synced them. First of all, and by the runner alone. Raises OSError."""
        boot, logged = self._read()
        for attempt, claim in logged.items() if boot != self._boot else ():
            if read_json(self._layout.claim(attempt)) is None:
                write_once(self._layout.claim(attempt), claim)
        for name in os.listdir(self._layout.claims):
            path = os.path.join(self._layout.claims, name)
            if name.endswith(".tmp") or _is_torn(path):
                os.unlink(path)  # never answered; its attempt may still be started
        with suppress(OSError):  # a full disk keeps nobody from what runs; `sync` comes before anything new
            self._begin()

    def add(self, claim: dict[str, Any]) -> bool:
        """Makes a claim, which lasts after `sync`; False where there is one already. Raises OSError."""
        if not note_newly(self._layout.claim(claim["attempt"]), claim):
            return False
        self._lines.append(_line({"claim": claim}))
        return True

    def sync(self) -> None:
        """Makes all claims last. Nothing of them may be started before. Raises OSError: then they do not, and
        the caller takes them back."""
        lines, torn = b"".join(self._lines), self._torn
        self._lines.clear()
        self._torn = True
        if self._fd is None or torn or os.fstat(self._fd).st_size > self._most:
            self._begin()
        elif lines:
            _write(self._fd, lines)
            os.fdatasync(self._fd)
        self._torn = False

    def take_back(self, attempt: str) -> None:
        """Of a claim that could not be made to last: it was not made."""
        with suppress(OSError):
            os.unlink(self._layout.claim(attempt))

    def drop(self, attempt: str, notes: str) -> None:
        """Its work folder says from here on that it was. The file goes into a folder of `notes`, with which
        it is removed when there is time. Raises OSError."""
        claim = self._layout.claim(attempt)
        try:
            os.rename(claim, os.path.join(notes, "claim.json"))
        except FileNotFoundError:  # one of both is not there
            with suppress(FileNotFoundError):
                os.unlink(claim)
        if self._fd is not None:
            try:
                _write(self._fd, _line({"gone": attempt}))
            except OSError:  # what is read again without need does no harm
                self._torn = True

    def _begin(self) -> None:
        """A new log of every claim there is, in place of the one before."""
        names = sorted(name for name in os.listdir(self._layout.claims) if name.endswith(".json"))
        claims = [read_json(os.path.join(self._layout.claims, name)) for name in names]
        lines = [_line({"claim": claim}) for claim in claims if claim is not None]
        temporary = self._path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write(fd, b"".join([_line({"boot": self._boot}), *lines]))
            os.fsync(fd)
            os.rename(temporary, self._path)
        except OSError:
            os.close(fd)
            raise
        if self._fd is not None:
            os.close(self._fd)
        self._fd = fd
        self._most = max(MOST_BYTES, 2 * os.fstat(fd).st_size)  # what is not forgotten may be more than that
        sync_folder(self._layout.local)

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
                    if not isinstance(said, dict):
                        continue
                    boot = said.get("boot", boot)
                    claims.pop(str(said.get("gone")), None)
                    claim = said.get("claim")
                    if isinstance(claim, dict) and is_id(claim.get("attempt")):
                        claims[claim["attempt"]] = claim
        except OSError:
            pass
        return boot, claims


def _write(fd: int, data: bytes) -> None:
    """All of it: a disk with some room left takes a part. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _is_torn(path: str) -> bool:
    """Whether this is a file without a claim; not one that can't be read now."""
    try:
        with open(path, "rb") as file:
            json.loads(file.read())
    except ValueError:
        return True
    except OSError:
        return False
    return False


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
