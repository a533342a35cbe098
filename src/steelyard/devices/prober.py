"""Looks after a machine's accelerators: bus and device files, each family's tool in a thread of its own.

A tool that hangs keeps only its family waiting: `look` takes what there is and never waits for longer than it
is told to. A family is asked when bus or files show it, when it was found before, or when its tool is there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.devices.ask import Answer, Asker, unknown
from steelyard.devices.catalogue import Catalogue
from steelyard.devices.probes import load_probes
from steelyard.devices.scan import Scan, scan
from steelyard.devices.settings import DeviceSettings
from steelyard.model.health import SignCode
from steelyard.model.units import SECOND

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """The last scan, and each family's last answer."""

    scan: Scan
    answers: dict[str, Answer]


class Prober:
    """One machine. `look` and `close` may be called by any thread."""

    def __init__(
        self,
        settings: DeviceSettings,
        catalogue: Catalogue,
        now: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._now = now
        self._clock = clock
        self._every = settings.every / SECOND
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._askers = {
            family: Asker(probe, settings, self._stop) for family, probe in load_probes().items()
        }
        self._answers: dict[str, Answer] = {}
        self._busy: dict[str, threading.Thread] = {}
        self._due: dict[str, float] = {}
        self._late: dict[str, float] = {}  # when what is being asked is overdue
        self._scan: Scan | None = None
        self._scan_due = 0.0

    def look(self, known: Iterable[str] = (), wait: float = 0.0) -> Look:
        """What is there. `known`: families that were found before; waits up to `wait` seconds for answers of
        those that have given none yet."""
        with self._changed:
            here = self._scanned()
            wanted = [family for family in self._askers if self._is_wanted(family, here, known)]
            for family in wanted:
                self._start(family, here)
            until = time.monotonic() + wait
            while any(family in self._busy and family not in self._answers for family in wanted):
                rest = until - time.monotonic()
                if rest <= 0 or self._stop.is_set():
                    break
                self._changed.wait(rest)
            for family in wanted:
                self._say_overdue(family)
            return Look(here, dict(self._answers))

    def asker(self, family: str) -> Asker:
        """Who asks a family: for what the steps of its finding are."""
        return self._askers[family]

    def close(self) -> None:
        """Ends the tools that still run."""
        self._stop.set()
        for thread in list(self._busy.values()):
            thread.join(_CLOSE_SECONDS)

    def _scanned(self) -> Scan:
        if self._scan is None or self._clock() >= self._scan_due:
            self._scan = scan(self._catalogue, Path(self._settings.system))
            self._scan_due = self._clock() + min(self._every, 5.0)
        return self._scan

    def _is_wanted(self, family: str, here: Scan, known: Iterable[str]) -> bool:
        if family in here.families() or family in known:
            return True
        # Looked for with the same rhythm as answers are: a tool may be installed later.
        if self._clock() < self._due.get(family, 0.0):
            return family in self._answers
        if any(where.path is not None for _, where in self._askers[family].tools()):
            return True
        self._due[family] = self._clock() + self._every
        return False

    def _say_overdue(self, family: str) -> None:
        """What is being asked for longer than three calls may take has not answered, once for each round."""
        if family not in self._busy or self._clock() < self._late[family]:
            return
        self._late[family] = self._clock() + self._every
        sign = unknown(SignCode.TOOL_TIMEOUT, "it is still being asked")
        self._keep(Answer(family, self._now(), sign=sign))

    def _keep(self, answer: Answer) -> None:
        before = self._answers.get(answer.family)
        self._answers[answer.family] = replace(answer, number=0 if before is None else before.number + 1)

    def _start(self, family: str, here: Scan) -> None:
        """Asks a family that is due and is not being asked."""
        if family in self._busy or self._stop.is_set() or self._clock() < self._due.get(family, 0.0):
            return
        # What stands in for device files gives no rights.
        files = () if self._settings.simulated else here.files
        groups = sorted({file.group for file in files if file.family == family})
        thread = threading.Thread(
            target=self._ask, args=(family, groups), name=f"probe-{family}", daemon=True
        )
        self._busy[family] = thread
        self._late[family] = self._clock() + self._every + 3 * self._settings.time_limit / SECOND
        thread.start()

    def _ask(self, family: str, groups: list[int]) -> None:
        try:
            answer = self._askers[family].ask(self._now, groups)
        except Exception as error:
            # a probe's edge: whatever is wrong in it is told of its family, and ends no other
            answer = Answer(family, self._now(), sign=unknown(SignCode.TOOL_FAILED, repr(error)))
        with self._changed:
            self._keep(answer)
            self._due[family] = self._clock() + self._every
            self._busy.pop(family, None)
            self._changed.notify_all()


def kernel_log_path(settings: DeviceSettings) -> str:
    """Where the kernel's log is read."""
    return os.path.join(settings.system, "dev/kmsg")
