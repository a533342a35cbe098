"""What the runner knows of every member it accepted, and in which order that changed.

The book is a copy in memory: the claims, run.json and exit.json on disk are the truth, and a runner that
comes anew rebuilds the book from them. Standard library only.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from typing import Any

from steelyard.engines.local import isolation, procfs
from steelyard.engines.local.claims import Claims
from steelyard.engines.local.files import read_json
from steelyard.engines.local.paths import Layout, is_id

#: Below what the kernel hands out by itself, so that no outgoing connection takes a port in between.
PORTS = range(20_000, 32_000)
_PATH = re.compile(r"/[!-~]{0,1000}")
_TEXT, _NUMBER = (str, type(None)), (int, type(None))
_ATTEMPT_FIELDS: dict[str, Any] = {
    "attempt": str, "workload": str, "install": str, "time_limit": _NUMBER, "grace": int,
    "project": str, "resume_from": _TEXT, "service": bool, "probe_path": _TEXT, "members": list,
}
_MEMBER_FIELDS: dict[str, Any] = {
    "member": str, "role": str, "index": int, "command": list, "env": list, "fixed": list, "path": str,
    "folder": _TEXT, "image": _TEXT, "requires": list, "cpu": int, "memory": int, "port": _NUMBER,
}
PENDING, STARTING, RUNNING, ENDED = "pending", "starting", "running", "ended"


class Record:
    """One member as the runner sees it now."""

    __slots__ = (
        "attempt", "changed", "exit", "limits", "member", "phase", "pidfd", "ready", "ready_at", "shim",
        "stage", "started_at", "swept", "tries", "waited",
    )

    def __init__(self, attempt: dict[str, Any], member: dict[str, Any]) -> None:
        self.attempt = attempt
        self.member = member
        self.phase = PENDING
        self.stage: str | None = None
        self.started_at: int | None = None
        self.ready = False
        self.ready_at: int | None = None
        self.exit: dict[str, Any] | None = None
        self.swept = False
        self.limits: str | None = None  # what bounds it, once it is there
        self.shim: tuple[int, int] | None = None  # (pid, start time)
        self.pidfd: int | None = None
        self.tries = 0
        self.waited = 0  # clock ticks of other members' processes that its shim had waited for before
        self.changed = 0

    @property
    def id(self) -> str:
        """The member's id."""
        return str(self.member["member"])

    @property
    def settled(self) -> bool:
        """Whether nothing of it is left to watch."""
        return self.exit is not None and self.swept

    def observation(self, isolation: bool = False) -> dict[str, Any]:
        """What `observe` says of it, in the fields of the port's MemberObservation; its `isolation` only to
        those who ask for it, for earlier servers know no such field."""
        port = self.member["port"]
        seen = {
            "attempt_id": self.attempt["attempt"], "member_id": self.id, "phase": self.phase,
            "sub_stage": self.stage if self.phase in (PENDING, STARTING) else None,
            "ready": self.ready and self.phase == RUNNING,
            "started_at": self.started_at, "ready_at": self.ready_at,
            "endpoint": f"127.0.0.1:{port}" if port is not None and self.phase == RUNNING else None,
        }
        if isolation:
            seen.update(isolation=self._isolation(), limits=self.limits)
        if self.exit is not None:
            for key in ("ended_at", "exit_code", "exit_signal", "failure", "failure_stage", "failure_text",
                        "stop_requested", "timed_out"):
                seen[key] = self.exit.get(key)
        return seen

    def _isolation(self) -> dict[str, Any] | None:
        """The mode that it runs in, once it does, and what that does not enforce for it."""
        if self.started_at is None:
            return None
        mode = isolation.mode_of(self.attempt, self.member)
        held = isolation.of_member(self.attempt, self.member)
        return {"mode": mode, "not_enforced": isolation.not_enforced(held)}


def read_notes(layout: Layout, record: Record) -> None:
    """Takes in what a member's shim has written."""
    notes = layout.notes
    if record.exit is None:
        record.exit = read_json(notes(record.id, "exit.json"))
    run = read_json(notes(record.id, "run.json"))
    if run is not None and isinstance(run.get("started_at"), int):
        record.started_at = run["started_at"]
        record.limits = run["limits"] if isinstance(run.get("limits"), str) else None
        record.waited = run["waited"] if isinstance(run.get("waited"), int) else 0
    if record.exit is not None:
        record.phase, record.started_at = ENDED, record.exit.get("started_at")
        record.swept = os.path.lexists(notes(record.id, "swept"))
    elif run is not None:
        running = run.get("child") is not None
        record.phase, record.stage = RUNNING if running else STARTING, str(run.get("stage"))
        record.shim = record.shim or _noted(run)
    if record.phase == RUNNING and record.ready_at is None:
        ready = read_json(notes(record.id, "ready.json")) or {}
        record.ready_at = ready.get("at") if isinstance(ready.get("at"), int) else None


def _noted(run: dict[str, Any]) -> tuple[int, int] | None:
    noted = run.get("shim") or {}
    pid, start = noted.get("pid"), noted.get("start")
    return (pid, start) if isinstance(pid, int) and isinstance(start, int) else None


