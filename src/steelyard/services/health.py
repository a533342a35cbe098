"""Whether this server can do its work now."""

from __future__ import annotations

from steelyard.model.errors import UnavailableError
from steelyard.store.declared import counters
from steelyard.store.store import Store


def check_ready(store: Store) -> None:
    """Raises UnavailableError when the database does not answer."""
    try:
        with store.read() as view:
            counters(view)
    except Exception as error:
        # the edge of a health check: whatever keeps the database from answering, it does not answer
        raise UnavailableError("database-failed", detail=type(error).__name__) from error
