"""Arrays: as tasks end, the next ones are submitted, so that never more than the parallelism are live.

Level-triggered: how many are live and which index comes next is all that counts, so that nothing is lost or
done twice whenever a server dies. A task is a workload like any other; only its submit is ours.
"""

from __future__ import annotations

from dataclasses import replace

from steelyard.control.context import Context
from steelyard.model.lifecycle import Phase
from steelyard.services.groups import ARRAY, admitted_again
from steelyard.services.live_load import live_attempt
from steelyard.services.submission import InGroup, add_workload
from steelyard.store import groups
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.scoped import Record

#: Tasks submitted in one unit.
BATCH = 100


class Arrays:
    """The arrays that have tasks still to be submitted, by the id of their first one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        with context.store.read() as view:
            self._open = {row["id"]: row for row in groups.open_arrays(view)}

    def follow(self, groups_seen: set[int]) -> None:
        """Take in what others submitted or stopped."""
        if not groups_seen:
            return
        with self._context.store.read() as view:
            found = groups.groups_of(view, groups_seen)
        for number in groups_seen:
            group = found.get(number)
            if group is None or group["kind"] != ARRAY:
                continue
            if group["stopped_at"] is None and group["next_index"] < group["most"]:
                self._open[number] = group
            else:
                self._open.pop(number, None)

    def run(self) -> bool:
        """Submit what may be live now; True where something was."""
        live = self._context.state.in_groups
        due = [g for g in self._open.values() if len(live.get(g["id"], ())) < g["wanted"]]
        for group in due:
            self._fill(group, len(live.get(group["id"], ())))
        return bool(due)

    def _fill(self, group: Record, live: int) -> None:
        context, now = self._context, self._context.now()
        first = group["next_index"]
        count = min(group["wanted"] - live, group["most"] - first, BATCH)
        unit = context.unit()
        with context.store.read() as view:
            leader = _leader(view, group["id"])
            admitted = admitted_again(view, leader, context.state.policy.version)
        if leader["phase"] != Phase.HELD:  # whoever released the array meant those to come, too
            admitted = replace(admitted, spec=replace(admitted.spec, hold=False))
        numbers = [context.store.ids.next() for _ in range(count)]
        for index, number in enumerate(numbers, first):
            place = InGroup(group["id"], index)
            add_workload(unit, context.store.ids, leader["submitter"], admitted, now, number, place)
        known = {"id": group["id"], "next_index": first, "wanted": group["wanted"]}
        unit.update(t.workload_group, known, next_index=first + count)
        context.commit(unit, now)
        group["next_index"] = first + count
        if group["next_index"] >= group["most"]:
            del self._open[group["id"]]
        with context.store.read() as view:
            fresh = rows.workloads_by_id(view, numbers)
        for row in fresh:
            context.state.add(live_attempt(row, []))
        context.changed = True


def _leader(view: View, number: int) -> Record:
    found = groups.members_by_index(view, number, 0)
    assert found is not None
    return found
