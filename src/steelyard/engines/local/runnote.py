"""A member's run.json: what it is made of, and how surely it is written. The table of shim.py says what is
concluded from it. Standard library only: the runner imports this.
"""

from __future__ import annotations

import os
from typing import Any

from steelyard.engines.local import procfs
from steelyard.engines.local.files import note_newly, note_plainly, replace_json
from steelyard.engines.local.paths import Layout


class RunNote:
    """What this process, its shim, notes of a member. `executes`: it was noted last that it may execute."""

    def __init__(self, layout: Layout, attempt: dict[str, Any], member: str) -> None:
        me = procfs.read_process(os.getpid())
        self._path = layout.notes(member, "run.json")
        self._fixed = {
            "v": 1, "boot": procfs.boot_id(), "install": attempt["install"], "attempt": attempt["attempt"],
            "member": member, "shim": {"pid": os.getpid(), "start": None if me is None else me.start},
            # before this member: a shim may have had others
            "waited": 0 if me is None else me.waited_cpu,
        }  # fmt: skip
        self.executes = False

    def stage(self, stage: str, groups: tuple[str, ...], limits: str, *, executes: bool = False) -> None:
        """How far it is; `executes`: from here on it may execute. Raises OSError."""
        self.executes = executes
        note = self._note(stage, groups, limits, None, None)
        if not executes:
            note_plainly(self._path, note)  # one that is torn says the same as none
        elif not note_newly(self._path, note):
            replace_json(self._path, note)  # after a power failure nothing is started again, whatever it says

    def runs(
        self, groups: tuple[str, ...], limits: str, child: tuple[int, int | None], started: int | None,
        *, over: bool, executed: bool,
    ) -> None:  # fmt: skip
        """Its program, (pid, start time), has `executed`, or is going to; `over`: it has ended, too. Raises
        OSError where it was not executed yet: it is tried again."""
        self.executes = False
        note = self._note("running", groups, limits, {"pid": child[0], "start": child[1]}, started)
        if over:
            note_plainly(self._path, note)  # whoever finds it torn waits for its end
            return
        try:
            replace_json(self._path, note)
        except OSError:
            if not executed:
                raise
            note_plainly(self._path, note)  # the disk is full: over what is there

    def _note(
        self, stage: str, groups: tuple[str, ...], limits: str, child: dict[str, Any] | None,
        started: int | None,
    ) -> dict[str, Any]:  # fmt: skip
        return {
            **self._fixed, "stage": stage, "child": child, "started_at": started, "groups": list(groups),
            "limits": limits, "executes": self.executes,
        }  # fmt: skip
