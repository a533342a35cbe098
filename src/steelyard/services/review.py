"""The rows of a review: what was idle where, who waited, what failed again and again, what has no owner.

Sums are quantity × µs. Nothing is judged here: the answers are made of these rows by `reports.review`.
"""

from __future__ import annotations

from typing import Any

from steelyard.identity.authorise import authorise
from steelyard.model.organisation import Principal, Verb
from steelyard.services.failures import recurring
from steelyard.services.ledger import OpenSegments, Window, open_segments
from steelyard.services.usage import authorise_usage, usage_window, waits
from steelyard.store import usage as repository
from steelyard.store.database import View
from steelyard.store.failed import FailureFilter
from steelyard.store.store import Store
from steelyard.store.wide import Key

Json = dict[str, Any]
MAX_FAILURES = 20


def review_rows(
    store: Store, principal: Principal, start: int | None = None, end: int | None = None
) -> Json:
    """Rows of a window, for whoever may see the whole installation's usage. Raises ForbiddenError,
    InvalidError `window-invalid`."""
    seen = authorise_usage(principal)
    authorise(principal, Verb.VIEW, "usage")
    now = store.now()
    with store.read() as view:
        window = usage_window(view, start, end, now)
        opened = open_segments(view, seen, window[1])
        found = {
            "from": window[0],
            "to": window[1],
            "idle": _idle(view, window, opened),
            "waits": waits(view, seen, window),
            "unattributed": _unattributed(view, window, opened, seen),
        }
    failed = recurring(store, principal, FailureFilter(*window), limit=MAX_FAILURES)
    return {**found, "failures": failed["items"]}


def _idle(view: View, window: Window, opened: OpenSegments) -> list[Json]:
    """Of each cluster and class: its capacity, and what nobody held of it by state."""
    capacity = _with_open(repository.capacity_places(view, window), opened.capacity, window, "capacity")
    unheld = _with_open(repository.idle_places(view, window), opened.unheld, window, "quantity", "state")
    return [
        {
            "cluster": cluster, "class": cls, "simulated": simulated, "capacity": total,
            "unheld": {key[3]: amount for key, amount in sorted(unheld.items())
                       if key[:3] == (cluster, cls, simulated)},
        }
        for (cluster, cls, simulated), total in sorted(capacity.items())
    ]  # fmt: skip


def _with_open(
    stored: dict[Key, int], rows: list[Json], window: Window, quantity: str, *more: str
) -> dict[Key, int]:
    """Stored sums with what is open added."""
    sums: dict[Key, int] = {(key[0], key[1], bool(key[2]), *key[3:]): n for key, n in stored.items()}
    for row in rows:
        length = min(row["t1"], window[1]) - max(row["t0"], window[0])
        if length > 0:
            key = (row["cluster"], row["device_class"], bool(row["simulated"]), *(row[n] for n in more))
            sums[key] = sums.get(key, 0) + length * row[quantity]
    return sums


def _unattributed(view: View, window: Window, opened: OpenSegments, seen: Any) -> list[Json]:
    sums = {(k[0], k[1], bool(k[2])): n for k, n in repository.unattributed(view, seen, window).items()}
    for row in opened.holding:
        length = min(row["t1"], window[1]) - max(row["t0"], window[0])
        if length > 0 and row["attribution"] != "attributed":
            key = (row["project"], row["device_class"], bool(row["simulated"]))
            sums[key] = sums.get(key, 0) + length * row["quantity"]
    return [
        {"project": project, "class": cls, "simulated": simulated, "held": amount}
        for (project, cls, simulated), amount in sorted(sums.items())
    ]
