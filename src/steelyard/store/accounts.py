"""Reading accounts and their credentials. Secrets are never stored, only digests of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, select

from steelyard.evidence.leaf import Head
from steelyard.model.ids import parse
from steelyard.model.organisation import Scope
from steelyard.store import tables as t


@dataclass(frozen=True, slots=True)
class AccountRow:
    """A person's account."""

    id: int
    name: str
    display_name: str | None
    password_hash: str | None
    disabled: bool
    must_change: bool
    version: int
    created_at: int
    head: Head


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A token or session, without its secret. `user` is the account's name."""

    id: int
    user_id: int
    user: str
    kind: str
    name: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None


def account_names(connection: Connection) -> frozenset[str]:
    """Names of all accounts, also disabled ones: for checks of references."""
    return frozenset(row.name for row in connection.execute(select(t.user.c.name)))


def account_by_name(connection: Connection, name: str) -> AccountRow | None:
    """The account with this name."""
    return _one(connection, t.user.c.name, name)


def account_by_id(connection: Connection, number: int) -> AccountRow | None:
    """The account with this id."""
    return _one(connection, t.user.c.id, number)


def accounts(connection: Connection, scope: Scope) -> list[AccountRow]:
    """All accounts by name; within a limited scope the principal's own only."""
    query = select(t.user).order_by(t.user.c.name)
    if scope.projects is not None:
        query = query.where(t.user.c.id == _own(scope))
    return [_account(row) for row in connection.execute(query)]


def credentials(
    connection: Connection, scope: Scope, *, user_id: int | None = None, kind: str | None = None
) -> list[CredentialRow]:
    """Credentials that are not revoked, newest first; within a limited scope the principal's own only."""
    query = _credentials().where(t.credential.c.revoked_at.is_(None)).order_by(t.credential.c.id.desc())
    if scope.projects is not None:
        query = query.where(t.credential.c.user_id == _own(scope))
    if user_id is not None:
        query = query.where(t.credential.c.user_id == user_id)
    if kind is not None:
        query = query.where(t.credential.c.kind == kind)
    return [_credential(row) for row in connection.execute(query)]


def credential_by_digest(connection: Connection, digest: str) -> CredentialRow | None:
    """The credential whose secret has this digest, also an expired or revoked one."""
    row = connection.execute(_credentials().where(t.credential.c.digest == digest)).first()
    return None if row is None else _credential(row)


def credential_by_id(connection: Connection, scope: Scope, number: int) -> CredentialRow | None:
    """The credential within the scope, also an expired or revoked one."""
    query = _credentials().where(t.credential.c.id == number)
    if scope.projects is not None:
        query = query.where(t.credential.c.user_id == _own(scope))
    row = connection.execute(query).first()
    return None if row is None else _credential(row)


def _own(scope: Scope) -> int:
    """The account of the scope's principal; -1, which no account has, for a loop."""
    return parse("user", scope.user) if scope.user is not None else -1


def _credentials() -> Select[Any]:
    return select(t.credential, t.user.c.name.label("user")).join(
        t.user, t.user.c.id == t.credential.c.user_id
    )


def _credential(row: Row[Any]) -> CredentialRow:
    return CredentialRow(
        row.id, row.user_id, row.user, row.kind, row.name, row.created_at, row.expires_at, row.revoked_at
    )


def _one(connection: Connection, column: Column[Any], value: str | int) -> AccountRow | None:
    row = connection.execute(select(t.user).where(column == value)).first()
    return None if row is None else _account(row)


def _account(row: Row[Any]) -> AccountRow:
    return AccountRow(
        row.id,
        row.name,
        row.display_name,
        row.password_hash,
        row.disabled,
        row.must_change,
        row.version,
        row.created_at,
        Head(row.head_n, row.head_seq, bytes(row.head_hash or b"")),
    )
