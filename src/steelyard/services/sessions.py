"""Signing in and out, tokens, and who stands behind a secret."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from steelyard.evidence.leaf import Origin, Sequenced
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise, scope
from steelyard.identity.passwords import verify_password
from steelyard.identity.tokens import CredentialKind, digest, new_secret, well_formed
from steelyard.model.errors import ForbiddenError, InvalidError, NotFoundError, UnauthenticatedError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Verb
from steelyard.model.units import DAY, HOUR
from steelyard.services.attempts import RefusedAttempts
from steelyard.services.users import account_row, again_when_stale, touch
from steelyard.store import accounts as rows
from steelyard.store import tables as t
from steelyard.store.accounts import AccountRow, CredentialRow
from steelyard.store.declared import open_bindings
from steelyard.store.store import Store
from steelyard.store.unit import Unit

SESSION_LIFE = 12 * HOUR
MAX_TOKEN_LIFE = 3660 * DAY
MAX_TOKEN_NAME = 100
CACHE_SECONDS = 1.0
MAX_CACHED = 10_000
_ACCESS_KINDS = frozenset({"user", "binding"})


@dataclass(frozen=True, slots=True)
class Identified:
    """Who stands behind a secret, and which credential it was."""

    principal: Principal
    credential_id: int
    kind: CredentialKind
    expires_at: int | None
    must_change: bool


@dataclass(frozen=True, slots=True)
class Issued:
    """A fresh credential with its secret, which is shown once."""

    id: int
    secret: str
    user: str
    name: str | None
    created_at: int
    expires_at: int | None


OnIssued = Callable[[Unit, Issued], None]


class Principals:
    """Finds who stands behind a secret; remembers for at most a second, and forgets at once when this
    server commits a change of an account or a binding."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._generation = 0
        self._known: dict[str, tuple[float, Identified]] = {}
        store.writer.on_publish(self._on_publish)

    def identify(self, secret: str) -> Identified:
        """Raises UnauthenticatedError `credential-invalid` for what is unknown, expired or revoked."""
        if not well_formed(secret):
            raise UnauthenticatedError("credential-invalid")
        key, now = digest(secret), self._clock()
        found = self._kept(key, now)
        if found is None:
            generation = self._generation
            found = self._look_up(key)
            self._keep(key, generation, now, found)
        return self._in_force(found)

    def remembered(self, secret: str) -> Identified | None:
        """The same without a look into the store; None where that would take one. Raises the same."""
        if not well_formed(secret):
            raise UnauthenticatedError("credential-invalid")
        found = self._kept(digest(secret), self._clock())
        return None if found is None else self._in_force(found)

    def _kept(self, key: str, now: float) -> Identified | None:
        known = self._known.get(key)
        return known[1] if known is not None and now - known[0] < CACHE_SECONDS else None

    def _in_force(self, found: Identified) -> Identified:
        if found.expires_at is not None and found.expires_at <= self._store.now():
            raise UnauthenticatedError("credential-invalid")
        return found

    def principal_of(self, secret: str) -> Principal:
        """The principal alone."""
        return self.identify(secret).principal

    def _look_up(self, key: str) -> Identified:
        with self._store.read() as view:
            credential = rows.credential_by_digest(view, key)
            if credential is None or credential.revoked_at is not None:
                raise UnauthenticatedError("credential-invalid")
            account = rows.account_by_id(view, credential.user_id)
            if account is None or account.disabled:
                raise UnauthenticatedError("credential-invalid")
            bindings = tuple(row.binding for row in open_bindings(view, account.name))
        principal = Principal(render("user", account.id), "user", account.name, bindings)
        kind = CredentialKind(credential.kind)
        return Identified(principal, credential.id, kind, credential.expires_at, account.must_change)

    def _keep(self, key: str, generation: int, now: float, found: Identified) -> None:
        with self._lock:
            if generation != self._generation:
                return
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            self._known[key] = (now, found)

    def _on_publish(self, done: Sequenced) -> None:
        if any(row.object_kind in _ACCESS_KINDS for row in done.rows):
            with self._lock:
                self._generation += 1
                self._known.clear()


def require_own_password(who: Identified) -> None:
    """Raises ForbiddenError `password-change-required` for a session that was opened with a one-time password
    not changed since. To be called before anything but: telling who one is, changing one's own password
    (`services.users.change_password` with `keep_credential`, the old password and the new one), signing out.

    Tokens go on: they don't rest on the password. Yet nobody makes one before the change, as that takes a
    session; only an administrator, whose own password is changed, gives one to an account.
    """
    if who.must_change and who.kind is CredentialKind.SESSION:
        raise ForbiddenError("password-change-required", user=who.principal.name)


