"""One agent a cluster: the only caller of its engine, in a thread of its own.

A cluster that hangs or is lost blocks nobody else. The loops hand over commands after their commit
and take what the agent saw from a mailbox; engines are called at no other place. An engine that tells of
ends by itself is observed in a second thread, so that starts and observations do not wait for each other.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import structlog

from steelyard.control import readings
from steelyard.control.notices import Tell, give, save
from steelyard.engines.port import (
    AttemptStart,
    Capabilities,
    Engine,
    EngineUnavailable,
    Fenced,
    Herald,
    Observation,
    ReleaseProbe,
    Sample,
    StartReply,
    StartState,
)
from steelyard.model.resources import FoundNode
from steelyard.services.failure_log import Line

log = structlog.get_logger(__name__)
Item = TypeVar("Item")

BUSY_POLL = 0.02  # seconds between observations while something starts, stops or is being released
TOLD_POLL = 0.1  # the same where the engine tells of ends by itself
QUIET_POLL = 0.25  # while things only run
IDLE_POLL = 2.0  # while nothing of ours is there
INVENTORY_EVERY = 5.0
SAMPLE_EVERY = 2.0
#: Attempts in one call of an engine: what a call costs by itself (a look at every process of a machine, a
#: message to a runner) is paid once for all of them, and observations come in between.
BATCH = 200


@dataclass(frozen=True, slots=True)
class Start:
    """Start these attempts."""

    attempts: tuple[AttemptStart, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """End these attempts: TERM, KILL after the grace."""

    attempt_ids: tuple[str, ...]
    grace: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tell these attempts to save their work: they are going to be stopped."""

    attempt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Look whether these attempts are really gone."""

    attempt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """End and take away what these attempts left behind."""

    attempt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """These ends are booked."""

    attempt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadEnd:
    """See what the last lines of these members' logs say about their ends."""

    members: tuple[tuple[str, str], ...]  # (attempt, member)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Read what these members left as their results."""

    files: tuple[tuple[str, str, str, int], ...]  # (attempt, member, path, bytes at most)


Command: TypeAlias = Start | Stop | Checkpoint | Tell | Fence | ReadEnd | ReadResult | Probe | Forget


@dataclass(frozen=True, slots=True)
class Seen:
    """What an agent reports: one of the parts, or an observation with the probes of what is gone by it."""

    cluster: str
    observation: Observation | None = None
    replies: tuple[StartReply, ...] = ()
    probes: tuple[ReleaseProbe, ...] = ()
    fences: tuple[Fenced, ...] = ()
    ends: tuple[tuple[str, str, tuple[Line, ...]], ...] = ()  # (attempt, member, what its log says)
    results: tuple[tuple[str, bytes | None], ...] = ()  # (attempt, what it left)
    inventory: tuple[FoundNode, ...] | None = None
    samples: tuple[Sample, ...] | None = None
    capabilities: Capabilities | None = None
    failed: str | None = None  # what could not be done; the cluster was not reached


