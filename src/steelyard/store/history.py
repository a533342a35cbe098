"""What was held since an instant, by shape: of which sums of what was used lately are made."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, case, func, select, union_all

from steelyard.store import tables as t

_MILLISECOND = 1000


class Held(NamedTuple):
    """Of one shape and flavor: a quantity, or quantity × µs."""

    queue: str
    shape_id: int
    device_class: str
    flavor: str
    amount: int


def used_between(connection: Connection, since: int, until: int) -> list[Held]:
    """Quantity × µs held in [since, until)."""
    a = t.allocation.c
    begin = case((a.t0 < since, since), else_=a.t0)
    end = case((a.t1.is_(None), until), (a.t1 > until, until), else_=a.t1)
    # milliseconds: the sum over a whole installation's memory stays within 64 bits
    amount = a.quantity * ((end - begin) // _MILLISECOND)
    return [
        row._replace(amount=row.amount * _MILLISECOND)
        for row in _held(connection, func.sum(amount), since, until)
    ]


def started_between(connection: Connection, since: int, until: int) -> list[Held]:
    """Quantity placed in [since, until), whether it still runs or not."""
    a = t.allocation.c
    amount = func.sum(case((a.t0 >= since, a.quantity), else_=0))
    return [row for row in _held(connection, amount, since, until) if row.amount]


def _held(connection: Connection, amount: Any, since: int, until: int) -> list[Held]:
    found: dict[tuple[str, int, str, str], int] = {}
    for row in connection.execute(union_all(_open(amount, until), _ended(amount, since, until))):
        key = (row.queue, row.shape_id, row[2], row.flavor)
        found[key] = found.get(key, 0) + int(row.amount)
    return [Held(*key, amount) for key, amount in sorted(found.items())]


def _open(amount: Any, until: int) -> Select[Any]:
    a = t.allocation.c
    return _summed(amount).where(a.t1.is_(None), a.t0 < until)


def _ended(amount: Any, since: int, until: int) -> Select[Any]:
    a = t.allocation.c
    return _summed(amount).where(a.t1.is_not(None), a.t1 > since, a.t0 < until)


def _summed(amount: Any) -> Select[Any]:
    a, w = t.allocation.c, t.workload.c
    source = t.allocation.join(t.attempt, t.attempt.c.id == a.attempt_id).join(
        t.workload, w.id == t.attempt.c.workload_id
    )
    return (
        select(a.queue, w.shape_id, a.device_class, a.flavor, amount.label("amount"))
        .select_from(source)
        .group_by(a.queue, w.shape_id, a.device_class, a.flavor)
    )
