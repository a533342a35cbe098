"""Whether this server can do its work now."""

from __future__ import annotations

from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.model.errors import SteelyardError, UnavailableError
from steelyard.store.doctor import is_writable
from steelyard.store.installation import read_lease
from steelyard.store.migrate import pending
from steelyard.store.store import Store
from steelyard.store.unit import Unit

LEASE = "control"
TRY_SECONDS = 2.0


def check_ready(store: Store, *, with_lease: bool = False, stopping: bool = False) -> None:
    """Raises UnavailableError `not-ready` with the codes of all that is missing: `server-stopping`,
    `database-failed`, `database-read-only`, `database-newer`, `migration-missing`, `writer-failed`,
    `lease-unknown` (only `with_lease`: no server ever took it)."""
    found = ["server-stopping"] if stopping else []
    try:
        with store.read() as view:
            found += [] if is_writable(view) else ["database-read-only"]
            found += ["migration-missing"] if pending(view) else []
            if with_lease and read_lease(view, LEASE) is None:
                found.append("lease-unknown")
    except SteelyardError as error:
        found.append(error.code)
    except Exception as error:
        # the edge of a health check: whatever keeps the database from answering, it does not answer
        raise UnavailableError("not-ready", codes="database-failed", cause=type(error).__name__) from error
    if store.writer.broken is not None and not _writes(store):
        found.append("writer-failed")
    if found:
        raise UnavailableError("not-ready", codes=", ".join(found))


def _writes(store: Store) -> bool:
    """After a write that failed: an empty one, so that a server to which nobody sends anything recovers."""
    try:
        store.writer.write(Unit(actor_of(SYSTEM)), TRY_SECONDS)
    except SteelyardError:
        return False
    return True
