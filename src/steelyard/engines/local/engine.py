"""The engine port on this machine: real processes, started and watched by the runner.

The engine itself keeps nothing that matters: the runner and the folders do, so that a server may end or be
ended at any moment and the next one finds everything as it is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.devices.catalogue import visibility_env
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.step import Step
from steelyard.engines.local import fencing, looking, telling
from steelyard.engines.local.disk import Floor
from steelyard.engines.local.engine_isolation import EngineIsolation
from steelyard.engines.local.files import read_json
from steelyard.engines.local.herald import Listener
from steelyard.engines.local.isolation import AUTOMATIC, Wish, not_enforced
from steelyard.engines.local.keeping import Keeping
from steelyard.engines.local.link import Link
from steelyard.engines.local.machine import Machine
from steelyard.engines.local.member_logs import DEFAULT_MIB, MemberLogs
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.procfs import Known
from steelyard.engines.local.protocol import WITH_EXEC
from steelyard.engines.local.stranger import RunnerMismatch, Watcher, unable
from steelyard.engines.local.stream import LocalStream, open_terminal
from steelyard.engines.port import (
    Artifacts,
    AttemptStart,
    Capabilities,
    EngineUnavailable,
    Fenced,
    Foreign,
    Isolation,
    LogChunk,
    MemberObservation,
    MemberPhase,
    MemberStart,
    Observation,
    ReleaseProbe,
    Sample,
    Signal,
    StartReply,
    StartState,
)
from steelyard.model.errors import SteelyardError, UnavailableError
from steelyard.model.execution import Execution
from steelyard.model.resources import Availability, FoundNode, UnavailableReason
from steelyard.model.units import WHOLE_DEVICE

_BATCH = 100
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMES = ("started_at", "ready_at", "ended_at")
_SAME_CLOCK = 100_000  # µs: less than this is the time between two readings


def default_path() -> str:
    """PATH of workloads: the interpreter Steelyard itself runs in, then the system's programs."""
    return f"{os.path.dirname(sys.executable)}:{_SYSTEM_PATH}"


