"""Refused attempts in the audit: a wrong password or name, and asking for what one may not.

A refused request for a workload is a record of its own (`services.refusals`); every other denial is a leaf
on the account of who tried. It is written beside the request and not waited for: the time that an answer
takes must not tell what is there. Of one account and kind at most ten a minute are written, so that nobody
fills the log by trying; each says the how manieth of its minute it is. Names that nobody has count as one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unicodedata import normalize

import structlog

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.model.errors import ForbiddenError, InvalidError, NotFoundError, SteelyardError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal
from steelyard.model.units import MINUTE
from steelyard.services.reading import check_name, shown
from steelyard.services.users import account_row, again_when_stale, touch
from steelyard.store.store import Store
from steelyard.store.unit import Unit

MAX_A_MINUTE = 10
MAX_ACCOUNTS = 10_000  # remembered at a time
ACCESS, SIGN_IN = "access.refused", "session.refused"
#: What changes nothing: what is not there is no attempt of anything.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_TOLD = ("verb", "noun", "project", "kind")
_log = structlog.get_logger(__name__)


def is_attempt(error: SteelyardError, method: str) -> bool:
    """Whether an error is to stand in the audit: what is forbidden and has no record of its own yet, and a
    change of what is not there for its sender, which may be somebody else's."""
    if isinstance(error, ForbiddenError):
        return error.params.get("refusal") is None
    return isinstance(error, NotFoundError) and error.code == "not-found" and method not in _SAFE


class RefusedAttempts:
    """Writes them, in a thread of its own. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        self._notes = ThreadPoolExecutor(1, thread_name_prefix="refused-attempts")

    def sign_in(self, account: str, origin: Origin | None) -> None:
        """A wrong password for an account that is there."""
        self._note(account, SIGN_IN, SYSTEM, origin, {})

    def sign_in_of_nobody(self, name: str, origin: Origin | None) -> None:
        """A sign-in for an account that is not there: a leaf of its own, as there is none to stand on. The
        name is concealed; what can be no name is left out, as it may be a secret in the wrong field."""
        count = self._count("", SIGN_IN)
        if count <= MAX_A_MINUTE:
            self._submit(self._write_of_nobody, SIGN_IN, name, origin, count)

    def access(
        self,
        principal: Principal,
        error: SteelyardError,
        origin: Origin | None,
        *,
        method: str,
        route: str,
        named: Mapping[str, Any],
    ) -> None:
        """A denied request. `route` is the address with names in place of what was asked for, `named`."""
        if principal.kind != "user" or not is_attempt(error, method):
            return
        objects = [normalize("NFC", shown(value)) for value in named.values() if isinstance(value, str)]
        detail = {
            "request": f"{method} {route}",
            "object": "/".join(objects) or None,
            "code": error.code,
            **{name: error.params.get(name) for name in _TOLD},
        }
        self._note(principal.name, ACCESS, principal, origin, detail)

    def close(self) -> None:
        """Write what is still to be noted. To be called before the store is closed."""
        self._notes.shutdown()

    def _note(
        self, name: str, action: str, actor: Principal, origin: Origin | None, detail: dict[str, Any]
    ) -> None:
        count = self._count(name, action)
        if count > MAX_A_MINUTE:
            return
        self._submit(self._write, action, name, actor, origin, {**detail, "count": count})

    def _submit(self, write: Callable[..., None], action: str, *arguments: Any) -> None:
        try:
            self._notes.submit(self._written, write, action, *arguments)
        except RuntimeError:
            _log.warning("attempt not noted: closing", action=action)

    @staticmethod
    def _written(write: Callable[..., None], action: str, *arguments: Any) -> None:
        try:
            write(action, *arguments)
        except Exception as error:  # the edge of this thread: nobody waits for the answer
            _log.warning("attempt not noted", action=action, exc_info=error)

    def _count(self, name: str, action: str) -> int:
        minute = self._store.now() // MINUTE
        with self._lock:
            if len(self._counts) >= MAX_ACCOUNTS:
                self._counts = {key: seen for key, seen in self._counts.items() if seen[0] == minute}
            since, count = self._counts.get((name, action), (minute, 0))
            count = count + 1 if since == minute else 1
            self._counts[name, action] = (minute, count)
        return count

    def _write(
        self, action: str, name: str, actor: Principal, origin: Origin | None, detail: dict[str, Any]
    ) -> None:
        def once() -> None:
            unit = Unit(actor_of(actor))
            with self._store.read() as view:
                touch(unit, account_row(view, name), action, origin=origin, outcome="refused", extra=detail)
            self._store.writer.write(unit)

        again_when_stale(name, once)

    def _write_of_nobody(self, action: str, name: str, origin: Origin | None, count: int) -> None:
        try:
            check_name(name, "name")
            concealed = self._store.writer.secrets.conceal(name)
        except InvalidError:
            concealed = None
        unit = Unit(actor_of(SYSTEM))
        draft = LeafDraft(
            action,
            "session",
            render("session", self._store.ids.next()),
            outcome="refused",
            origin=origin,
            extra={"user": concealed, "count": count},
        )
        unit.leaf(draft)
        self._store.writer.write(unit)
