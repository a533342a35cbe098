"""How the contract suite speaks to an engine of any kind: what a member is to do, and how time passes."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any

from steelyard.engines.local import procfs
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.port import AttemptStart, Engine, MemberObservation, MemberPhase, MemberStart
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.units import MILLISECOND, SECOND
from tests.support import local_engine
from tests.support.simulated import EPOCH, VirtualClock, document


class Does(Enum):
    """What a member does."""

    SUCCEEDS = auto()
    EXITS_3 = auto()
    DIES_OF_SIGNAL = auto()  # KILL, by its own hand
    RUNS = auto()  # until it is told to end
    IGNORES_TERM = auto()
    FAILS_AT_IMAGE = auto()
    FAILS_AT_ENVIRONMENT = auto()
    FAILS_AT_LAUNCH = auto()


class Harness(ABC):
    """One engine and the place behind it."""

    name: str
    engine: Engine

    def __init__(self) -> None:
        self._count = 0

    @abstractmethod
    def reopen(self) -> Engine:
        """Another engine object over the same place; the first may have been closed."""

    @abstractmethod
    def pause(self) -> None:
        """A short time passes."""

    @abstractmethod
    def now(self) -> int:
        """The engine's clock."""

    @abstractmethod
    def marks(self, attempt: AttemptStart) -> set[tuple[str, str]]:
        """(install id, attempt id) on everything that is outside for this attempt, looked at from there."""

    @abstractmethod
    def place_foreign(self) -> str:
        """Puts something on the cluster that is not ours, and returns its id."""

    @abstractmethod
    def foreign_is_there(self) -> bool:
        """Whether that goes on undisturbed."""

    @abstractmethod
    def lose_exit(self, attempt: AttemptStart) -> None:
        """Ends the attempt in a way that leaves no exit status."""

    @abstractmethod
    def close(self) -> None:
        """Ends everything."""

    @abstractmethod
    def _member(self, does: Does, member_id: str, index: int) -> MemberStart: ...

    def attempt(self, *does: Does, **parts: Any) -> AttemptStart:
        """An attempt whose members do this."""
        self._count += 1
        number = f"{self._count:04d}"
        members = tuple(self._member(what, f"mb_{number}{index}", index) for index, what in enumerate(does))
        given: dict[str, Any] = {"time_limit": None, "grace": 2 * SECOND, "number": 1, **parts}
        return AttemptStart(
            attempt_id=f"at_{number}",
            workload_id=f"wl_{number}",
            name="job",
            namespace="vision",
            project="vision",
            install_id=local_engine.INSTALL,
            members=members,
            **given,
        )

    def start(self, *does: Does, **parts: Any) -> AttemptStart:
        """Starts such an attempt."""
        attempt = self.attempt(*does, **parts)
        self.engine.start([attempt])
        return attempt

    def seen(self, attempt: AttemptStart, engine: Engine | None = None) -> list[MemberObservation]:
        """What a complete observation says of the attempt's members, in their order."""
        members = {one.member_id: one for one in (engine or self.engine).observe(None).members}
        return [members[one.member_id] for one in attempt.members if one.member_id in members]

    def until(
        self, attempt: AttemptStart, accept: Callable[[MemberObservation], bool], engine: Engine | None = None
    ) -> list[MemberObservation]:
        """Time passes until every member of the attempt is seen so. Fails the test when it never is."""
        deadline = time.monotonic() + 20
        while True:
            seen = self.seen(attempt, engine)
            if len(seen) == len(attempt.members) and all(accept(one) for one in seen):
                return seen
            assert time.monotonic() < deadline, seen
            self.pause()

    def until_running(self, attempt: AttemptStart) -> list[MemberObservation]:
        """Until every member runs."""
        return self.until(attempt, lambda one: one.phase is MemberPhase.RUNNING)

    def until_ended(self, attempt: AttemptStart, engine: Engine | None = None) -> list[MemberObservation]:
        """Until every member has ended."""
        return self.until(attempt, lambda one: one.phase is MemberPhase.ENDED, engine)

    def until_free(self, attempt: AttemptStart) -> None:
        """Until the live probe finds nothing of it."""
        deadline = time.monotonic() + 20
        while not self.engine.probe_release([attempt.attempt_id])[0].free:
            assert time.monotonic() < deadline
            self.pause()


