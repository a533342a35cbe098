"""What would come of changes, asked of the loop's own `decide` on what lives now; nothing is written.

Who sees the whole installation may ask about everything. Others may ask what would come of submitting work
to their own projects; what becomes of others' work is told without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError, RefusedError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.reasons import Reason
from steelyard.model.workloads import WorkloadSpec
from steelyard.scheduling import (
    AddPending,
    PendingItem,
    Placement,
    Snapshot,
    can_ever_fit,
    over_refusing_limit,
)
from steelyard.scheduling.decisions import Eviction
from steelyard.scheduling.lowered import Passed
from steelyard.scheduling.what_if import Changed, Course, Fate, Outcome, changed_by, what_if
from steelyard.services.admission import MAX_DOCUMENT, NOUN, asked_of, in_sight
from steelyard.services.ground import Ground
from steelyard.services.imagined import IMAGINED, Imagined, of_one_key
from steelyard.services.lowering import (
    becoming_passed,
    fewer_view,
    limit_view,
    passed_view,
    workloads_of,
)
from steelyard.services.reasons import reason_view, scoped_reason
from steelyard.services.submission import Admitted, request_digest
from steelyard.services.workload_document import parse_workload
from steelyard.services.workloads import Desk
from steelyard.store import workloads as repository
from steelyard.store.database import View

Json = dict[str, Any]
MAX_CHANGES, MAX_COPIES, MAX_SHOWN = 64, 512, 500
MAX_IMAGINED = 4096  # workloads that all submits of one question come to, members of arrays each by itself
CHANGES = ("submit", "limit", "documents", "add_devices", "cordon", "uncordon", "end")


@dataclass(slots=True)
class _Submit:
    """One document that is imagined as submitted, `items` of it."""

    spec: WorkloadSpec
    digest: str
    copies: int
    asked: Admitted | None = None
    refused: tuple[Reason, ...] = ()
    items: list[PendingItem] = field(default_factory=list)


def ask(desk: Desk, principal: Principal, changes: object) -> Json:
    """The answer: `submitted`, `changed` (whose fate differs), `reasons` (who waits for other reasons), and
    counts with and without. Raises InvalidError, NotFoundError, ForbiddenError."""
    if not isinstance(changes, list) or not 1 <= len(changes) <= MAX_CHANGES:
        raise InvalidError("field-out-of-bounds", path="changes", low=1, high=MAX_CHANGES)
    pairs = [of_one_key(raw, CHANGES) for raw in changes]
    if any(key != "submit" for key, _ in pairs):
        authorise(principal, Verb.VIEW, "cycle")
    now = desk.store.now()
    submits = [_read_submit(desk, value) for key, value in pairs if key == "submit"]
    ground = desk.grounds.current(now)
    with desk.store.read() as view:
        snapshot, policy = desk.snapshots.full(view, now)
        imagined = Imagined(view, snapshot, policy, now)
        added = [name for key, value in pairs for name in _imagine(imagined, key, value)]
        if imagined.routing is not None:
            ground = replace(ground, routes=imagined.routing)
        for submit in submits:
            _submit(imagined, submit, ground, principal, now)
        outcome = what_if(snapshot, policy, now, imagined.changes)
        seen = scope(principal, Verb.VIEW, NOUN)
        passed = becoming_passed(snapshot, policy, now, imagined.changes)
        shown = _Shown(view, seen, outcome, _names_of(submits), passed)
        return {
            "at": now,
            "policy_version": policy.version,
            "complete": outcome.complete,
            "added_nodes": added,
            "submitted": [row for submit in submits for row in shown.submitted(submit)],
            **shown.changed(),
            **shown.reasons(),
            "lowered": passed_view(passed, shown.names, now),
            "counts": {"before": _counts(outcome.before), "after": _counts(outcome.after)},
        }


def _imagine(imagined: Imagined, key: str, value: Any) -> list[str]:
    """Makes one change; the names of nodes that are not there."""
    if key == "documents":
        imagined.documents(value)
    elif key == "limit":
        given = _fields(value, "limit", node=str, subject=str)
        imagined.limit(given["node"], given["subject"], value.get("value"))
    elif key in ("cordon", "uncordon"):
        imagined.cordoned(_text(value, key), key == "cordon")
    elif key == "add_devices":
        given = _fields(value, key, flavor=str, count=int)
        return imagined.devices(given["flavor"], given["count"])
    elif key == "end":
        imagined.end(_text(value, key))
    return []


def _fields(value: object, path: str, **kinds: type) -> Json:
    if not isinstance(value, dict):
        raise InvalidError("field-invalid", path=path, expected="mapping")
    for name, kind in kinds.items():
        if not isinstance(value.get(name), kind) or isinstance(value.get(name), bool):
            raise InvalidError("field-invalid", path=f"{path}.{name}", expected=kind.__name__)
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidError("field-invalid", path=path, expected="text")
    return value


# --- submits -----------------------------------------------------------------------------------------------
def _read_submit(desk: Desk, value: object) -> _Submit:
    given = value if isinstance(value, dict) and "document" in value else {"document": value}
    copies = given.get("copies", 1)
    if not isinstance(copies, int) or isinstance(copies, bool) or not 1 <= copies <= MAX_COPIES:
        raise InvalidError("field-out-of-bounds", path="submit.copies", low=1, high=MAX_COPIES)
    document = given["document"]
    try:
        digest = request_digest(document, MAX_DOCUMENT)
    except (TypeError, ValueError, RecursionError):
        raise InvalidError("document-unreadable") from None
    return _Submit(parse_workload(document, desk.grounds.template), digest, copies)


def _submit(imagined: Imagined, submit: _Submit, ground: Ground, principal: Principal, now: int) -> None:
    """Routed and judged as at a submit, on what is imagined so far; then it waits, or is refused."""
    try:
        asked = submit.asked = asked_of(ground, principal, submit.spec, now, submit.digest)
    except RefusedError as error:
        told = in_sight(error, principal)
        submit.refused = tuple(told.reasons) if isinstance(told, RefusedError) else ()
        return
    if asked.spec.hold:
        return
    changed, policy = changed_by(imagined.snapshot, imagined.policy, imagined.changes)
    submit.refused = can_ever_fit(changed, policy, asked.shape) or over_refusing_limit(changed, asked.shape)
    if submit.refused:
        return
    members = _members(asked)
    if len(imagined.changes) + len(members) * submit.copies > MAX_IMAGINED:
        raise InvalidError("field-out-of-bounds", path="submit.copies", low=1, high=MAX_IMAGINED)
    for guaranteed, standby in members * submit.copies:
        number = imagined.next_id()
        item = PendingItem(number, number, now, guaranteed=guaranteed, standby=standby)
        submit.items.append(item)
        imagined.changes.append(AddPending(asked.shape, item))


def _members(asked: Admitted) -> list[tuple[bool, bool]]:
    """(guaranteed, standing by) of each workload that one submit comes to."""
    replicas, array = asked.spec.replicas, asked.spec.array
    if replicas is not None:
        count = max(replicas.initial, 0 if replicas.lend else replicas.guaranteed)
        return [(n < replicas.guaranteed, n >= replicas.initial) for n in range(count)]
    return [(False, False)] * (1 if array is None else min(array.parallelism, array.completions))


# --- the answer ------------------------------------------------------------------------------------------
_WOULD = {Fate.STARTS: "start", Fate.HELD: "hold", Fate.WAITS: "wait", Fate.REFUSED: "refuse"}


class _Shown:
    """An outcome as its reader may see it."""

    def __init__(
        self, view: View, seen: Scope, outcome: Outcome, imagined: Mapping[str, str], passed: Iterable[Passed]
    ) -> None:
        """`imagined`: names of what is imagined as submitted, by shown id. `passed`: limits with the changes
        that they come to be passed by."""
        self.seen = seen
        self.passed = passed
        self.imagined = imagined
        self.outcome = outcome
        after = outcome.after
        self.fates = after.fates()
        self.placed = {placed.attempt_id: placed for placed in after.placements}
        self.holds = {hold.attempt_id: hold for hold in after.after.holds.values()}
        self.nodes = after.after.nodes
        ids = {each.workload_id for each in outcome.changed}
        ids |= {made.preemptor_workload_id for made in after.evictions if made.preemptor_workload_id}
        ids |= workloads_of(passed)
        real = {number for number in ids if number < IMAGINED}
        self.names = repository.names_of(view, seen, real)
        self.queues = _queues(outcome.before.after, outcome.after.after)

    def submitted(self, submit: _Submit) -> list[Json]:
        """What becomes of each copy."""
        asked = submit.asked
        name = submit.spec.name
        if submit.refused or asked is None:
            return [self._submit(name, "refuse", submit.refused, None, 0)]
        if asked.spec.hold:
            return [self._submit(name, "wait", (), None, 0)]
        found = []
        for item in submit.items:
            fate = self.fates.get(item.attempt_id, Fate.WAITS)
            own = self.outcome.after.workload_reasons.get(item.workload_id, ())
            shared = self.outcome.after.reasons.get(asked.shape.key)
            reasons = () if fate is Fate.STARTS else own or (shared.reasons if shared else ())
            hold = self.holds.get(item.attempt_id)
            victims = 0 if hold is None else len(hold.victims)
            found.append(
                self._submit(name, _WOULD[fate], reasons, self.placed.get(item.attempt_id), victims)
            )
        return found

    def _submit(
        self, name: str | None, would: str, reasons: Iterable[Reason], placed: Placement | None, victims: int
    ) -> Json:
        return {
            "name": name,
            "would": would,
            "reasons": [self._reason(reason) for reason in reasons],
            "placement": None if placed is None else placement_view(self.nodes, placed),
            "victims": victims,
        }

    def _reason(self, reason: Reason) -> Json:
        """What is imagined is called by its name: nobody can look up its id."""
        view = reason_view(scoped_reason(reason, self.seen))
        view["holders"] = [
            {**holder, "name": self.imagined[holder["id"]]} if holder["id"] in self.imagined else holder
            for holder in view["holders"]
        ]
        return view

    def changed(self) -> Json:
        """Real work whose fate differs, the most interesting first; others' work has no name."""
        rows = [each for each in self.outcome.changed if each.workload_id < IMAGINED]
        rows.sort(key=lambda each: (_RANK[each.after], each.workload_id))
        shown = [self._changed(each) for each in rows[:MAX_SHOWN]]
        return {"changed": shown, "changed_count": len(rows)}

    def _changed(self, each: Changed) -> Json:
        known = self.names.get(each.workload_id)
        placed = self.placed.get(each.attempt_id) if known else None
        queue, priority = self.queues.get(each.attempt_id, (None, None))
        return {
            "id": render("workload", each.workload_id) if known else None,
            "name": known["name"] if known else None,
            "project": known["project"] if known else None,
            "queue": queue if known else None,
            "priority": priority if known else None,
            "before": each.before.value,
            "after": each.after.value,
            "placement": None if placed is None else placement_view(self.nodes, placed),
            "evicted_for": self._preemptor(each) if each.after in _GIVES else None,
        }

    def _preemptor(self, each: Changed) -> Json | None:
        for eviction in self.outcome.after.evictions:
            if eviction.attempt_id == each.attempt_id:
                number = eviction.preemptor_workload_id
                known = None if number is None else self.names.get(number)
                return {
                    "id": render("workload", number) if known and number is not None else None,
                    "name": known["name"] if known else None,
                    "submitted_here": number is not None and number >= IMAGINED,
                    "rule": eviction.rule,
                    "limit": limit_view(eviction.limit),
                    **self._fewer(eviction),
                }
        return None

    def _fewer(self, eviction: Eviction) -> Json:
        """Of a gang that goes on, who leaves it; nulls where all of it stops."""
        if not eviction.members:
            return {"members": None, "had": None, "goes_on_with": None}
        stay = len(self.outcome.after.after.running[eviction.attempt_id].members)
        return fewer_view(eviction.members, stay)

    def reasons(self) -> Json:
        """Who waits either way, for other reasons: by shape, of projects that the reader sees."""
        waiting = {group.shape.key: group.count for group in self.outcome.before.after.pending}
        found = [each for each in self.outcome.reasons if self.seen.allows(each.shape.project)]
        rows = [
            {
                "queue": each.shape.queue,
                "project": each.shape.project,
                "priority": each.shape.priority,
                "requested": {cls.value: n for cls, n in sorted(each.shape.totals().items())},
                "waiting": waiting.get(each.shape.key, 0),
                "before": [self._reason(reason) for reason in each.before],
                "after": [self._reason(reason) for reason in each.after],
            }
            for each in found[:MAX_SHOWN]
        ]
        return {"reasons": rows, "reasons_count": len(found)}


