"""An engine whose replies suffer, by wrapping any engine: only the tests have this.

Each fault has a name and a count. `lost-reply` carries the call out and raises; `late` holds an
observation back for some calls; `reordered` delivers an observation after the next one; `doubled` delivers
it twice; `stale` repeats the last one; `unreachable` raises without doing anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from steelyard.devices.step import Step
from steelyard.engines.port import (
    Artifacts,
    AttemptStart,
    Capabilities,
    Engine,
    EngineUnavailable,
    ExecStream,
    Fenced,
    LogChunk,
    MemberObservation,
    Observation,
    ReleaseProbe,
    Sample,
    Signal,
    StartReply,
)
from steelyard.model.execution import Execution
from steelyard.model.resources import FoundNode

T = TypeVar("T")

OBSERVATION_FAULTS = ("late", "reordered", "doubled", "stale")


class FaultyEngine:
    """Passes everything on to `inner`, except what `arm` asked for."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.cluster = inner.cluster
        self._armed: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._waiting: deque[Observation] = deque()
        self._last: Observation | None = None
        self._hold = 0

    def arm(self, fault: str, times: int = 1, call: str = "start") -> None:
        """The fault strikes `times` times from now on; `call` says which one loses its reply."""
        if fault == "lost-reply":
            self._lost[call] = self._lost.get(call, 0) + times
        else:
            self._armed[fault] = self._armed.get(fault, 0) + times

    def _spend(self, fault: str) -> bool:
        left = self._armed.get(fault, 0)
        self._armed[fault] = max(0, left - 1)
        return left > 0

    def _call(self, name: str, act: Callable[..., T], *arguments: Any) -> T:
        if self._spend("unreachable"):
            raise EngineUnavailable("cluster-unreachable", cluster=self.cluster)
        answer = act(*arguments)
        if self._lost.get(name, 0) > 0:
            self._lost[name] -= 1
            raise EngineUnavailable("engine-reply-lost", cluster=self.cluster, call=name)
        return answer

    def observe(self, cursor: str | None) -> Observation:
        """See the port; here the observations suffer."""
        if self._spend("stale") and self._last is not None:
            return self._last
        if self._waiting and self._hold == 0:
            return self._waiting.popleft()
        seen = self._call("observe", self.inner.observe, cursor)
        if self._hold > 0:
            self._hold -= 1
            return self._deliver(seen)
        if self._spend("reordered"):
            self._waiting.append(seen)
            self._hold = 1
            raise EngineUnavailable("engine-reply-late", cluster=self.cluster, call="observe")
        if self._spend("late"):
            self._waiting.append(seen)
            raise EngineUnavailable("engine-reply-late", cluster=self.cluster, call="observe")
        if self._spend("doubled"):
            self._waiting.append(seen)
        return self._deliver(seen)

    def _deliver(self, seen: Observation) -> Observation:
        self._last = seen
        return seen

    def capabilities(self) -> Capabilities:
        """See the port."""
        return self._call("capabilities", self.inner.capabilities)

    def inventory(self) -> tuple[FoundNode, ...]:
        """See the port."""
        return self._call("inventory", self.inner.inventory)

    def device_steps(self) -> tuple[Step, ...]:
        """See the port."""
        return self.inner.device_steps()

    def prepare(self, attempt: AttemptStart) -> StartReply:
        """See the port."""
        return self._call("prepare", self.inner.prepare, attempt)

    def start(self, attempts: Sequence[AttemptStart]) -> tuple[StartReply, ...]:
        """See the port."""
        return self._call("start", self.inner.start, attempts)

    def signal(self, attempt_id: str, signal: Signal) -> None:
        """See the port."""
        self._call("signal", self.inner.signal, attempt_id, signal)

    def stop(self, attempt_ids: Sequence[str], grace: int) -> None:
        """See the port."""
        self._call("stop", self.inner.stop, attempt_ids, grace)

    def update(self, attempt_id: str, replicas: int, revision: str | None) -> StartReply:
        """See the port."""
        return self._call("update", self.inner.update, attempt_id, replicas, revision)

    def forget(self, attempt_ids: Sequence[str]) -> None:
        """See the port."""
        self._call("forget", self.inner.forget, attempt_ids)

    def probe_release(self, attempt_ids: Sequence[str]) -> tuple[ReleaseProbe, ...]:
        """See the port."""
        return self._call("probe_release", self.inner.probe_release, attempt_ids)

    def fence(self, attempt_ids: Sequence[str]) -> tuple[Fenced, ...]:
        """See the port."""
        return self._call("fence", self.inner.fence, attempt_ids)

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """See the port."""
        return self._call("logs", self.inner.logs, member_id, offset, limit)

    def artifacts(self, attempt_id: str, member_id: str) -> Artifacts | None:
        """See the port."""
        return self._call("artifacts", self.inner.artifacts, attempt_id, member_id)

    def read_artifact(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        """As the inner engine."""
        return self.inner.read_artifact(attempt_id, member_id, path, limit)

    def exec(self, member_id: str, execution: Execution) -> ExecStream:
        """See the port."""
        return self._call("exec", self.inner.exec, member_id, execution)

    def attach(self, member_id: str) -> ExecStream:
        """See the port."""
        return self._call("attach", self.inner.attach, member_id)

    def sample(self) -> tuple[Sample, ...]:
        """See the port."""
        return self._call("sample", self.inner.sample)

    def endpoint(self, member_id: str) -> str | None:
        """See the port."""
        return self._call("endpoint", self.inner.endpoint, member_id)

    def ensure_namespace(self, namespace: str, project: str) -> None:
        """See the port."""
        self._call("ensure_namespace", self.inner.ensure_namespace, namespace, project)

    def close(self) -> None:
        """See the port."""
        self.inner.close()


class Reader:
    """Follows an engine as the port's rules say: an older observation never undoes a newer one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.cursor: str | None = None
        self.sequence = -1
        self.members: dict[str, MemberObservation] = {}
        self.unreachable = 0
        self.older = 0

    def look(self) -> None:
        """One observation; when the cluster can't be reached the next one is a complete one."""
        try:
            seen = self._engine.observe(self.cursor)
        except EngineUnavailable:
            self.cursor = None
            self.unreachable += 1
            return
        if seen.sequence <= self.sequence:
            self.older += 1
            return
        self.sequence, self.cursor = seen.sequence, seen.cursor
        self.members.update((member.member_id, member) for member in seen.members)