class SimulatedHarness(Harness):
    """On a virtual clock, with a state file."""

    name = "simulated"
    engine: SimulatedEngine
    _EXPECT: dict[Does, dict[str, str]] = {  # noqa: RUF012 - a table, never changed
        Does.EXITS_3: {"run": "100ms", "exit": "3"},
        Does.DIES_OF_SIGNAL: {"run": "100ms", "signal": "9"},
        Does.RUNS: {"run": "forever"},
        Does.IGNORES_TERM: {"run": "forever", "ignore-term": "true"},
    }
    _FAULTS = (
        {"fault": "image-failure", "match": {"role": "fails-at-image"}},
        {"fault": "environment-failure", "match": {"role": "fails-at-environment"}},
        {"fault": "start-failure", "match": {"role": "fails-at-launch"}},
    )
    _TIMING = {"provision": "20ms", "image": "20ms", "environment": "20ms", "launch": "20ms"}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._clock = VirtualClock(EPOCH)
        self._path = path / "simulated.jsonl"
        self._suffer: list[dict[str, Any]] = list(self._FAULTS)
        self._parts: dict[str, Any] = {"timing": self._TIMING}
        self.engine = self.reopen()

    def reopen(self) -> SimulatedEngine:
        """See the base."""
        spec = parse_simulation(document(*self._suffer, **self._parts))
        return SimulatedEngine("here", spec, self._clock, self._path)

    def pause(self) -> None:
        """See the base."""
        self._clock.pass_time(10 * MILLISECOND)

    def now(self) -> int:
        """See the base."""
        return self._clock()

    def marks(self, attempt: AttemptStart) -> set[tuple[str, str]]:
        """See the base."""
        ids = {member.member_id for member in attempt.members}
        return {(p.install_id, p.attempt_id) for p in self.engine.present() if p.member_id in ids}

    def place_foreign(self) -> str:
        """See the base."""
        self._parts["foreign"] = [{"id": "4711", "node": "sim-0", "devices": ["sim-0/gpu-3"]}]
        self._declare()
        return "4711"

    def foreign_is_there(self) -> bool:
        """See the base."""
        return any(thing.id == "4711" for thing in self.engine.observe(None).foreign)

    def lose_exit(self, attempt: AttemptStart) -> None:
        """See the base."""
        node = attempt.members[0].node
        self._suffer.append({"fault": "node-lost", "match": {"node": node}, "gone": True})
        self._declare()

    def close(self) -> None:
        """See the base."""
        self.engine.close()

    def _declare(self) -> None:
        self.engine.declare(parse_simulation(document(*self._suffer, **self._parts)))

    def _member(self, does: Does, member_id: str, index: int) -> MemberStart:
        return MemberStart(
            member_id=member_id,
            role=does.name.lower().replace("_", "-"),
            index=index,
            node="sim-0",
            command=("train",),
            env=(),
            devices=(),
            cpu=1,
            memory=8,
            expect=self._EXPECT.get(does, {"run": "100ms"}),
        )


class LocalHarness(Harness):
    """Real processes on this machine."""

    name = "local"
    engine: LocalEngine
    _OTHER = "in_somebody_else"
    _SCRIPTS: dict[Does, str] = {  # noqa: RUF012 - a table, never changed
        Does.SUCCEEDS: "echo done",
        Does.EXITS_3: "exit 3",
        Does.DIES_OF_SIGNAL: "kill -9 $$",
        Does.RUNS: "exec sleep 600",
        Does.IGNORES_TERM: "trap '' TERM; echo deaf; while :; do sleep 600; done",
        Does.FAILS_AT_IMAGE: "exit 0",
        Does.FAILS_AT_ENVIRONMENT: "exit 0",
    }

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._opened: list[LocalEngine] = []
        self._other: LocalEngine | None = None
        self.engine = self.reopen()

    def reopen(self) -> LocalEngine:
        """See the base."""
        engine = local_engine.make_local_engine(self._path)
        self._opened.append(engine)
        return engine

    def pause(self) -> None:
        """See the base."""
        time.sleep(0.01)

    def now(self) -> int:
        """See the base."""
        return local_engine.now()

    def marks(self, attempt: AttemptStart) -> set[tuple[str, str]]:
        """See the base: read from the environment of each process that carries one of its members' marks."""
        ids = {member.member_id for member in attempt.members}
        found = set()
        for process in procfs.processes():
            env = procfs.environment(process.pid)
            if env.get("STEELYARD_MEMBER") in ids:
                found.add((env.get("STEELYARD_INSTALL", ""), env.get("STEELYARD_ATTEMPT", "")))
        return found

    def place_foreign(self) -> str:
        """See the base: work of another installation in the same place."""
        self._other = local_engine.make_local_engine(self._path, install_id=self._OTHER)
        foreign = local_engine.sh("at_foreign", "exec sleep 600", install_id=self._OTHER)
        self._other.start([foreign])
        local_engine.wait_for(self._other, "mb_foreign", lambda one: one.phase is MemberPhase.RUNNING)
        return "at_foreign"

    def foreign_is_there(self) -> bool:
        """See the base."""
        assert self._other is not None
        return [one.phase for one in self._other.observe(None).members] == [MemberPhase.RUNNING]

    def lose_exit(self, attempt: AttemptStart) -> None:
        """See the base: the shim that would have written it is killed."""
        for member in attempt.members:
            shim = local_engine.notes(self._path, member.member_id, "run.json")["shim"]
            os.kill(shim["pid"], signal.SIGKILL)

    def close(self) -> None:
        """See the base."""
        if self._other is not None:
            self._other.stop(["at_foreign"], 0)
            local_engine.wait_ended(self._other, "mb_foreign")
            self._other.close()
        for engine in self._opened[:-1]:
            engine.close()
        local_engine.end_everything(self._opened[-1])

    def _member(self, does: Does, member_id: str, index: int) -> MemberStart:
        script = self._SCRIPTS.get(does)
        return local_engine.member(
            member_id,
            ("/no/such/program",) if script is None else ("/bin/sh", "-c", script),
            index=index,
            image="no-such-image" if does is Does.FAILS_AT_IMAGE else None,
            requires=("program:no-such-program",) if does is Does.FAILS_AT_ENVIRONMENT else (),
        )


HARNESSES: dict[str, Callable[[Path], Harness]] = {"simulated": SimulatedHarness, "local": LocalHarness}
