"""The simulated engine: a cluster that exists only in memory and a small state file, marked so everywhere.

What it is and what it is to suffer is declared (`spec.py`). Its clock is given, so that a test drives it
without waiting; everything that is due happens when somebody calls.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from steelyard.devices.step import Step
from steelyard.engines.port import (
    Artifacts,
    AttemptStart,
    Capabilities,
    EngineUnavailable,
    ExecStream,
    Fenced,
    LogChunk,
    MemberPhase,
    Observation,
    ReleaseProbe,
    Sample,
    Signal,
    StartReply,
    StartState,
)
from steelyard.engines.simulated import logs
from steelyard.engines.simulated.cluster import SimulatedCluster
from steelyard.engines.simulated.journal import Journal
from steelyard.engines.simulated.observe import observe
from steelyard.engines.simulated.probe import probe
from steelyard.engines.simulated.records import (
    Born,
    Declared,
    Forgotten,
    Namespaced,
    Record,
    Refused,
    Signalled,
    Spent,
    Started,
    Stopped,
)
from steelyard.engines.simulated.replies import Replies
from steelyard.engines.simulated.spec import SimulationSpec
from steelyard.engines.simulated.world import Presence
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.model.execution import Execution
from steelyard.model.resources import EngineKind, FoundNode

#: Bytes of the state file above which it is written shorter.
_SHORTEN_AT = 4 * 2**20


class SimulatedEngine:
    """One simulated cluster behind the engine port. Thread-safe.

    `now` gives µs UTC and may be virtual; a clock that steps back is held where it was. With a
    `state_path` the cluster survives this object: the next one with the same path adopts it, and two may
    use it at the same time. Without one it exists in memory only.
    """

    def __init__(
        self, cluster: str, spec: SimulationSpec, now: Callable[[], int], state_path: Path | None = None
    ) -> None:
        self.cluster = cluster
        self._now = now
        self._mutex = threading.RLock()
        self._state = SimulatedCluster()
        self._life = secrets.token_hex(6)
        self._sequence = now()  # a later engine's observations are newer
        self._replies = Replies(cluster)
        self._closed = False
        self._shorten_at = _SHORTEN_AT
        self._journal = Journal(state_path) if state_path is not None else None
        self.declare(spec)

    def declare(self, spec: SimulationSpec) -> None:
        """Another document holds from now on; one that is equal to the last changes nothing."""
        with self._turn(reachable=False):
            if self._state.spec is None or self._state.spec.raw != spec.raw:
                self._record(Declared(self._state.time, spec.raw))

    # -- the port ---------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        """What a simulated cluster can do and see; it isolates and limits nothing."""
        return Capabilities(
            kind=EngineKind.SIMULATED.value,
            simulated=True,
            signals=frozenset(Signal),
            can_exec=False,
            can_update=False,
            sees_device_processes=True,
            sees_utilisation=False,
            isolation=(),
            limits="none",
        )

    def inventory(self) -> tuple[FoundNode, ...]:
        """Every declared node, each with a reason where it is lost or misses devices."""
        with self._turn():
            return self._state.inventory()

    def device_steps(self) -> tuple[Step, ...]:
        """None: its devices are declared, not found."""
        return ()

    def prepare(self, attempt: AttemptStart) -> StartReply:
        """Nothing is prepared ahead: the stages come with the start."""
        with self._turn():
            return StartReply(attempt.attempt_id, StartState.ACCEPTED)

    def start(self, attempts: Sequence[AttemptStart]) -> tuple[StartReply, ...]:
        """Starts each attempt that is not known yet, all its members or none."""
        with self._turn():
            replies = tuple(self._start(attempt) for attempt in attempts)
            self._lose_reply("start", [attempt.name for attempt in attempts])
            return replies

    def signal(self, attempt_id: str, signal: Signal) -> None:
        """Tells the members of an attempt; what is not known or ended is left alone."""
        with self._turn():
            if attempt_id in self._state.attempts:
                self._record(Signalled(self._state.time, attempt_id, signal))

    def stop(self, attempt_ids: Sequence[str], grace: int) -> None:
        """TERM now and KILL after `grace` µs, for the attempts that are known and not ended."""
        with self._turn():
            attempts = self._state.attempts
            live = tuple(key for key in attempt_ids if key in attempts and not attempts[key].ended)
            if live:
                self._record(Stopped(self._state.time, live, max(0, grace)))
            self._lose_reply("stop", [attempts[key].name for key in live])

    def update(self, attempt_id: str, replicas: int, revision: str | None) -> StartReply:
        """Not supported."""
        return StartReply(attempt_id, StartState.REFUSED, "update-not-supported")

    def observe(self, cursor: str | None) -> Observation:
        """What changed since the cursor, as far as the declared faults let it be seen."""
        with self._turn():
            waiting = self._replies.waiting()
            if waiting is not None:
                return waiting
            state = self._state
            seen = self._replies.seen_until(state.sufferings, state.time)
            self._sequence += 1
            observation = observe(state, self.cluster, self._life, self._sequence, cursor, seen)
            observation = replace(observation, gone=self._over(observation))
            return self._replies.deliver(observation, state.sufferings, state.time, self._spend)

    def _over(self, observation: Observation) -> tuple[str, ...]:
        """Attempts that are seen to end and have left nothing."""
        ended = {one.attempt_id for one in observation.members if one.phase is MemberPhase.ENDED}
        attempts = self._state.attempts
        return tuple(
            name
            for name in sorted(ended)
            if name in attempts and attempts[name].ended and probe(self._state, name).free
        )

    def forget(self, attempt_ids: Sequence[str]) -> None:
        """Drops the notes of ended attempts; their logs stay."""
        with self._turn():
            attempts = self._state.attempts
            ended = tuple(key for key in attempt_ids if key in attempts and attempts[key].ended)
            if ended:
                self._record(Forgotten(self._state.time, ended))

    def probe_release(self, attempt_ids: Sequence[str]) -> tuple[ReleaseProbe, ...]:
        """Looks at the world, not at the notes."""
        with self._turn():
            return tuple(probe(self._state, attempt_id) for attempt_id in attempt_ids)

    def fence(self, attempt_ids: Sequence[str]) -> tuple[Fenced, ...]:
        """Nothing of a simulated attempt can be ended from outside: what is left is named."""
        with self._turn():
            left = {name: probe(self._state, name).residue for name in attempt_ids}
            return tuple(Fenced(name, (), residue) for name, residue in left.items())

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """The stages so far, one line each; empty and at its end for a member that is not known."""
        with self._turn():
            member = self._state.members.get(member_id)
            if member is None:
                return logs.chunk(self._state.archive.logs.get(member_id, b""), offset, limit, True)
            ended = member.phase is MemberPhase.ENDED and member.hidden_at is None
            return logs.chunk(logs.render(member), offset, limit, ended)

    def artifacts(self, attempt_id: str, member_id: str) -> Artifacts | None:
        """Nothing is made here, so nothing is left."""
        return None

    def read_artifact(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        """Nothing is made here, so nothing is left."""
        return None

    def exec(self, member_id: str, execution: Execution) -> ExecStream:
        """Not supported."""
        raise UnavailableError("exec-not-supported", cluster=self.cluster)

    def attach(self, member_id: str) -> ExecStream:
        """There is no program here that could have one."""
        raise UnavailableError("no-terminal")

    def sample(self) -> tuple[Sample, ...]:
        """Running members without measurements: nothing is measured here, and missing is not 0."""
        with self._turn():
            return tuple(
                Sample(member.id, self._state.time, None, None, None)
                for member in self._state.members.values()
                if member.phase is MemberPhase.RUNNING and member.hidden_at is None
            )

    def endpoint(self, member_id: str) -> str | None:
        """A simulated service answers nowhere."""
        return None

    def ensure_namespace(self, namespace: str, project: str) -> None:
        """Notes the namespace."""
        with self._turn():
            if self._state.namespaces.get(namespace) != project:
                self._record(Namespaced(self._state.time, namespace, project))

    def close(self) -> None:
        """Lets go of the state file. What runs goes on by the clock."""
        with self._mutex:
            self._closed = True
            if self._journal is not None:
                self._journal.close()

    # -- beyond the port: for whoever drives a virtual clock or looks at the truth ------------------

    def next_due(self) -> int | None:
        """When something happens next, µs; None: nothing will before somebody calls."""
        with self._turn(reachable=False):
            return self._state.timeline.next_due()

    def present(self) -> tuple[Presence, ...]:
        """Ground truth: everything of ours that is in the world, with its marks and what it occupies."""
        with self._turn(reachable=False):
            return self._state.world.everything()

    def namespaces(self) -> dict[str, str]:
        """Namespaces that were made, with their projects."""
        with self._turn(reachable=False):
            return dict(self._state.namespaces)

    # -- inside -----------------------------------------------------------------------------------

    @contextmanager
    def _turn(self, reachable: bool = True) -> Iterator[None]:
        """One call: alone, up to date with the file and the clock, and written down at its end."""
        with self._mutex, self._alone():
            self._catch_up()
            self._state.advance(self._now())
            if reachable:
                self._replies.check_reachable(self._state.sufferings, self._state.time)
            try:
                yield
            finally:
                self._write()

    def _alone(self) -> AbstractContextManager[None]:
        if self._closed:
            raise EngineUnavailable("cluster-unreachable", cluster=self.cluster)
        return self._journal.locked() if self._journal is not None else nullcontext()

    def _catch_up(self) -> None:
        journal = self._journal
        if journal is None:
            return
        if journal.replaced():
            journal.open()
            self._state = SimulatedCluster()
            self._life = secrets.token_hex(6)
        for record in journal.news():
            self._check_owner(record)
            self._state.apply(record)
        if journal.size() == 0:
            self._record(Born(self._now(), self.cluster))

    def _check_owner(self, record: Record) -> None:
        if isinstance(record, Born) and record.cluster != self.cluster:
            raise InvalidError("simulation-state-of-other-cluster", cluster=record.cluster)

    def _write(self) -> None:
        if self._journal is None:
            return
        try:
            self._journal.flush()
            if self._journal.size() > self._shorten_at:
                self._journal.rewrite(self._state.essence())
                self._shorten_at = max(_SHORTEN_AT, 2 * self._journal.size())
        except OSError as error:
            # What is in memory is ahead of the file now; the next call reads the file anew.
            self._journal.discard()
            raise EngineUnavailable(
                "simulation-state-not-written", cluster=self.cluster, error=str(error.strerror)
            ) from error

    def _record(self, record: Record) -> None:
        self._state.apply(record)
        if self._journal is not None:
            self._journal.append(record)

    def _spend(self, key: str) -> None:
        self._record(Spent(self._state.time, key, 1))

    def _lose_reply(self, call: str, names: Sequence[str]) -> None:
        state = self._state
        self._replies.lose(state.sufferings, call, names, state.time, self._spend)

    def _start(self, attempt: AttemptStart) -> StartReply:
        state = self._state
        known = state.attempts.get(attempt.attempt_id)
        if known is not None and known.refused is not None:
            return StartReply(attempt.attempt_id, StartState.REFUSED, *known.refused)
        if known is not None or attempt.attempt_id in state.archive.forgotten:
            return StartReply(attempt.attempt_id, StartState.ALREADY)
        planned: Started | Refused = state.plan_start(attempt)
        self._record(planned)
        if isinstance(planned, Refused):
            return StartReply(attempt.attempt_id, StartState.REFUSED, planned.code, planned.text)
        return StartReply(attempt.attempt_id, StartState.ACCEPTED)
