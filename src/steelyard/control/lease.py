"""The control lease: one server holds it, renews it, and fences every write with its epoch."""

from __future__ import annotations

import time

import structlog

from steelyard.evidence.leaf import ActorRef, LeafDraft
from steelyard.model.errors import ConflictError
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from steelyard.store.installation import read_lease
from steelyard.store.store import Store
from steelyard.store.unit import Unit

log = structlog.get_logger(__name__)

NAME = "control"
TTL = 8 * SECOND  # another server takes over within 10: it looks every second
RENEWALS = 3  # in one TTL


class Lease:
    """Hold it by calling `hold` often; it renews, takes over or reports that another has it. `ttl` in µs:
    so long after its last renewal others take it over."""

    def __init__(self, store: Store, holder: str, ttl: int = TTL) -> None:
        self._store = store
        self._ttl = ttl
        self._holder = holder
        # an embedded server has its folder's lock: whoever held the lease before is dead
        self._alone = not store.shared
        self._epoch: int | None = None
        self._renew_at = 0.0

    def hold(self) -> int | None:
        """The epoch while we hold the lease, else None."""
        if self._epoch is not None and time.monotonic() < self._renew_at:
            return self._epoch
        with self._store.read() as connection:
            found = read_lease(connection, NAME)
        now = self._store.now()
        if found is not None and found.holder == self._holder and found.epoch == self._epoch:
            self._renew(now)
        elif found is None or found.expires_at <= now or self._alone:
            self._take(now, None if found is None else found.epoch)
        else:
            self._epoch = None
            self._renew_at = 0.0
        return self._epoch

    def _renew(self, now: int) -> None:
        unit = Unit(ActorRef("control", "control"), fence=self._epoch)
        unit.update(
            t.lease, {"name": NAME, "epoch": self._epoch, "holder": self._holder}, expires_at=now + self._ttl
        )
        self._write(unit, self._epoch)

    def _take(self, now: int, epoch: int | None) -> None:
        fresh = max(epoch or 0, self._store.writer.state.epoch) + 1
        unit = Unit(ActorRef("control", "control"), new_epoch=fresh)
        if epoch is None:
            unit.insert(t.lease, name=NAME, holder=self._holder, epoch=fresh, expires_at=now + self._ttl)
        else:
            unit.update(
                t.lease,
                {"name": NAME, "epoch": epoch},
                holder=self._holder,
                epoch=fresh,
                expires_at=now + self._ttl,
            )
        unit.leaf(
            LeafDraft(
                action="lease.take",
                object_kind="log",
                object_id="log",
                rule_version=fresh,
                extra={"holder": self._holder, "epoch": fresh, "before": epoch},
            )
        )
        self._write(unit, fresh)

    def _write(self, unit: Unit, epoch: int | None) -> None:
        began = time.monotonic()  # `expires_at` counts from here, however long the write waits
        try:
            self._store.writer.write(unit)
        except ConflictError as error:
            log.warning("lease-write-refused", error=str(error))
            self._epoch = None  # another server was quicker
            self._renew_at = 0.0
            return
        self._epoch = epoch
        self._renew_at = began + self._ttl / RENEWALS / SECOND

    def give_back(self) -> None:
        """Let another server take it at once."""
        if self._epoch is None:
            return
        unit = Unit(ActorRef("control", "control"), fence=self._epoch)
        unit.update(t.lease, {"name": NAME, "epoch": self._epoch, "holder": self._holder}, expires_at=0)
        self._write(unit, None)
