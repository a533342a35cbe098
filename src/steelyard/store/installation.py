"""Rows about the installation itself: lease, settings, counters."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select

from steelyard.store import tables as t


class LeaseRow(NamedTuple):
    """Who holds a lease, under which epoch, until when (µs)."""

    holder: str
    epoch: int
    expires_at: int


def read_lease(connection: Connection, name: str) -> LeaseRow | None:
    """The lease as it stands."""
    row = connection.execute(select(t.lease).where(t.lease.c.name == name)).first()
    return None if row is None else LeaseRow(row.holder, row.epoch, row.expires_at)


def read_setting(connection: Connection, name: str) -> str | None:
    """A setting of the installation."""
    return connection.execute(select(t.setting.c.value).where(t.setting.c.name == name)).scalar()


def log_epoch(connection: Connection) -> int:
    """The log's epoch: units of an older one are refused."""
    return int(connection.execute(select(t.log.c.epoch).where(t.log.c.id == 1)).scalar_one())