def _names_of(submits: Iterable[_Submit]) -> dict[str, str]:
    return {
        render("workload", item.workload_id): submit.asked.spec.name
        for submit in submits
        if submit.asked is not None
        for item in submit.items
    }


_RANK = {
    Fate.EVICTED: 0, Fate.SHRINKS: 1, Fate.HELD: 2, Fate.STARTS: 3, Fate.WAITS: 4, Fate.REFUSED: 5,
    Fate.GROWS: 6, Fate.RUNS: 7, Fate.ABSENT: 8,
}  # fmt: skip


_GIVES = (Fate.EVICTED, Fate.SHRINKS)
#: They run, whatever else becomes of them.
_RUN = (Fate.RUNS, Fate.SHRINKS, Fate.GROWS)


def _queues(*snapshots: Snapshot) -> dict[int, tuple[str, int]]:
    """attempt → (queue, priority) of all that the snapshots know."""
    found: dict[int, tuple[str, int]] = {}
    for snapshot in snapshots:
        for group in snapshot.pending:
            for head in group.heads:
                found[head.attempt_id] = (group.shape.queue, group.shape.priority)
        for hold in snapshot.holds.values():
            found[hold.attempt_id] = (hold.shape.queue, hold.shape.priority)
        for run in snapshot.running.values():
            found[run.attempt_id] = (run.queue, run.priority)
    return found


def _counts(course: Course) -> dict[str, int]:
    fates = [Fate.RUNS if fate in _RUN else fate for fate in course.fates().values()]
    shown = (Fate.STARTS, Fate.HELD, Fate.WAITS, Fate.EVICTED, Fate.RUNS)
    return {fate.value: sum(each is fate for each in fates) for fate in shown}


def placement_view(nodes: Mapping[int, Any], placed: Placement) -> list[Json]:
    """Where each member would go."""
    return [
        {
            "role": member.role,
            "index": member.index,
            "cluster": member.cluster,
            "node": nodes[member.node_id].name,
            "devices": [
                {
                    "device": _device(item.device_id),
                    "class": item.device_class.value,
                    "flavor": item.flavor,
                    "quantity": item.quantity,
                }
                for item in member.allocations
            ],
        }
        for member in placed.members
    ]


def _device(device_id: int | None) -> str | None:
    """None of a device that is not there."""
    return None if device_id is None or device_id >= IMAGINED else render("device", device_id)
