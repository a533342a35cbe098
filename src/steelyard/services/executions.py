"""Commands beside a workload's members, and their terminals: who may, which member, the record, how many.

Each leaves two leaves: who ran what beside which member, or attached to it, and how that ended. The command
is recorded as it was given, so that secrets do not belong into it; its environment, its input and its output
are not recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unicodedata import normalize

from steelyard.engines.port import ExecStream
from steelyard.evidence.leaf import Head, LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise_object, scope
from steelyard.model.errors import ConflictError, InvalidError, UnavailableError
from steelyard.model.execution import Execution, TerminalSize
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Principal, Verb
from steelyard.services.logs import EngineLookup, find_member
from steelyard.services.reading import DocumentReader
from steelyard.services.workloads import find
from steelyard.store.scoped import Record
from steelyard.store.store import Store
from steelyard.store.unit import NO_HEAD, Unit

KIND = "execution"
MOST = 64  # of one server, at a time
MOST_OF_ONE = 8  # beside one workload
MOST_OF_USER = 16  # of one user, at one server
MAX_WORDS = 256
MAX_COMMAND = 8192  # characters of all words: they stand in the evidence
_ALLOWED = (Phase.RUNNING, Phase.STOPPING)


@dataclass(slots=True)
class Running:
    """A command that runs. `member` is the rendered id of the member beside which it does."""

    id: str
    member: str
    stream: ExecStream
    end: Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Executions:
    """The commands of one server. Thread-safe."""

    store: Store
    engines: EngineLookup
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[tuple[str, int | str], int] = field(default_factory=dict)  # by workload and by user

    def check(self, who: Principal, workload_id: int) -> Record:
        """The workload, if the principal may run commands beside it. Raises NotFoundError, ForbiddenError."""
        with self.store.read() as view:
            row = find(view, who, workload_id)
        name = render("workload", workload_id)
        authorise_object(who, Verb.EXECUTE, "workload", row["project"], name, owner=row["submitter"])
        return row

    def begin(
        self,
        who: Principal,
        workload_id: int,
        member: str | None,
        wanted: Execution | None,
        origin: Origin | None,
    ) -> Running:
        """Record the command and start it; without one, attach to the member's own terminal. What can't be
        started is recorded as ended at once.

        Raises ConflictError `workload-not-running`, UnavailableError with the cluster's code.
        """
        row = self.check(who, workload_id)
        if row["phase"] not in _ALLOWED:
            raise ConflictError(
                "workload-not-running", id=render("workload", workload_id), phase=row["phase"]
            )
        with self.store.read() as view:
            found = find_member(view, scope(who, Verb.VIEW, "workload"), workload_id, member)
        engine = self.engines(found["cluster"])
        if engine is None:
            raise UnavailableError("cluster-not-served", cluster=found["cluster"])
        self._count(workload_id, who.id)
        record = None
        try:
            record = _Record(self.store, who, row, found, wanted, origin)
            stream = engine.attach(record.member) if wanted is None else engine.exec(record.member, wanted)
        except BaseException as error:
            self._discount(workload_id, who.id)
            if record is not None:
                record.end({"reason": "not-started", "text": getattr(error, "code", type(error).__name__)})
            raise

        def end(status: dict[str, Any]) -> None:
            self._discount(workload_id, who.id)
            record.end(status)

        return Running(record.id, record.member, stream, end)

    def _count(self, workload_id: int, user: str) -> None:
        """Raises UnavailableError `too-many-executions`: `most` of the workload, the user or the server."""
        with self._lock:
            for of, key, most in (("workload", workload_id, MOST_OF_ONE), ("user", user, MOST_OF_USER),
                                  ("server", "", MOST)):  # fmt: skip
                if self._counts.get((of, key), 0) >= most:
                    raise UnavailableError("too-many-executions", most=most, of=of)
            for counted in _counted(workload_id, user):
                self._counts[counted] = self._counts.get(counted, 0) + 1

    def _discount(self, workload_id: int, user: str) -> None:
        with self._lock:
            for counted in _counted(workload_id, user):
                left = self._counts.pop(counted, 1) - 1
                if left > 0:
                    self._counts[counted] = left


def _counted(workload_id: int, user: str) -> tuple[tuple[str, int | str], ...]:
    return ("workload", workload_id), ("user", user), ("server", "")


class _Record:
    """The two leaves of one command."""

    def __init__(
        self, store: Store, who: Principal, row: Record, member: Record, wanted: Execution | None,
        origin: Origin | None,
    ) -> None:  # fmt: skip
        self._store, self._who, self._row, self._origin = store, who, row, origin
        self.id = render(KIND, store.ids.next())
        self.member = render("member", member["id"])
        self._head = NO_HEAD
        self._since = store.now()
        self._action = "workload.attach" if wanted is None else "workload.execute"
        detail: dict[str, Any] = {}
        if wanted is not None:
            words = [normalize("NFC", word) for word in wanted.command]
            detail = {"command": words, "terminal": wanted.terminal is not None}
        self._write(self._action, detail)

    def end(self, status: dict[str, Any]) -> None:
        """How it ended."""
        told = {key: _plain(status.get(key)) for key in ("code", "signal", "reason", "text")}
        self._write(f"{self._action}-ended", {**told, "lasted": self._store.now() - self._since})

    def _write(self, action: str, detail: dict[str, Any]) -> None:
        unit = Unit(actor_of(self._who))
        extra = {"workload": render("workload", self._row["id"]), "member": self.member, **detail}
        draft = LeafDraft(
            action, KIND, self.id, project=self._row["project"], origin=self._origin, extra=extra
        )
        unit.leaf(draft, head=self._head, keep=self._keep)
        self._store.writer.write(unit)

    def _keep(self, head: Head) -> None:
        self._head = head


def _plain(value: object) -> str | int | None:
    """What an engine said, as it may stand in the evidence."""
    if isinstance(value, str):
        return normalize("NFC", "".join(one if one.isprintable() else "?" for one in value[:300]))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_request(raw: object, longest: int) -> Execution:
    """The command of a request: {command, terminal: {rows, columns}, term}. Raises InvalidError."""
    reader = DocumentReader(raw, "execution")
    words = []
    for word, path in reader.items("command", MAX_WORDS):
        if not isinstance(word, str) or "\0" in word or not _is_sound(word):
            raise InvalidError("field-invalid", path=path, expected="text")
        words.append(word)
    if not words or not words[0]:
        raise InvalidError("field-missing", path="execution.command")
    if sum(map(len, words)) > MAX_COMMAND:
        raise InvalidError("field-out-of-bounds", path="execution.command", low=1, high=MAX_COMMAND)
    size = reader.reader("terminal") if reader.has("terminal") else None
    terminal = None
    if size is not None:
        rows = size.integer("rows", 24, low=1, high=9999)
        terminal = TerminalSize(rows, size.integer("columns", 80, low=1, high=9999))
        size.finish()
    term = reader.text("term", "xterm", limit=40)
    if not term.isascii() or not term.replace("-", "").replace(".", "").isalnum():
        term = "xterm"
    reader.finish()
    return Execution(tuple(words), terminal, term, longest)


def _is_sound(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
