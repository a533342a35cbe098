"""Reading accounts and their credentials. Secrets are never stored, only digests of them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from steelyard.evidence.leaf import Head
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


def _one(connection: Connection, column: object, value: str | int) -> AccountRow | None:
    row = connection.execute(select(t.user).where(column == value)).first()  # type: ignore[arg-type]
    if row is None:
        return None
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
