"""A simulated cluster as a state that only records and time change; no I/O and no clock.

Deterministic: the same records give the same state, which is how it survives the server's death.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

from steelyard.engines.port import AttemptStart, MemberStart, Signal
from steelyard.engines.simulated import logs
from steelyard.engines.simulated.behaviour import Behaviour, parse_expect
from steelyard.engines.simulated.feed import Feed
from steelyard.engines.simulated.inventory import Layout, seen_now
from steelyard.engines.simulated.life import Life
from steelyard.engines.simulated.member import Attempt, Ending, Member, opening
from steelyard.engines.simulated.records import (
    Declared,
    Forgotten,
    Kept,
    MemberRecord,
    Namespaced,
    Record,
    Refused,
    Signalled,
    Spent,
    Started,
    Stopped,
)
from steelyard.engines.simulated.spec import (
    STAGE_FAULTS,
    FaultKind,
    SimulationSpec,
    Suffering,
    parse_simulation,
)
from steelyard.engines.simulated.suffer import GONE, ON, Outage, Sufferings
from steelyard.engines.simulated.timeline import Due, Timeline
from steelyard.engines.simulated.world import Presence, Refusal, World
from steelyard.model.errors import InvalidError
from steelyard.model.resources import FoundNode

#: Logs and ids of forgotten members are kept for this many, the oldest go first.
KEPT = 20_000


K = TypeVar("K")
V = TypeVar("V")


@lru_cache(maxsize=4096)
def _behaviour_of(expect: tuple[tuple[str, str], ...], service: bool) -> Behaviour:
    return parse_expect(dict(expect), service=service)


def behaviour_of(expect: dict[str, str], service: bool) -> Behaviour:
    """The behaviour, parsed once for equal expectations."""
    return _behaviour_of(tuple(expect.items()), service)


class SimulatedCluster:
    """World, timeline and notes under one roof. `apply` takes the records, `advance` the time."""

    def __init__(self) -> None:
        self.time = 0
        self.spec: SimulationSpec | None = None
        self.world = World(Layout({}), ())
        self.timeline = Timeline()
        self.feed = Feed()
        self.sufferings = Sufferings()
        self.attempts: dict[str, Attempt] = {}
        self.members: dict[str, Member] = {}
        self.forgotten: dict[str, None] = {}
        self.kept_logs: dict[str, bytes] = {}
        self.namespaces: dict[str, str] = {}
        self.progress: dict[tuple[str, str, int], int] = {}
        self.life = Life(self.world, self.timeline, self.feed, self._trigger)
        self._outages: dict[str, Outage] = {}
        self._outage_count = 0
        self._found: dict[str, FoundNode] = {}
        self._acts: dict[type, Callable[..., None]] = {
            Declared: self._declared,
            Started: self._started,
            Refused: self._refused,
            Stopped: self._stopped,
            Signalled: self._signalled,
            Forgotten: self._forgotten,
            Spent: self._spent,
            Kept: self._kept,
            Namespaced: self._namespaced,
        }

    # -- records and time -------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """What was asked of the cluster happens at the record's time."""
        self.advance(record.at)
        act = self._acts.get(type(record))
        if act is not None:
            act(record)
            self.timeline.run(self.time, self._act)

    def advance(self, now: int) -> None:
        """Everything due up to `now` happens. Time never goes back."""
        self.time = max(self.time, now)
        self.timeline.run(self.time, self._act)

    def inventory(self) -> tuple[FoundNode, ...]:
        """Every node as it is seen now."""
        world, found = self.world, self._found
        if len(found) != len(world.layout.nodes):
            for name, node in world.layout.nodes.items():
                if name not in found:
                    found[name] = seen_now(
                        node,
                        lost=world.is_lost(name),
                        gone=world.is_gone(name),
                        missing=world.missing_of(name),
                    )
        return tuple(found[name] for name in world.layout.nodes)

    def plan_start(self, attempt: AttemptStart) -> Started | Refused:
        """What a start of an attempt that is not known would do; nothing has happened yet."""
        pending: dict[str, int] = {}
        dealt: dict[str, int] = {}
        try:
            members = tuple(self._plan_member(attempt, member, pending, dealt) for member in attempt.members)
        except Refusal as refusal:
            return Refused(self.time, attempt.attempt_id, refusal.code, refusal.text)
        except InvalidError as error:
            return Refused(self.time, attempt.attempt_id, "expect-invalid", str(error))
        return Started(
            self.time,
            attempt.attempt_id,
            attempt.name,
            attempt.number,
            attempt.install_id,
            members,
            attempt.grace,
            attempt.time_limit,
            attempt.service,
        )

    def _plan_member(
        self, attempt: AttemptStart, member: MemberStart, pending: dict[str, int], dealt: dict[str, int]
    ) -> MemberRecord:
        if member.member_id in self.members:
            raise Refusal("member-known", member.member_id)
        behaviour_of(member.expect, attempt.service)
        claims = self.world.claim(
            member.node,
            member.cpu,
            member.memory,
            [(device.uid, device.device_class, device.model, device.quantity) for device in member.devices],
            pending,
        )
        faults = self.sufferings.deal(
            attempt.name, attempt.number, member.role, member.node, self.time, dealt
        )
        progress = 0
        if attempt.resume_from is not None:
            progress = self.progress.get((attempt.resume_from, member.role, member.index), 0)
        return MemberRecord(
            member.member_id, member.role, member.index, member.node, claims, member.expect, faults, progress
        )

    # -- what the records do ----------------------------------------------------------------------

    def _declared(self, record: Declared) -> None:
        spec = parse_simulation(json.loads(record.spec))
        self.spec = spec
        self.world.rebuild(Layout.of(spec, record.at), spec.foreign)
        self.life.timing = spec.timing
        self._found.clear()
        added, ended = self.sufferings.declare(spec.suffer, record.at)
        for suffering in ended:
            self._relieve(suffering)
        for suffering in added:
            if suffering.strikes_by_time:
                self._schedule_outage(suffering, self.sufferings.begins(suffering), None)
        for member in tuple(self.members.values()):
            if member.record.node not in self.world.layout.nodes:
                self.life.lose(member, self.time)
        self.feed.lag(self.sufferings.any_of(FaultKind.LATE_REPLY, FaultKind.STALE))

    def _started(self, record: Started) -> None:
        attempt = Attempt(
            record.attempt_id,
            record.name,
            record.number,
            record.install_id,
            record.grace,
            record.time_limit,
        )
        self.attempts[attempt.id] = attempt
        for given in record.members:
            stage_fault, stuck, triggers = self._faults_of(given)
            member = Member(
                given.id,
                attempt,
                given,
                behaviour_of(given.expect, record.service),
                opening(self.time, self.life.timing, stage_fault),
                _fault_ending(stage_fault),
                stuck,
                triggers,
            )
            member.marks.append((self.time, "provision"))
            attempt.members.append(member)
            self.members[member.id] = member
            self.world.enter(Presence(given.id, attempt.id, record.install_id, given.node, given.claims))
            self.feed.touch(member, self.time)
            self.timeline.schedule(member.steps[-1][0], member)

    def _faults_of(
        self, given: MemberRecord
    ) -> tuple[Suffering | None, Suffering | None, tuple[Suffering, ...]]:
        stage_fault, stuck, triggers = None, None, []
        for key in given.faults:
            suffering = self.sufferings.declared.get(key)
            if suffering is None:
                continue
            self.sufferings.spend(key)
            if suffering.fault in STAGE_FAULTS:
                stage_fault = suffering
            elif suffering.fault is FaultKind.STUCK_RELEASE:
                stuck = suffering
            else:
                triggers.append(suffering)
        return stage_fault, stuck, tuple(triggers)

    def _refused(self, record: Refused) -> None:
        attempt = Attempt(record.attempt_id, "", 0, "", 0, None, refused=(record.code, record.text))
        self.attempts[attempt.id] = attempt

    def _stopped(self, record: Stopped) -> None:
        for attempt_id in record.attempts:
            for member in self._members_of(attempt_id):
                self.life.terminate(member, self.time, record.grace)

    def _signalled(self, record: Signalled) -> None:
        for member in self._members_of(record.attempt_id):
            if record.signal is Signal.KILL:
                self.life.kill(member, self.time)
            elif record.signal is Signal.TERM:
                self.life.terminate(member, self.time, None)
            else:
                self.life.checkpoint(member, self.time)

    def _forgotten(self, record: Forgotten) -> None:
        for attempt_id in record.attempts:
            attempt = self.attempts.get(attempt_id)
            self.forgotten[attempt_id] = None
            if attempt is None:
                continue
            del self.attempts[attempt_id]
            for member in attempt.members:
                del self.members[member.id]
                self.feed.drop(member)
                self.kept_logs[member.id] = logs.render(member)
                if member.checkpoint:
                    self.progress[attempt_id, member.record.role, member.record.index] = member.checkpoint
        _keep_newest(self.forgotten)
        _keep_newest(self.kept_logs)
        _keep_newest(self.progress)

    def _spent(self, record: Spent) -> None:
        self.sufferings.spend(record.key, record.times)

    def _kept(self, record: Kept) -> None:
        self.kept_logs[record.member_id] = record.text.encode()

    def _namespaced(self, record: Namespaced) -> None:
        self.namespaces[record.namespace] = record.project

    def _members_of(self, attempt_id: str) -> Sequence[Member]:
        attempt = self.attempts.get(attempt_id)
        return attempt.members if attempt is not None else ()

    # -- what time does ---------------------------------------------------------------------------

    def _act(self, actor: Due, at: int) -> int | None:
        if isinstance(actor, Member):
            following = self.life.step(actor, at)
            return following
        assert isinstance(actor, Outage)
        _, what = actor.steps.pop()
        if what == ON:
            self._strike(actor, at)
        elif what == GONE:
            for node in actor.targets or ():
                self._gone(node, actor, at)
        else:
            self._end_outage(actor, at)
        return actor.steps[-1][0] if actor.steps else None

    def _trigger(self, member: Member, suffering: Suffering, at: int) -> None:
        """A member that was dealt an outage runs: it will strike where the member is."""
        if suffering.key not in self.sufferings.declared:
            return
        targets: tuple[str, ...] = (member.record.node,)
        if suffering.fault is FaultKind.DEVICE_VANISHES:
            pattern = suffering.match.device or "*"
            held = (uid for uid, _ in member.record.claims if not uid.endswith(("/cpu", "/memory")))
            targets = tuple(uid for uid in held if fnmatchcase(uid, pattern))[:1]
        if targets:
            self._schedule_outage(suffering, at + (suffering.after or 0), targets)

    def _schedule_outage(self, suffering: Suffering, at: int, targets: tuple[str, ...] | None) -> None:
        self._outage_count += 1
        outage = Outage.of(self._outage_count, suffering, at, targets)
        self._outages[outage.id] = outage
        self.timeline.schedule(at, outage)

    def _strike(self, outage: Outage, at: int) -> None:
        suffering = outage.suffering
        if outage.targets is None:
            found = [name for name in self._candidates(suffering)]
            outage.targets = tuple(found[: self.sufferings.left(suffering)])
        outage.on = True
        for target in outage.targets:
            if suffering.fault is FaultKind.NODE_LOST:
                self.world.lose_node(target, outage.id)
                for member in self._on_node(target):
                    self.life.hide(member, at)
            else:
                self.world.lose_device(target, outage.id)
                if suffering.kills:
                    self._kill_holders(target, at)
            self._found.pop(target.partition("/")[0], None)

    def _candidates(self, suffering: Suffering) -> list[str]:
        match = suffering.match
        nodes = [
            node
            for node in self.world.layout.nodes.values()
            if match.node is None or fnmatchcase(node.name, match.node)
        ]
        if suffering.fault is FaultKind.NODE_LOST:
            return [node.name for node in nodes]
        return [
            device.uid
            for node in nodes
            for device in node.devices[2:]
            if match.device is None or fnmatchcase(device.uid, match.device)
        ]

    def _kill_holders(self, uid: str, at: int) -> None:
        for presence in self.world.holders(uid):
            member = self.members.get(presence.member_id)
            if member is not None:
                text = f"{uid} is not there any more"
                self.life.kill(member, at, Ending(failure="device-missing", stage="running", text=text))

    def _gone(self, node: str, outage: Outage, at: int) -> None:
        self.world.node_gone(node, outage.id)
        self._found.pop(node, None)
        for member in self._on_node(node):
            self.life.lose(member, at)
        for presence in self.world.on_node(node):
            self.world.leave(presence.member_id)

    def _end_outage(self, outage: Outage, at: int) -> None:
        outage.generation += 1
        self._outages.pop(outage.id, None)
        if not outage.on:
            return
        outage.on = False
        for target in outage.targets or ():
            self.world.return_node(target, outage.id)
            self.world.return_device(target, outage.id)
            self._found.pop(target.partition("/")[0], None)
            if outage.suffering.fault is FaultKind.NODE_LOST and not self.world.is_lost(target):
                for member in self._on_node(target):
                    self.life.reveal(member, at)

    def _relieve(self, suffering: Suffering) -> None:
        """A suffering is no longer declared: what it took away comes back, what it held comes free."""
        for outage in [outage for outage in self._outages.values() if outage.suffering is suffering]:
            outage.steps.clear()
            self._end_outage(outage, self.time)
        for member in tuple(self.members.values()):
            if member.stuck is suffering:
                self.life.release(member, self.time)

    def _on_node(self, node: str) -> list[Member]:
        here = (self.members.get(presence.member_id) for presence in self.world.on_node(node))
        return [member for member in here if member is not None]


def _fault_ending(fault: Suffering | None) -> Ending:
    if fault is None:
        return Ending()
    stage, code = STAGE_FAULTS[fault.fault]
    text = fault.text or f"the simulated cluster was told to suffer {fault.fault.value}"
    return Ending(failure=fault.code or code, stage=stage, text=text)


def _keep_newest(kept: dict[K, V]) -> None:
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
