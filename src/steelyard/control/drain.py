"""Drains: what runs on something flagged is asked to leave, each with its grace, and goes on elsewhere.

Level-triggered: at every pass it is looked at anew who holds what is being drained. A replica of a service
leaves only while enough others are ready (its guarantee, or all that are wanted where fewer are); where not,
one more is started first, and ended once the service is whole again. `at-once` asks all without regard. An
elastic gang that can go on without its members there gives up only them, and those of higher indexes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from steelyard.control.commands import stop_attempt
from steelyard.control.context import Context
from steelyard.control.leaving import ask_to_leave
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.services.departures import (
    AT_ONCE,
    DRAINED,
    RUNS,
    departure_order,
    may_leave,
    members_that_go,
)
from steelyard.services.groups import SERVICE, admitted_again
from steelyard.services.live_load import live_attempt
from steelyard.services.live_records import LiveAttempt, LiveFlag
from steelyard.services.submission import InGroup, add_workload
from steelyard.store import groups
from steelyard.store import live as rows
from steelyard.store import tables as t
from steelyard.store.scoped import Record
from steelyard.store.unit import Unit


class Drainer:
    """Carries out drains."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._grown: set[int] | None = None  # services with a replica more than wanted; None: not known yet

    def run(self) -> None:
        """One pass."""
        draining = self._draining()
        leaving = self._holders(draining) if draining else []
        if self._grown is None:
            self._grown = self._find_grown()
        if not leaving and not self._grown:
            return
        context, now = self._context, self._context.now()
        unit = context.unit()
        served: dict[int, list[tuple[LiveAttempt, LiveFlag]]] = {}
        for attempt, flag in sorted(leaving, key=lambda pair: departure_order(pair[0])):
            if attempt.group_id is None or flag.drain == AT_ONCE or not self._is_service(attempt.group_id):
                self._ask(unit, attempt, flag, now, draining)
            else:
                served.setdefault(attempt.group_id, []).append((attempt, flag))
        for group_id in sorted({*served, *self._grown}):
            self._service(unit, group_id, served.get(group_id, []), now)
        context.commit(unit, now)

    def _draining(self) -> dict[int, LiveFlag]:
        """device → the flag that drains it."""
        found: dict[int, LiveFlag] = {}
        state = self._context.state
        for flags in state.flags.values():
            for flag in flags.values():
                if flag.drain is None:
                    continue
                node = state.nodes.get(flag.object_id)
                devices = [d.id for d in node.devices] if node is not None else [flag.object_id]
                found.update(dict.fromkeys(devices, flag))
        return found

    def _holders(self, draining: dict[int, LiveFlag]) -> list[tuple[LiveAttempt, LiveFlag]]:
        found = []
        for attempt in self._context.state.in_phase(*RUNS):
            held = (a.device_id for member in attempt.staying for a in member.allocations)
            flag = next((draining[device] for device in held if device in draining), None)
            if flag is not None and attempt.stop_reason is None:
                found.append((attempt, flag))
        return found

    def _is_service(self, group_id: int) -> bool:
        with self._context.store.read() as view:
            group = groups.get_group(view, group_id)
        return group is not None and group["kind"] == SERVICE and group["stopped_at"] is None

    def _ask(
        self, unit: Unit, attempt: LiveAttempt, flag: LiveFlag, now: int, draining: Collection[int] = ()
    ) -> None:
        """`draining`: devices that members of an elastic gang may leave alone."""
        detail: dict[str, object] = {
            "flag": render("flag", flag.id), "on": render(flag.kind, flag.object_id), "by": flag.set_by,
            "reason": flag.reason, "grace": attempt.spec.grace, "goes_to": attempt.queue,
        }  # fmt: skip
        fewer = members_that_go(attempt, draining)
        if fewer:
            detail["members"] = [{"id": m.text_id, "role": m.role, "index": m.index} for m in fewer]
            detail["goes_on_with"] = len(attempt.staying) - len(fewer)
            ask_to_leave(self._context, unit, attempt, fewer, now, detail, DRAINED)
            return
        stop_attempt(self._context, unit, attempt, now, DRAINED, "workload.drain", detail)

    # --- services ----------------------------------------------------------------------------------
    def _service(
        self, unit: Unit, group_id: int, leaving: Iterable[tuple[LiveAttempt, LiveFlag]], now: int
    ) -> None:
        with self._context.store.read() as view:
            group = groups.get_group(view, group_id)
            alive = [row for row in groups.live_members(view, group_id) if row["cancel_requested_at"] is None]
        grown = self._grown if self._grown is not None else set()
        if group is None or group["stopped_at"] is not None:
            grown.discard(group_id)
            return
        active = [row for row in alive if not row["standby"] or row["activated_at"] is not None]
        live = self._context.state.in_groups.get(group_id, set())
        attempts = [self._context.state.by_workload[number] for number in live]
        asked = False
        for attempt, flag in leaving:
            if may_leave(attempt, attempts, group["guaranteed"], group["wanted"]):
                self._ask(unit, attempt, flag, now)
            asked = True
        if asked and len(active) <= group["wanted"] and group_id not in grown:
            if any(attempt.stop_reason is None for attempt, _ in leaving):
                self._grow(group, now)
                grown.add(group_id)
        elif not asked and group_id in grown:
            self._shrink(unit, group, active, attempts, now)

    def _grow(self, group: Record, now: int) -> None:
        """One replica more, so that the service stays whole while one of its replicas moves."""
        context, index = self._context, group["next_index"]
        unit, number = context.unit(), context.store.ids.next()
        with context.store.read() as view:
            first = groups.members_by_index(view, group["id"], 0)
            assert first is not None
            admitted = admitted_again(view, first, context.state.policy.version)
        add_workload(
            unit, context.store.ids, first["submitter"], admitted, now, number, InGroup(group["id"], index)
        )
        unit.update(t.workload_group, {"id": group["id"], "next_index": index}, next_index=index + 1)
        context.store.writer.write(unit)
        with context.store.read() as view:
            fresh = rows.workloads_by_id(view, [number])
        for row in fresh:
            context.state.add(live_attempt(row, []))
        context.changed = True

    def _shrink(
        self, unit: Unit, group: Record, active: list[Record], attempts: list[LiveAttempt], now: int
    ) -> None:
        """The service is whole again: the replica that was added ends."""
        grown = self._grown if self._grown is not None else set()
        if len(active) <= group["wanted"]:
            grown.discard(group["id"])
            return
        ready = [a for a in attempts if a.phase is Phase.RUNNING and a.times.get("ready")]
        extra = max(active, key=lambda row: (not row["guaranteed"], row["group_index"]))
        attempt = self._context.state.by_workload.get(extra["id"])
        if len(ready) > group["wanted"] and attempt is not None and attempt.phase in RUNS:
            detail: dict[str, object] = {"service": render("workload", group["id"])}
            stop_attempt(self._context, unit, attempt, now, "cancelled", "workload.stop", detail)
            grown.discard(group["id"])

    def _find_grown(self) -> set[int]:
        """Services that have more replicas than are wanted: a drain before this life of the loop did it."""
        state = self._context.state
        found: set[int] = set()
        with self._context.store.read() as view:
            wanted = groups.groups_of(view, state.in_groups)
        for group_id, group in wanted.items():
            live = [state.by_workload[number] for number in state.in_groups[group_id]]
            count = sum(1 for a in live if not a.stands_by and a.cancel_requested_at is None)
            if group["kind"] == SERVICE and group["stopped_at"] is None and count > group["wanted"]:
                found.add(group_id)
        return found