class LocalEngine:
    """One machine. `reserve_cpu` (milli-cores) and `reserve_memory` (MiB) are kept for the control plane."""

    def __init__(
        self,
        cluster: str,
        data_dir: Path | str,
        install_id: str,
        *,
        now: Callable[[], int],
        reserve_cpu: int = 0,
        reserve_memory: int = 0,
        node_name: str | None = None,
        path: str | None = None,
        work_limit: int | None = None,
        min_free: int = 0,
        keep_work: int | None = None,
        keep_artifacts: int | None = None,
        log_limit: int = DEFAULT_MIB,
        runner_idle_seconds: float | None = None,
        isolation: Wish = AUTOMATIC,
        devices: DeviceSettings | None = None,
    ) -> None:
        self.cluster = cluster
        self._layout = Layout(os.fspath(data_dir))
        self._install = install_id
        self._now = now
        self._node = node_name or os.uname().nodename
        self._path = path or default_path()
        self._work_limit = work_limit
        self._floor = Floor(self._layout.data, min_free)
        self._link = Link(self._layout, install_id, runner_idle_seconds)
        self._watching = self._link.another()  # a start does not wait for an observation
        self._isolation = EngineIsolation(self._link, isolation)
        self._keeping = Keeping(self._link, self._layout, now, keep_work, keep_artifacts)
        self._logs = MemberLogs(self._layout, log_limit)
        self._watcher = Watcher(self._layout, install_id)
        self._machine = Machine(
            devices or DeviceSettings(), self._link, self._watcher, self._layout, now, self._node,
            (reserve_cpu, reserve_memory),
        )  # fmt: skip
        self._mismatch: RunnerMismatch | None = None  # as of the last observation
        self._listener: Listener | None = None
        self._known = Known()

    # ---- what there is

    def capabilities(self) -> Capabilities:
        """See the port. `limits` is what the runner found: control groups, or rlimits for large members."""
        try:
            return self._capabilities()
        except RunnerMismatch as mismatch:
            return unable(mismatch)

    def _capabilities(self) -> Capabilities:
        mode, held, why = self._isolation.enforced()
        return Capabilities(
            kind="local",
            simulated=False,
            signals=frozenset(Signal),
            can_exec=int(self._link.hello["protocol"]) >= WITH_EXEC,
            can_update=False,
            sees_device_processes=True,
            sees_utilisation=True,
            isolation=held,
            isolation_mode=mode,
            not_enforced=not_enforced(held),
            isolation_text=why,
            isolation_modes=tuple(self._isolation.why_not().items()),
            limits=str(self._link.hello["limits"]),
            protocol=int(self._link.hello["protocol"]),
        )

    def inventory(self) -> tuple[FoundNode, ...]:
        """See the port. Now and then what is old is removed with it."""
        self._keeping.tidy()
        node, reason = self._machine.look(), None
        if self._mismatch is not None:
            reason = UnavailableReason.RUNNER_PROTOCOL.value
        elif self._floor.reached():
            reason = UnavailableReason.DISK_FULL.value
        if reason is not None:
            node = replace(node, availability=Availability.UNPLANNED, reason=reason)
        return (node,)

    def device_steps(self) -> tuple[Step, ...]:
        """See the port."""
        return self._machine.steps()

    # ---- attempts

    def prepare(self, attempt: AttemptStart) -> StartReply:
        """Everything is done in `start`."""
        return StartReply(attempt.attempt_id, StartState.ACCEPTED)

    def start(self, attempts: Sequence[AttemptStart]) -> tuple[StartReply, ...]:
        """See the port."""
        replies: dict[str, StartReply] = {}
        wire = []
        isolation = self._isolation.claim()
        for attempt in attempts:
            try:
                wire.append({**self._attempt(attempt), "isolation": isolation})
            except SteelyardError as wrong:
                replies[attempt.attempt_id] = StartReply(
                    attempt.attempt_id, StartState.REFUSED, wrong.code, str(wrong)
                )
        for begin in range(0, len(wire), _BATCH):
            batch = wire[begin : begin + _BATCH]
            for sent, answer in zip(batch, self._link.ask("start", attempts=batch), strict=True):
                text = self._isolation.why_refused() if answer == "isolation-unavailable" else None
                replies[sent["attempt"]] = _reply(sent["attempt"], answer, text)
        return tuple(replies[attempt.attempt_id] for attempt in attempts)

    def signal(self, attempt_id: str, signal: Signal) -> None:
        """See the port. A checkpoint is SIGUSR1, to those processes that have a handler for it."""
        try:
            self._link.ask("signal", attempt=attempt_id, signal=signal.value)
        except RunnerMismatch:
            self._watcher.signal(attempt_id, signal.value)

    def stop(self, attempt_ids: Sequence[str], grace: int) -> None:
        """See the port."""
        try:
            self._link.ask("stop", attempts=list(attempt_ids), grace=max(0, grace))
        except RunnerMismatch:
            self._watcher.stop(attempt_ids, max(0, grace))

    def update(self, attempt_id: str, replicas: int, revision: str | None) -> StartReply:
        """A running attempt is not changed here: a new one is started."""
        return StartReply(attempt_id, StartState.REFUSED, "update-not-supported")

    def observe(self, cursor: str | None) -> Observation:
        """See the port. Where the runner can't be asked for its version, its members' notes are read."""
        try:
            seen, self._mismatch = self._watching.ask("observe", cursor=cursor, isolation=True), None
        except RunnerMismatch as mismatch:
            seen, self._mismatch = self._watcher.observe(), mismatch
        self._logs.seen(seen["members"])
        ahead = self._ahead()
        foreign = tuple(
            Foreign("attempt", attempt, self._node, f"install {install}")
            for attempt, install in sorted(seen["foreign"].items())
        )
        return Observation(
            cluster=self.cluster,
            as_of=seen["as_of"] + ahead,
            complete=seen["complete"],
            cursor=seen["cursor"],
            sequence=seen["sequence"],
            members=tuple(_observation(member, ahead) for member in seen["members"]),
            foreign=foreign,
            gone=tuple(seen.get("gone", ())),
        )

    def on_news(self, tell: Callable[[], None]) -> None:
        """See the port."""
        self._listener = Listener(self._link.another(), tell)

    def forget(self, attempt_ids: Sequence[str]) -> None:
        """Drops the notes. Logs and work folders stay: a work folder keeps its id from being used anew."""
        self._link.tell("forget", attempts=list(attempt_ids))

    def probe_release(self, attempt_ids: Sequence[str]) -> tuple[ReleaseProbe, ...]:
        """See the port."""
        return looking.probe(self._layout, self._install, attempt_ids, self._now(), self._known)

    def fence(self, attempt_ids: Sequence[str]) -> tuple[Fenced, ...]:
        """See the port."""
        return fencing.fence(self._layout, self._install, attempt_ids, self._now())

    # ---- members

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """See the port. A member that is not known, or has no log yet, has no bytes."""
        if not is_id(member_id):
            return LogChunk(b"", 0, True)
        ended = self._has_ended(member_id)  # asked first: what is written afterwards is not missed
        data, after, size = self._logs.read(member_id, offset, limit)
        return LogChunk(data, after, ended and after >= size)

    def artifacts(self, attempt_id: str, member_id: str) -> Artifacts | None:
        """See the port."""
        return self._keeping.artifacts(attempt_id, member_id)

    def read_artifact(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        """See the port."""
        return self._keeping.read(attempt_id, member_id, path, limit)

    def tell(self, notes: Sequence[tuple[str, str, str]]) -> None:
        """See the port."""
        for attempt_id, member_id, text in notes:
            telling.tell(self._layout, attempt_id, member_id, text)

    def exec(self, member_id: str, execution: Execution) -> LocalStream:
        """See the port. It runs as the member does, in its surroundings and control groups; see beside.py."""
        size = execution.terminal
        return self._link.open_stream(
            "exec",
            member=member_id,
            command=list(execution.command),
            terminal=None if size is None else [size.rows, size.columns],
            term=execution.term,
            limit=execution.time_limit,
        )

    def attach(self, member_id: str) -> LocalStream:
        """See the port. The terminal's own process is spoken to, not the runner."""
        run = read_json(self._layout.notes(member_id, "run.json")) if is_id(member_id) else None
        if run is None or run.get("install") != self._install or self._has_ended(member_id):
            raise UnavailableError("member-not-running")
        return open_terminal(self._layout.notes(member_id))

    def sample(self) -> tuple[Sample, ...]:
        """See the port."""
        try:
            running = self._link.ask("running", waited=True)
            samples = looking.sample(running, self._now())
            after = self._link.ask("running", waited=True)
        except RunnerMismatch:
            return looking.sample(self._watcher.running(), self._now())
        # Of one that ended in between the shim may have had the next member already.
        same = {one[0] for one in {tuple(one) for one in running} & {tuple(one) for one in after}}
        return tuple(one for one in samples if one.member_id in same)

    def endpoint(self, member_id: str) -> str | None:
        """See the port. Read from the notes: a gateway asks often, and the runner has better to do."""
        if not is_id(member_id) or self._has_ended(member_id):
            return None
        run = read_json(self._layout.notes(member_id, "run.json")) or {}
        if run.get("install") != self._install or run.get("child") is None:
            return None
        claim = read_json(self._layout.claim(run["attempt"])) or {"members": ()}
        ports = {member["member"]: member["port"] for member in claim["members"]}
        port = ports.get(member_id)
        return None if port is None else f"127.0.0.1:{port}"

    def ensure_namespace(self, namespace: str, project: str) -> None:
        """Nothing is needed: a work folder, and a project's user id, are made with its first attempt."""

    def close(self) -> None:
        """See the port."""
        self._machine.close()
        if self._listener is not None:
            self._listener.close()
        self._watching.close()
        self._link.close()

    def retire(self) -> bool:
        """Ends the runner if nothing runs; False where it stays because something does."""
        try:
            return int(self._link.ask("retire")["live"]) == 0
        except EngineUnavailable:
            return True

    # ---- inner

    def _ahead(self) -> int:
        """µs that the server's clock is ahead of the machine's, by which the runner goes: the machine's may
        have been set back."""
        ahead = self._now() - time.time_ns() // 1000
        return ahead if abs(ahead) > _SAME_CLOCK else 0

    def _attempt(self, attempt: AttemptStart) -> dict[str, Any]:
        return {
            "attempt": attempt.attempt_id,
            "workload": attempt.workload_id,
            "name": attempt.name[:200],
            "number": attempt.number,
            "namespace": attempt.namespace,
            "project": attempt.project,
            "install": attempt.install_id,
            "time_limit": attempt.time_limit,
            "work_limit": self._work_limit if attempt.work_limit is None else attempt.work_limit,
            "grace": attempt.grace,
            "resume_from": attempt.resume_from,
            "service": attempt.service,
            "probe_path": attempt.probe_path,
            "artifacts": list(attempt.artifacts),
            "members": [self._member(member) for member in attempt.members],
        }

    def _member(self, member: MemberStart) -> dict[str, Any]:
        threads = str(max(1, member.cpu // 1000))
        return {
            "member": member.member_id,
            "role": member.role,
            "index": member.index,
            "command": list(member.command),
            "env": [["OMP_NUM_THREADS", threads], *map(list, member.env)],
            "fixed": [list(pair) for pair in self._visible(member).items()],
            "path": self._path,
            "folder": member.working_directory,
            "image": member.image,
            "requires": list(member.requires),
            "tty": member.tty,
            "venv": member.venv,
            "pull": member.pull,
            "devices": [
                {"class": one.device_class.value, "family": one.family, "uid": one.uid,
                 "files": list(self._machine.files(one)), "whole": one.quantity >= WHOLE_DEVICE}
                for one in member.devices
            ],
            "cpu": member.cpu,
            "memory": member.memory,
            "port": member.port,
        }

    def _visible(self, member: MemberStart) -> dict[str, str]:
        """Raises InvalidError where a device can't be named to its runtime."""
        return visibility_env(self._machine.named(one) for one in member.devices)

    def _has_ended(self, member_id: str) -> bool:
        if not os.path.isdir(self._layout.notes(member_id)):
            return True  # forgotten, or never known
        return read_json(self._layout.notes(member_id, "exit.json")) is not None


def _reply(attempt: str, answer: str, text: str | None) -> StartReply:
    if answer in (StartState.ACCEPTED, StartState.ALREADY):
        return StartReply(attempt, StartState(answer))
    return StartReply(attempt, StartState.REFUSED, answer, text)


def _observation(member: dict[str, Any], ahead: int) -> MemberObservation:
    moved = {name: member[name] + ahead for name in _TIMES if ahead and member.get(name) is not None}
    said = member.get("isolation")
    isolation = None if said is None else Isolation(said["mode"], tuple(said["not_enforced"]))
    phase = MemberPhase(member["phase"])
    return MemberObservation(**{**member, **moved, "phase": phase, "isolation": isolation})
