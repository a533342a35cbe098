"""What of the inventory changed between two instants: what, from what to what, when last, by whom and why.

Read from the intervals that began or ended between them, so that the cost is that of what changed. Of several
changes of one thing the first value and the last are told, and how many there were; what came back to what it
was is told, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise
from steelyard.model.errors import InvalidError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Verb
from steelyard.services.conditions import names_of, read_condition
from steelyard.services.flags import flag_views
from steelyard.services.inventory import NOUN
from steelyard.store import inventory_past as past
from steelyard.store.database import View
from steelyard.store.flags import flags_between
from steelyard.store.inventory import retired_between
from steelyard.store.store import Store

Json = dict[str, Any]
Window = tuple[int, int]
MOST = 5000
ENGINE, POOLS = "engine", "pools"


@dataclass(slots=True)
class Change:
    """One thing that was changed, once or more often."""

    on: str  # node | device
    id: str
    name: str
    cluster: str
    node: str
    what: str
    key: str | None
    steps: list[tuple[int, Any, Any, str, str | None]] = field(default_factory=list)

    def view(self) -> Json:
        """As shown."""
        steps = sorted(self.steps, key=lambda step: step[0])
        at, _, after, by, why = steps[-1]
        return {
            "on": self.on, "id": self.id, "name": self.name, "cluster": self.cluster, "node": self.node,
            "what": self.what, "key": self.key, "before": steps[0][1], "after": after, "at": at, "by": by,
            "why": why, "steps": len(steps), "returned": steps[0][1] == after,
        }  # fmt: skip


def difference(store: Store, principal: Principal, start: int, end: int | None = None) -> Json:
    """Changes after `start` up to and with `end` (None: now).

    Raises InvalidError `window-invalid`, `time-to-come`.
    """
    authorise(principal, Verb.VIEW, NOUN)
    now = store.now()
    end = now if end is None else end
    if start >= end:
        raise InvalidError("window-invalid", start=start, end=end)
    if end > now:
        raise InvalidError("time-to-come", at=end, now=now)
    window = (start, end)
    found: dict[tuple[str, str, str | None], Change] = {}
    with store.read() as view:
        for part in (_came_and_went, _nodes, _states, _conditions, _facts, _pools, _flags):
            for change, step in part(view, window):
                known = found.setdefault((change.id, change.what, change.key), change)
                known.steps.append(step)
    changes = [change.view() for change in found.values()]
    changes.sort(key=lambda c: (c["cluster"], c["node"], c["name"], c["what"], c["key"] or ""))
    return {"from": start, "to": end, "changes": changes[:MOST], "complete": len(changes) <= MOST}


Step = tuple[int, Any, Any, str, str | None]
Found = Iterator[tuple[Change, Step]]


def _device(row: Any, number: int, what: str, key: str | None = None) -> Change:
    return Change("device", render("device", number), row.uid, row.cluster, row.node, what, key)


def _came_and_went(view: View, window: Window) -> Found:
    gone = retired_between(view, window)
    for row in past.come_and_gone(view, window, MOST):
        if _in(row.registered_at, window):
            step = (row.registered_at, None, "registered", row.cluster, ENGINE)
            yield _device(row, row.id, "registration"), step
        if row.retired_at is not None and _in(row.retired_at, window):
            who, why = gone.get(row.id, (row.cluster, None))
            yield _device(row, row.id, "registration"), (row.retired_at, "registered", "retired", who, why)


def _in(at: int | None, window: Window) -> bool:
    return at is not None and window[0] < at <= window[1]


def _nodes(view: View, window: Window) -> Found:
    rows = past.changed_nodes(view, window, MOST)
    for before, after in pairwise(rows):
        if before.node_id != after.node_id or not _in(after.valid_from, window):
            continue
        node = ("node", render("node", after.node_id), after.name, after.cluster, after.name)
        told = (after.set_by, ENGINE)
        old, new = (msgspec.json.decode(row.labels_json) for row in (before, after))
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield Change(*node, "label", key), (after.valid_from, old.get(key), new.get(key), *told)
        states = [_state(row.availability, row.reason) for row in (before, after)]
        if states[0] != states[1]:
            yield Change(*node, "state", None), (after.valid_from, *states, after.set_by, after.reason_text)


def _state(availability: str, reason: str | None) -> str:
    return availability if reason is None else f"{availability}: {reason}"


def _states(view: View, window: Window) -> Found:
    for row in past.ended_states(view, window, MOST):
        if row.retired_at is not None and row.retired_at == row.t1:
            continue
        followed = row.next_availability is not None
        after = (row.now_availability, row.now_reason)
        if followed:
            after = (row.next_availability, row.next_reason)
        size = row.next_capacity if followed else 0 if row.has_children else row.now_capacity
        states = (_state(row.availability, row.reason), _state(*after))
        if states[0] != states[1]:
            yield _device(row, row.device_id, "state"), (row.t1, *states, "control", after[1])
        if row.capacity != size:
            yield _device(row, row.device_id, "capacity"), (row.t1, row.capacity, size, "control", after[1])


def _conditions(view: View, window: Window) -> Found:
    """Of each device in order; where nothing is stored it was healthy and nobody was on it."""
    rows = past.changed_conditions(view, window, MOST)
    ends = {(row.device_id, row.valid_to): row for row in rows if row.valid_to is not None}
    begins = {(row.device_id, row.valid_from): row for row in rows}
    for number, at in sorted({key for key in (*ends, *begins) if _in(key[1], window)}):
        row = begins.get((number, at)) or ends[number, at]
        before, after = read_condition(ends.get((number, at))), read_condition(begins.get((number, at)))
        told = (row.cluster, after.signs[0].code.value if after.signs else None)
        if before.health is not after.health:
            yield _device(row, number, "health"), (at, before.health.value, after.health.value, *told)
        people = (names_of(before.holders) or None, names_of(after.holders) or None)
        if people[0] != people[1]:
            yield _device(row, number, "processes"), (at, *people, row.cluster, ENGINE)


def _facts(view: View, window: Window) -> Found:
    rows = past.changed_facts(view, window, MOST)
    ends = {(row.device_id, row.key, row.valid_to): row for row in rows if row.valid_to is not None}
    begins = {(row.device_id, row.key, row.valid_from): row for row in rows}
    for number, key, at in sorted({name for name in (*ends, *begins) if _in(name[2], window)}):
        before, after = ends.get((number, key, at)), begins.get((number, key, at))
        row = after if after is not None else before
        assert row is not None
        values = [None if one is None else msgspec.json.decode(one.value_json) for one in (before, after)]
        yield _device(row, number, "fact", key), (at, *values, row.cluster, row.source)


def _pools(view: View, window: Window) -> Found:
    rows = past.changed_pools(view, window, MOST)
    ends = {(row.device_id, row.valid_to): row for row in rows if row.valid_to is not None}
    begins = {(row.device_id, row.valid_from): row for row in rows}
    for number, at in sorted({key for key in (*ends, *begins) if _in(key[1], window)}):
        before, after = ends.get((number, at)), begins.get((number, at))
        row = after if after is not None else before
        assert row is not None
        values = [None if one is None else f"{one.pool}/{one.flavor}" for one in (before, after)]
        yield _device(row, number, "pool"), (at, *values, "control", POOLS)


def _flags(view: View, window: Window) -> Found:
    rows = flags_between(view, window[0] + 1, window[1] + 1)
    names = past.names_of_places(view, {row["object_id"] for row in rows})
    for row, shown in zip(rows, flag_views(view, rows), strict=True):
        name, node = names.get(row["object_id"], ("?", "?"))
        place = (row["kind"], render(row["kind"], row["object_id"]), name, row["cluster"], node)
        if _in(row["valid_from"], window):
            step = (row["valid_from"], None, row["flag"], shown["by"], row["reason"])
            yield Change(*place, "flag", row["flag"]), step
        if _in(row["valid_to"], window):
            step = (row["valid_to"], row["flag"], None, shown["lifted_by"], row["lift_reason"])
            yield Change(*place, "flag", row["flag"]), step
