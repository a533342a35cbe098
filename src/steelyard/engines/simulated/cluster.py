"""A simulated cluster as a state that only records and time change; no I/O and no clock.

Deterministic: the same records give the same state, which is how it survives the server's death.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

from steelyard.engines.port import AttemptStart, MemberStart, Signal
from steelyard.engines.simulated import logs
from steelyard.engines.simulated.archive import Archive
from steelyard.engines.simulated.behaviour import Behaviour, parse_expect
from steelyard.engines.simulated.faults import STAGE_FAULTS, FaultKind, Suffering
from steelyard.engines.simulated.feed import Feed
from steelyard.engines.simulated.inventory import Layout, seen_now
from steelyard.engines.simulated.life import Life
from steelyard.engines.simulated.member import Attempt, Ending, Member, opening
from steelyard.engines.simulated.outages import Outages
from steelyard.engines.simulated.records import (
    Born,
    Declared,
    Forgotten,
    Kept,
    MemberRecord,
    Namespaced,
    Record,
    Refused,
    Saved,
    Signalled,
    Spent,
    Started,
    Stopped,
)
from steelyard.engines.simulated.spec import SimulationSpec, parse_simulation
from steelyard.engines.simulated.suffer import Outage, Sufferings
from steelyard.engines.simulated.timeline import Due, Timeline
from steelyard.engines.simulated.world import Presence, Refusal, World
from steelyard.model.errors import InvalidError
from steelyard.model.resources import FoundNode


@lru_cache(maxsize=4096)
def _behaviour_of(expect: tuple[tuple[str, str], ...], service: bool) -> Behaviour:
    return parse_expect(dict(expect), service=service)


def behaviour_of(expect: dict[str, str], service: bool) -> Behaviour:
    """The behaviour, parsed once for equal expectations. Raises InvalidError."""
    return _behaviour_of(tuple(expect.items()), service)


class SimulatedCluster:
    """World, timeline and notes under one roof. `apply` takes the records, `advance` the time."""

    def __init__(self) -> None:
        self.time = 0
        self.born: Born | None = None
        self.spec: SimulationSpec | None = None
        self.world = World(Layout({}), ())
        self.timeline = Timeline()
        self.feed = Feed()
        self.sufferings = Sufferings()
        self.attempts: dict[str, Attempt] = {}
        self.members: dict[str, Member] = {}
        self.archive = Archive()
        self.namespaces: dict[str, str] = {}
        self._found: dict[str, FoundNode] = {}
        self._stuck: dict[str, Member] = {}
        self._outages = Outages(self.world, self.timeline, self.sufferings, self.members, self._changed)
        self.life = Life(self.world, self.timeline, self.feed, self._outages.follow)
        self._acts: dict[type, Callable[..., None]] = {
            Born: self._was_born,
            Declared: self._declared,
            Started: self._started,
            Refused: self._refused,
            Stopped: self._stopped,
            Signalled: self._signalled,
            Forgotten: self._forgotten,
            Spent: self._spent,
            Kept: self.archive.keep,
            Saved: self.archive.save,
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
                        signs=world.signs_of,
                        strangers=world.strangers_on,
                    )
        return tuple(found[name] for name in world.layout.nodes)

    def plan_start(self, attempt: AttemptStart) -> Started | Refused:
        """What a start of an attempt that is not known would do; nothing has happened yet."""
        pending: dict[str, int] = {}
        dealt: dict[str, int] = {}
        ids = [member.member_id for member in attempt.members]
        try:
            if len(set(ids)) != len(ids) or any(key in self.members for key in ids):
                raise Refusal("member-id-taken", attempt.attempt_id)
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
        behaviour_of(member.expect, attempt.service)
        claims = self.world.claim(
            member.node,
            member.cpu,
            member.memory,
            [(device.uid, device.device_class, device.model, device.quantity) for device in member.devices],
            pending,
        )
        return MemberRecord(
            member.member_id,
            member.role,
            member.index,
            member.node,
            claims,
            member.expect,
            self.sufferings.deal(attempt.name, attempt.number, member.role, member.node, self.time, dealt),
            self._saved_progress(attempt.resume_from, member.role, member.index),
        )

    def _saved_progress(self, attempt_id: str | None, role: str, index: int) -> int:
        """µs of running that the last checkpoint of another attempt's like member saves."""
        if attempt_id is None:
            return 0
        for member in self._members_of(attempt_id):
            if member.record.role == role and member.record.index == index:
                return member.checkpoint or 0
        return self.archive.progress.get((attempt_id, role, index), 0)

    # -- what the records do ----------------------------------------------------------------------

    def _was_born(self, record: Born) -> None:
        self.born = record

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
                self._outages.schedule(suffering, self.sufferings.begins(suffering))
        used = {presence.node for presence in self.world.everything()} | set(self._outages.hidden_nodes())
        for node in sorted(used - set(self.world.layout.nodes)):
            self._outages.empty(node, self.life, self.time)
        self.feed.lag(self.sufferings.any_of(FaultKind.LATE_REPLY, FaultKind.STALE))
        self.archive.document(record, [suffering.key for suffering in added])

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
        self.archive.note(attempt, record)
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
            if stuck is not None:
                self._stuck[member.id] = member
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
        self.archive.note(attempt, record)

    def _stopped(self, record: Stopped) -> None:
        for attempt_id in record.attempts:
            attempt = self.attempts.get(attempt_id)
            if attempt is None:
                continue
            self.archive.note(attempt, Stopped(record.at, (attempt_id,), record.grace))
            for member in attempt.members:
                self.life.terminate(member, self.time, record.grace)

    def _signalled(self, record: Signalled) -> None:
        attempt = self.attempts.get(record.attempt_id)
        if attempt is None:
            return
        self.archive.note(attempt, record)
        for member in attempt.members:
            if record.signal is Signal.KILL:
                self.life.kill(member, self.time)
            elif record.signal is Signal.TERM:
                self.life.terminate(member, self.time, None)
            else:
                self.life.checkpoint(member, self.time)

    def _forgotten(self, record: Forgotten) -> None:
        for attempt_id in record.attempts:
            attempt = self.attempts.pop(attempt_id, None)
            if attempt is None:
                self.archive.forgotten[attempt_id] = None
                continue
            lingers = False
            for member in attempt.members:
                del self.members[member.id]
                self.feed.drop(member)
                self.archive.keep(Kept(record.at, member.id, logs.render(member).decode()))
                if member.checkpoint:
                    given = member.record
                    saved = Saved(record.at, attempt_id, given.role, given.index, member.checkpoint)
                    self.archive.save(saved)
                lingers = lingers or bool(member.triggers)
            lingers = lingers or bool(self.world.of_attempt(attempt_id))
            if not lingers:
                for member in attempt.members:
                    self._stuck.pop(member.id, None)
            self.archive.forget(attempt, Forgotten(record.at, (attempt_id,)), lingers)

    def _relieve(self, suffering: Suffering) -> None:
        """A suffering is no longer declared: what it took away comes back, what it held comes free."""
        self._outages.relieve(suffering, self.life, self.time)
        for member in [member for member in self._stuck.values() if member.stuck == suffering]:
            del self._stuck[member.id]
            self.life.release(member, self.time)

    def _spent(self, record: Spent) -> None:
        self.sufferings.spend(record.key, record.times)
        self.archive.spend(record.key, record.times)

    def _changed(self, node: str) -> None:
        self._found.pop(node, None)

    def _namespaced(self, record: Namespaced) -> None:
        self.namespaces[record.namespace] = record.project

    def _members_of(self, attempt_id: str) -> Sequence[Member]:
        attempt = self.attempts.get(attempt_id)
        return attempt.members if attempt is not None else ()

    # -- what time does, and what a shorter journal needs ------------------------------------------

    def _act(self, actor: Due, at: int) -> int | None:
        if isinstance(actor, Member):
            return self.life.step(actor, at)
        assert isinstance(actor, Outage)
        return self._outages.step(actor, self.life, at)

    def essence(self) -> list[Record]:
        """Records that lead to this state again, without the attempts of which nothing is left."""
        self.archive.settle(lambda attempt: self._lingers(attempt))
        born = [self.born] if self.born is not None else []
        made = [Namespaced(0, name, project) for name, project in self.namespaces.items()]
        return [*born, *made, *self.archive.records(self.attempts.values())]

    def _lingers(self, attempt: Attempt) -> bool:
        declared = self.sufferings.declared
        return bool(self.world.of_attempt(attempt.id)) or any(
            trigger.key in declared for member in attempt.members for trigger in member.triggers
        )


def _fault_ending(fault: Suffering | None) -> Ending:
    if fault is None:
        return Ending()
    stage, code = STAGE_FAULTS[fault.fault]
    text = fault.text or f"the simulated cluster was told to suffer {fault.fault.value}"
    return Ending(failure=fault.code or code, stage=stage, text=text)
