"""Accounts: created with a one-time password, changed, disabled. Credentials are in `services.sessions`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from steelyard.evidence.leaf import LeafDraft, Origin
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise, scope
from steelyard.identity.passwords import hash_password, one_time_password, verify_password
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, RoleName, Scope, Verb
from steelyard.services.reading import check_name
from steelyard.store import accounts as rows
from steelyard.store import tables as t
from steelyard.store.accounts import AccountRow
from steelyard.store.database import View
from steelyard.store.declared import open_bindings
from steelyard.store.statements import Row
from steelyard.store.store import Store
from steelyard.store.unit import NO_HEAD, Unit
from steelyard.store.writer import StaleError

T = TypeVar("T")
MAX_TRIES = 5
_TURNS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True)
class Account:
    """A person's account, for readers."""

    id: int
    name: str
    display_name: str | None
    disabled: bool
    must_change: bool
    created_at: int
    version: int


@dataclass(frozen=True, slots=True)
class NewAccount:
    """A fresh account with the one-time password that is shown once."""

    account: Account
    password: str


OnUser = Callable[[Unit, Account], None]


def again_when_stale(account: str, once: Callable[[], T]) -> T:
    """Build the unit anew when the account's row changed meanwhile; the last time the conflict is the
    caller's. On this server changes of one account take turns, so that only other servers are in the way."""
    with _TURNS[hash(account) % len(_TURNS)]:
        for _ in range(MAX_TRIES - 1):
            try:
                return once()
            except StaleError:
                continue
        return once()


def touch(
    unit: Unit,
    account: AccountRow,
    action: str,
    *,
    origin: Origin | None,
    extra: dict[str, Any] | None = None,
    outcome: str = "allowed",
    **values: Any,
) -> Row:
    """Change an account's row (or nothing but its stream's head) with its leaf. Guarded by the head."""
    draft = LeafDraft(
        action=action,
        object_kind="user",
        object_id=render("user", account.id),
        version_before=account.version,
        version_after=values.get("version", account.version),
        outcome=outcome,
        origin=origin,
        extra=extra,
    )
    row = unit.update(t.user, {"id": account.id, "head_n": account.head.n}, **values)
    unit.leaf(draft, row, account.head)
    return row


def add_account(
    unit: Unit, store: Store, name: str, display_name: str | None, password: str, origin: Origin | None
) -> Account:
    """Add the writes of a new account to a unit; its password is to be changed by its owner."""
    account = Account(store.ids.next(), name, display_name, False, True, store.now(), 1)
    row = unit.insert(
        t.user,
        id=account.id,
        name=name,
        display_name=display_name,
        password_hash=hash_password(password),
        disabled=False,
        must_change=True,
        version=1,
        created_at=account.created_at,
    )
    draft = LeafDraft("user.created", "user", render("user", account.id), None, 1, origin=origin)
    unit.leaf(draft, row, NO_HEAD)
    return account


def create_user(
    store: Store,
    principal: Principal,
    name: str,
    display_name: str | None = None,
    *,
    origin: Origin | None = None,
    dry_run: bool = False,
    on_unit: OnUser | None = None,
) -> NewAccount:
    """A new account. Raises ForbiddenError, InvalidError `name-invalid`, ConflictError `user-exists`."""
    authorise(principal, Verb.MANAGE, "user")
    check_name(name, "name")
    password = one_time_password()
    with store.read() as view:
        if rows.account_by_name(view, name) is not None:
            raise ConflictError("user-exists", name=name)
    unit = Unit(actor_of(principal))
    account = add_account(unit, store, name, display_name, password, origin)
    if not dry_run:
        if on_unit is not None:
            on_unit(unit, account)
        store.writer.write(unit)
    return NewAccount(account, password)


def list_users(store: Store, principal: Principal) -> list[Account]:
    """All accounts for those who may view users, else the principal's own."""
    with store.read() as view:
        return [account_of(row) for row in rows.accounts(view, scope(principal, Verb.VIEW, "user"))]


def change_password(
    store: Store,
    principal: Principal,
    name: str,
    new: str,
    old: str | None = None,
    *,
    keep_credential: int | None = None,
    origin: Origin | None = None,
) -> Account:
    """Set a password and end the account's sessions but for `keep_credential`. Its owner gives the old
    one, and then need not change it again; an administrator needs none for others, who then have to.
    Raises ForbiddenError `old-password-wrong`, InvalidError `password-too-short`, `password-too-long`,
    `password-unchanged` (the new one is the old one), NotFoundError."""
    own = principal.kind == "user" and principal.name == name
    if not own:
        authorise(principal, Verb.MANAGE, "user")

    def once() -> Account:
        unit = Unit(actor_of(principal))
        with store.read() as view:
            found = account_row(view, name)
            if own and not verify_password(found.password_hash, old or ""):
                raise ForbiddenError("old-password-wrong")
            if own and new == old:
                raise InvalidError("password-unchanged")
            hashed = hash_password(new)
            touch(
                unit,
                found,
                "user.password-changed",
                origin=origin,
                password_hash=hashed,
                must_change=not own,
                version=found.version + 1,
            )
            revoke_all(unit, view, found.id, store.now(), kind="session", keep=keep_credential)
        store.writer.write(unit)
        return Account(
            found.id, name, found.display_name, found.disabled, not own, found.created_at, found.version + 1
        )

    return again_when_stale(name, once)


def disable_user(store: Store, principal: Principal, name: str, *, origin: Origin | None = None) -> Account:
    """Disable an account and revoke all it could sign in with. Raises ConflictError `last-administrator`
    when nobody would be left to administer, ForbiddenError, NotFoundError."""
    authorise(principal, Verb.MANAGE, "user")

    def once() -> Account:
        unit = Unit(actor_of(principal))
        with store.read() as view:
            found = account_row(view, name)
            if found.disabled:
                return account_of(found)
            if not administrators(view) - {name}:
                raise ConflictError("last-administrator")
            touch(unit, found, "user.disabled", origin=origin, disabled=True, version=found.version + 1)
            revoke_all(unit, view, found.id, store.now())
        store.writer.write(unit)
        return Account(
            found.id, name, found.display_name, True, found.must_change, found.created_at, found.version + 1
        )

    return again_when_stale(name, once)


def administrators(view: View) -> set[str]:
    """Names of accounts that are not disabled and bound as administrators."""
    enabled = {row.name for row in rows.accounts(view, Scope.system()) if not row.disabled}
    bound = {row.binding.user for row in open_bindings(view) if row.binding.role is RoleName.ADMINISTRATOR}
    return enabled & bound


def revoke_all(
    unit: Unit, view: View, user_id: int, now: int, *, kind: str | None = None, keep: int | None = None
) -> None:
    """End an account's credentials but for `keep`."""
    for credential in rows.credentials(view, Scope.system(), user_id=user_id, kind=kind):
        if credential.id != keep:
            unit.update(t.credential, {"id": credential.id}, null=("revoked_at",), revoked_at=now)


def account_row(view: View, name: str) -> AccountRow:
    """The account's row. Raises NotFoundError."""
    found = rows.account_by_name(view, name)
    if found is None:
        raise NotFoundError("not-found", kind="user", id=name[:63])
    return found


def account_of(row: AccountRow) -> Account:
    """The row without what readers may not see."""
    return Account(
        row.id, row.name, row.display_name, row.disabled, row.must_change, row.created_at, row.version
    )