class Agent:
    """Drives one engine. Call `step` (tests, benchmarks) or `start` a thread."""

    def __init__(
        self, engine: Engine, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.cluster = engine.cluster
        self.engine = engine
        self._wake = wake
        self._clock = clock
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.mailbox: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self.poll = IDLE_POLL
        self._cursor: str | None = None
        self._afresh = False  # what is observed next is to be complete
        self._next_inventory = 0.0
        self.sampling = False  # somebody wants to know what is used
        self._next_sample = 0.0
        self._described = self._failing = False
        self._threads: list[threading.Thread] = []
        self._stir = threading.Event()  # wakes the thread that observes, where that is one of its own
        self._observe_at, self._closed = 0.0, False
        self._news = True  # there may be something to observe at once
        self._told = isinstance(engine, Herald)
        if isinstance(engine, Herald):
            engine.on_news(self._nudge)

    def _nudge(self) -> None:
        """Wakes the thread for an observation."""
        self._news = True
        if self._told:
            self._stir.set()
        else:
            self._inbox.put(Forget(()))

    def send(self, command: Command) -> None:
        """Hand over a command; it is carried out in order."""
        self._inbox.put(command)

    def start(self) -> None:
        """Run in threads until `close`."""
        self._begin("cluster", self._tell if self._told else self._run)

    def _begin(self, name: str, run: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=run, name=f"{name}-{self.cluster}", daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        """End the thread; running work goes on."""
        self._closed = True
        self._inbox.put(None)
        self._stir.set()
        for thread in tuple(self._threads):
            thread.join(timeout=5)
        self.engine.close()

    def set_poll(self, busy: bool, quiet: bool) -> None:
        """How often to observe: often while something starts or ends here, seldom while nothing is ours."""
        often = TOLD_POLL if self._told else BUSY_POLL
        poll = often if busy else QUIET_POLL if quiet else IDLE_POLL
        if poll < self.poll:
            self.poll = poll
            self._nudge()  # it then waits for the shorter time
        self.poll = poll

    def look_again(self) -> None:
        """Forget the cursor: the next observation is a complete one."""
        self._afresh = True
        self.look_at_inventory()

    def look_at_inventory(self) -> None:
        """Something was lost: what is there is looked at soon."""
        self._next_inventory = 0.0
        if self._told:
            self._inbox.put(Forget(()))

    def step(self) -> None:
        """One pass: commands, then an observation, and the inventory when it is due."""
        self._commands([])
        self._observe()
        self._look()

    def _look(self) -> None:
        """What is looked at now and then, when it is due."""
        if self._clock() >= self._next_inventory:
            self._inventory()
        if self.sampling and self._clock() >= self._next_sample:
            self._sample()

    def _run(self) -> None:
        while not self._closed:
            self.step()
            if not self._await_command(self._observe_at):
                return

    def _tell(self) -> None:
        """Commands, while another thread observes."""
        self.step()
        if not self._closed:
            self._begin("watch", self._watch)
        while self._await_command(min(self._clock() + SAMPLE_EVERY, self._next_inventory)):
            self._look()

    def _watch(self) -> None:
        while not self._closed:
            if self._news or self._clock() >= self._observe_at:
                self._observe()
            self._stir.wait(max(0.0, self._observe_at - self._clock()))
            self._stir.clear()

    def _await_command(self, until: float) -> bool:
        """Carries out what comes first until then, and what is there by then; False when it was closed."""
        try:
            command = self._inbox.get(timeout=max(0.0, until - self._clock()))
        except queue.Empty:
            return not self._closed
        if command is None:
            return False
        self._commands([command])
        return not self._closed

    def _commands(self, commands: list[Command]) -> None:
        """Carry out these commands and whatever else waits."""
        while True:
            try:
                command = self._inbox.get_nowait()
            except queue.Empty:
                break
            if command is None:
                return  # closed: what was committed is told again by whoever comes next
            commands.append(command)
        for merged in merge(commands):
            self._carry_out(merged)

    def _carry_out(self, command: Command) -> None:
        try:
            if isinstance(command, Start):
                replies = self.engine.start(command.attempts)
                self.mailbox.put(Seen(self.cluster, replies=replies))
                if any(reply.state is StartState.REFUSED for reply in replies):
                    self._wake()  # else nothing follows from it
            elif isinstance(command, Stop):
                self.engine.stop(command.attempt_ids, command.grace)
            elif isinstance(command, Checkpoint):
                save(self.engine, command.attempt_ids)
            elif isinstance(command, Tell):
                give(self.engine, command)
            elif isinstance(command, Fence):
                self._report(Seen(self.cluster, fences=self.engine.fence(command.attempt_ids)))
            elif isinstance(command, ReadEnd):
                self._report(Seen(self.cluster, ends=tuple(readings.ends_of(self.engine, command.members))))
            elif isinstance(command, ReadResult):
                found = tuple(readings.results_of(self.engine, command.files))
                self._report(Seen(self.cluster, results=found))
            elif isinstance(command, Probe):
                self._report(Seen(self.cluster, probes=self.engine.probe_release(command.attempt_ids)))
            else:
                self.engine.forget(command.attempt_ids)
        except Exception as error:
            # an engine's call: whatever went wrong in it must not end this cluster's thread
            if not isinstance(error, EngineUnavailable):
                log.exception("engine-call-failed", cluster=self.cluster, command=type(command).__name__)
            self._unreachable(error)

    def _observe(self) -> None:
        self._news, self._observe_at = False, self._clock() + self.poll
        try:
            if not self._described:
                self._report(Seen(self.cluster, capabilities=self.engine.capabilities()))
                self._described = True
            cursor = None if self._afresh else self._cursor
            self._afresh = False
            observation = self.engine.observe(cursor)
        except Exception as error:
            # an engine's call, as above
            if not isinstance(error, EngineUnavailable):
                log.exception("engine-observe-failed", cluster=self.cluster)
            self._unreachable(error)
            return
        self._cursor = observation.cursor
        self._failing = False
        probes = readings.probes_of(self.engine, observation.gone)
        self.mailbox.put(Seen(self.cluster, observation=observation, probes=probes))
        if observation.members or observation.complete:
            self._wake()

    def _inventory(self) -> None:
        try:
            nodes = self.engine.inventory()
        except Exception as error:
            # an engine's call, as above
            self._next_inventory = self._clock() + self.poll
            self._unreachable(error)
            return
        self._next_inventory = self._clock() + INVENTORY_EVERY
        self._report(Seen(self.cluster, inventory=nodes))

    def _sample(self) -> None:
        """What can't be measured now is missing, which says nothing about the cluster."""
        self._next_sample = self._clock() + SAMPLE_EVERY
        try:
            samples = self.engine.sample()
        except Exception:
            # an engine's call, as above
            log.warning("engine-not-sampled", cluster=self.cluster, exc_info=True)
            return
        self._report(Seen(self.cluster, samples=samples))

    def _unreachable(self, error: BaseException) -> None:
        self._afresh = True
        if not self._failing:
            log.warning("cluster-unreachable", cluster=self.cluster, error=str(error))
        self._failing = True
        self._report(Seen(self.cluster, failed=str(error)))

    def _report(self, seen: Seen) -> None:
        self.mailbox.put(seen)
        self._wake()


#: Commands that carry nothing but what they are about, in the order in which they are carried out.
_MERGED: dict[type, str] = {
    Checkpoint: "attempt_ids", Tell: "notes",
    Fence: "attempt_ids", ReadEnd: "members", ReadResult: "files", Probe: "attempt_ids",
    Forget: "attempt_ids",
}  # fmt: skip


def merge(commands: Iterable[Command]) -> Iterator[Command]:
    """The same commands with those of a kind in one, each attempt once, `BATCH` attempts at most.

    Starts come first, then stops, what is to be saved, fences, ends, probes and what may be forgotten. What
    is stopped was told before to save its work; of different attempts the order does not matter.
    """
    starts: dict[str, AttemptStart] = {}
    stops: dict[int, dict[str, None]] = {}
    rest: dict[type, dict[Any, None]] = {kind: {} for kind in _MERGED}
    for command in commands:
        if isinstance(command, Start):
            starts.update((attempt.attempt_id, attempt) for attempt in command.attempts)
        elif isinstance(command, Stop):
            stops.setdefault(command.grace, {}).update(dict.fromkeys(command.attempt_ids))
        else:
            kind = type(command)
            rest[kind].update(dict.fromkeys(getattr(command, _MERGED[kind])))
    for wanted in _batches(starts.values()):
        yield Start(wanted)
    for grace, attempts in stops.items():
        for batch in _batches(attempts):
            yield Stop(batch, grace)
    for kind, items in rest.items():
        for some in _batches(items):
            yield kind(some)


def _batches(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    rest = iter(items)
    while batch := tuple(islice(rest, BATCH)):
        yield batch


def drain(agents: Sequence[Agent]) -> list[Seen]:
    """Everything the agents saw, in their own order, clusters by name."""
    found: list[Seen] = []
    for agent in sorted(agents, key=lambda a: a.cluster):
        while not agent.mailbox.empty():  # nobody else takes from it
            found.append(agent.mailbox.get_nowait())
    return found