class Logins:
    """Signing in with a password. Refused attempts leave a leaf, a few a minute, also for unknown names."""

    def __init__(self, store: Store, attempts: RefusedAttempts) -> None:
        self._store = store
        self._attempts = attempts

    def login(self, name: str, password: str, *, origin: Origin | None = None) -> Issued:
        """A session of 12 hours. Raises UnauthenticatedError `login-refused`, whatever the cause."""
        with self._store.read() as view:
            account = rows.account_by_name(view, name)
        stored = account.password_hash if account is not None else None
        fits = verify_password(stored, password)
        if account is None or not fits or account.disabled:
            if account is not None:
                self._attempts.sign_in(account.name, origin)
            else:
                self._attempts.sign_in_of_nobody(name, origin)
            raise UnauthenticatedError("login-refused")
        return again_when_stale(name, lambda: self._open(name, origin))

    def _open(self, name: str, origin: Origin | None) -> Issued:
        with self._store.read() as view:
            account = account_row(view, name)
        if account.disabled:
            raise UnauthenticatedError("login-refused")
        actor = Principal(render("user", account.id), "user", name)
        unit = Unit(actor_of(actor))
        expires = self._store.now() + SESSION_LIFE
        issued = _issue(unit, self._store, account, CredentialKind.SESSION, None, expires, origin)
        self._store.writer.write(unit)
        return issued


def logout(store: Store, who: Identified, *, origin: Origin | None = None) -> None:
    """End the credential that the request came with."""
    _revoke(store, who.principal, who.credential_id, "session.closed", origin)


def create_token(
    store: Store,
    principal: Principal,
    name: str,
    *,
    user: str | None = None,
    expires_in: int | None = None,
    at_most: int | None = None,
    origin: Origin | None = None,
    on_unit: OnIssued | None = None,
) -> Issued:
    """A token for oneself, or by an administrator for `user`. `expires_in` in µs, None: until revoked.
    It ends at `at_most` (µs UTC) at the latest, if given: a token makes none that outlives it.

    Raises ForbiddenError, NotFoundError, InvalidError.
    """
    owner = principal.name if user is None else user
    if principal.kind != "user" or owner != principal.name:
        authorise(principal, Verb.MANAGE, "token")
    if not 0 < len(name) <= MAX_TOKEN_NAME or not name.isprintable():
        raise InvalidError("field-invalid", path="name", expected="text")
    if expires_in is not None and not 0 < expires_in <= MAX_TOKEN_LIFE:
        raise InvalidError("field-out-of-bounds", path="expires_in", low=1, high=MAX_TOKEN_LIFE)

    def once() -> Issued:
        with store.read() as view:
            account = account_row(view, owner)
        unit = Unit(actor_of(principal))
        ends = [at_most, None if expires_in is None else store.now() + expires_in]
        expires = min((end for end in ends if end is not None), default=None)
        issued = _issue(unit, store, account, CredentialKind.TOKEN, name, expires, origin)
        if on_unit is not None:
            on_unit(unit, issued)
        store.writer.write(unit)
        return issued

    return again_when_stale(owner, once)


def list_tokens(store: Store, principal: Principal) -> list[CredentialRow]:
    """Tokens in force, one's own or, for those who may view users, everybody's."""
    with store.read() as view:
        return rows.credentials(view, scope(principal, Verb.VIEW, "token"), kind=CredentialKind.TOKEN)


def revoke_token(store: Store, principal: Principal, number: int, *, origin: Origin | None = None) -> None:
    """End a credential: one's own, or by an administrator anybody's. Raises NotFoundError."""
    _revoke(store, principal, number, "token.revoked", origin)


def _revoke(store: Store, principal: Principal, number: int, action: str, origin: Origin | None) -> None:
    def once() -> None:
        with store.read() as view:
            found = rows.credential_by_id(view, scope(principal, Verb.MANAGE, "token"), number)
            account = None if found is None else rows.account_by_id(view, found.user_id)
        if found is None or account is None or found.revoked_at is not None:
            raise NotFoundError("not-found", kind="credential", id=render("credential", number))
        unit = Unit(actor_of(principal))
        unit.update(t.credential, {"id": number}, null=("revoked_at",), revoked_at=store.now())
        touch(unit, account, action, origin=origin, extra={"credential": render("credential", number)})
        store.writer.write(unit)

    again_when_stale(principal.name, once)


def _issue(
    unit: Unit,
    store: Store,
    account: AccountRow,
    kind: CredentialKind,
    name: str | None,
    expires_at: int | None,
    origin: Origin | None,
) -> Issued:
    issued = Issued(store.ids.next(), new_secret(), account.name, name, store.now(), expires_at)
    unit.insert(
        t.credential,
        id=issued.id,
        user_id=account.id,
        kind=kind.value,
        name=name,
        digest=digest(issued.secret),
        created_at=issued.created_at,
        expires_at=expires_at,
        revoked_at=None,
    )
    action = "session.opened" if kind is CredentialKind.SESSION else "token.created"
    touch(unit, account, action, origin=origin, extra={"credential": render("credential", issued.id)})
    return issued