class Book:
    """All records, by attempt and by member; `changed` numbers tell what is newer than a cursor."""

    def __init__(
        self, layout: Layout, settle: Callable[[dict[str, Any]], str | None] = lambda _attempt: None
    ) -> None:
        """`settle` completes an attempt before it is claimed, or gives the code of a refusal."""
        self.layout = layout
        self._settle = settle
        self.boot = procfs.boot_id()
        self.claims = Claims(layout, self.boot)
        self.attempts: dict[str, list[Record]] = {}
        self.members: dict[str, Record] = {}
        self.change = 0
        self.settled = 0  # how many members were seen to have ended, with nothing left of them
        started = time.time_ns() // 1000
        self.life = f"{self.boot[:8]}-{os.getpid()}-{started}"
        self.sequence = started  # grows over the lives of runners, too
        self._port = PORTS.start + started % len(PORTS)

    def touch(self, record: Record) -> None:
        """Notes that a record is new or has changed."""
        self.change += 1
        record.changed = self.change

    def live(self) -> int:
        """How many members have not ended."""
        return sum(record.phase != ENDED for record in self.members.values())

    # ---- claims

    def claim(self, attempt: dict[str, Any]) -> str:
        """Accepts an attempt by its claim on disk: `accepted`, `already`, or the code of a refusal.

        The claim lasts only after `claims.sync`; nothing may be forked before. Raises OSError.
        """
        code = problem(attempt)
        if code is not None:
            return code
        name = attempt["attempt"]
        if name in self.attempts or os.path.lexists(self.layout.attempt_work(name)):
            return "already"
        if any(member["member"] in self.members for member in attempt["members"]):
            return "member-id-taken"
        code = self._settle(attempt)
        if code is not None:
            return code
        for member in attempt["members"]:
            member["port"] = self._free_port() if member["port"] else None
        claim = {**attempt, "v": 1, "boot": self.boot, "claimed_at": time.time_ns() // 1000}
        if not self.claims.add(claim):
            return "already"
        self.add(claim)
        return "accepted"

    def add(self, claim: dict[str, Any]) -> list[Record]:
        """Takes the members of a claim into the book."""
        records = [Record(claim, member) for member in claim["members"]]
        self.attempts[claim["attempt"]] = records
        for record in records:
            self.members[record.id] = record
            self.touch(record)
        return records

    def load(self) -> None:
        """Reads every claim there is. A torn one was never answered: nothing of it was forked."""
        for name in sorted(os.listdir(self.layout.claims)):
            if name.endswith(".json"):
                claim = read_json(os.path.join(self.layout.claims, name))
                if claim is not None and problem(claim) is None and claim["attempt"] + ".json" == name:
                    self.add(claim)

    def drop(self, attempt: str) -> None:
        """Takes an attempt out of the book."""
        for record in self.attempts.pop(attempt, []):
            self.members.pop(record.id, None)

    def _free_port(self) -> int:
        taken = {record.member["port"] for record in self.members.values()}
        for _ in PORTS:
            self._port = self._port + 1 if self._port + 1 < PORTS.stop else PORTS.start
            if self._port not in taken and _is_free(self._port):
                return self._port
        raise OSError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def problem(attempt: dict[str, Any]) -> str | None:
    """Why this attempt can never be started, as a code; None when it can. Ids become paths: see there."""
    if not _has_fields(attempt):
        return "request-incomplete"
    if not is_id(attempt["attempt"]):
        return "attempt-id-invalid"
    if attempt["resume_from"] is not None and not is_id(attempt["resume_from"]):
        return "resume-id-invalid"
    path = attempt["probe_path"]
    if path is not None and _PATH.fullmatch(path) is None:
        return "probe-path-invalid"
    ids = [member["member"] for member in attempt["members"]]
    if not ids or len(set(ids)) != len(ids) or not all(is_id(one) for one in ids):
        return "member-id-invalid"
    texts = [attempt["install"], attempt["workload"]]
    for member in attempt["members"]:
        texts += [*member["command"], member["role"], member["folder"] or "", member["path"]]
        for key, value in (*member["env"], *member["fixed"]):
            if not key or "=" in key:
                return "env-name-invalid"
            texts += [key, value]
    return None if all(_fits(text) for text in texts) else "text-invalid"


def _has_fields(attempt: dict[str, Any]) -> bool:
    """Whether every field is there and of its type: a claim is read again by every later runner."""
    if not all(isinstance(attempt.get(key), kind) for key, kind in _ATTEMPT_FIELDS.items()):
        return False
    for member in attempt["members"]:
        if not all(isinstance(member.get(key), kind) for key, kind in _MEMBER_FIELDS.items()):
            return False
        if not all(isinstance(text, str) for text in (*member["command"], *member["requires"])):
            return False
        if not all(len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str)
                   for pair in (*member["env"], *member["fixed"])):
            return False
    return True


def _fits(text: str) -> bool:
    """Whether the kernel takes the text as an argument: no NUL, and bytes can be made of it."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
