"""Decayed use as it is stored, and made anew: the present one, and that of an instant of the past."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from steelyard.model.policy import FLAVOR_PREFIX, Fairness
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.history import NOTHING_USED, History, Used, decayed, history_of
from steelyard.services.shapes import read_shape
from steelyard.store import history as rows
from steelyard.store import past
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.versioned import body_at, newest

_NEVER = 2**62  # an instant after all
_Rows = list[tuple[str, str, str, str, int]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Rows).decode


def body_of(own: dict[Used, int]) -> str:
    """As it is stored."""
    return _encode([(*key, amount) for key, amount in sorted(own.items())]).decode()


def read_body(body: str) -> dict[Used, int]:
    """Of a stored sum."""
    return {(row[0], row[1], row[2], row[3]): row[4] for row in _decode(body)}


def load_history(view: View, fairness: Fairness, queues: QuotaTree | None) -> History:
    """What counts now; nothing where the past does not count, or no sum was taken yet."""
    found = newest(view, t.use_history) if fairness.half_life else None
    if found is None:
        return NOTHING_USED
    at, body = found
    return history_of(queues, at, read_body(body), started(view, at, _NEVER))


def newest_history(view: View, fairness: Fairness, queues: QuotaTree) -> History:
    """What the newest sum says, without what has started since."""
    found = newest(view, t.use_history) if fairness.half_life else None
    return NOTHING_USED if found is None else history_of(queues, found[0], read_body(found[1]))


def history_at(view: View, at: int, queues: QuotaTree | None, until: int) -> History:
    """What a cycle at `until` worked on that had the sum of `at`; 0: it had none."""
    body = body_at(view, t.use_history, at) if at else None
    return NOTHING_USED if body is None else history_of(queues, at, read_body(body), started(view, at, until))


def next_sum(view: View, before: History, at: int, fairness: Fairness) -> dict[Used, int]:
    """The sum of the grid's instant `at`, which follows on that of `before`."""
    since = before.at or at - fairness.sampling
    used = _by_whom(view, rows.used_between(view, since, at))
    return decayed(before.own, used, at - since, fairness.half_life)


def started(view: View, since: int, until: int) -> dict[Used, int]:
    """What was placed in [since, until)."""
    return _by_whom(view, rows.started_between(view, since, until))


def _by_whom(view: View, held: Iterable[rows.Held]) -> dict[Used, int]:
    listed = list(held)
    bodies = past.shapes(view, {row.shape_id for row in listed})
    shapes = {key: read_shape(body) for key, body in bodies.items()}
    found: dict[Used, int] = {}
    for row in listed:
        shape = shapes[row.shape_id]
        for subject in (row.device_class, f"{FLAVOR_PREFIX}{row.flavor}"):
            key = (row.queue, shape.project, shape.user or "", subject)
            found[key] = found.get(key, 0) + row.amount
    return found
