"""All stored cycles of a window decided again, oldest first, a bounded number a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.services.cycles import PastSnapshots, replay
from steelyard.store import cycles as repository
from steelyard.store.retention import cycles_purged_until
from steelyard.store.store import Store

Json = dict[str, Any]
MAX_STEP = 200


def replay_window(
    store: Store,
    principal: Principal,
    snapshots: object,
    since: int | None = None,
    until: int | None = None,
    cursor: str | None = None,
    limit: int = MAX_STEP,
) -> Json:
    """Cycles of `[since, until)` (µs; since the first kept, until now), from behind the cursor.

    `first` is the first of this call that differs, with its differences. `purged` are cycles of which what
    they rested on is no longer kept; `kept_since`: cycles from before are gone altogether (null: none is).
    Raises ForbiddenError, InvalidError, UnavailableError.
    """
    authorise(principal, Verb.VIEW, "cycle")
    if not isinstance(snapshots, PastSnapshots):
        raise UnavailableError("replay-not-served")
    since, until = since or 0, store.now() if until is None else until
    if since >= until:
        raise InvalidError("window-empty", since=since, until=until)
    seen, most = scope(principal, Verb.VIEW, "cycle"), max(1, min(limit, MAX_STEP))
    after = parse("cycle", cursor) if cursor else None
    with store.read() as view:
        ids = repository.cycle_ids(view, seen, since, until, after, most)
        return {
            "since": since,
            "until": until,
            **_sums(ids, [replay(view, seen, snapshots, number) for number in ids]),
            "total": repository.count_cycles(view, seen, since, until),
            "kept_since": cycles_purged_until(view) or None,
            "next_cursor": render("cycle", ids[-1]) if len(ids) == most else None,
        }


def _sums(ids: Sequence[int], answers: Sequence[Json]) -> Json:
    """How many are the same, and the first that differs."""
    found: Json = dict.fromkeys(("checked", "same", "different", "purged"), 0)
    first = None
    for number, answer in zip(ids, answers, strict=True):
        if answer["purged"]:
            found["purged"] += 1
            continue
        found["checked"] += 1
        found["same" if answer["same"] else "different"] += 1
        if not answer["same"] and first is None:
            told = {name: answer[name] for name in ("differences", "count")}
            first = {"id": render("cycle", number), **told}
    return {**found, "first": first}
