"""The engine port: what Steelyard asks of whatever runs the work of one cluster.

One contract test suite (tests/contract/engines) runs against every engine. Rules that all keep:

- `start` and `stop` are idempotent by attempt id, also when the reply was lost after the act.
- Absent never means ended: a member that is not in an observation is unknown, however complete it is.
- Everything made outside carries an ownership mark (install id, attempt id). What is not ours is
  reported as foreign and never touched.
- What an engine can't do or see it declares in its capabilities; it does not raise for it.
- A call that can't reach the cluster raises EngineUnavailable; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from steelyard.devices.step import Step
from steelyard.model.errors import UnavailableError
from steelyard.model.execution import Execution
from steelyard.model.resources import DeviceClass, FoundNode


class EngineUnavailable(UnavailableError):
    """The cluster can't be reached or did not answer in time. Whether the act happened is unknown."""


class MemberPhase(StrEnum):
    """What the engine sees of a member."""

    PENDING = "pending"  # accepted, no stage reached yet
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Signal(StrEnum):
    """What a member can be told."""

    CHECKPOINT = "checkpoint"
    TERM = "term"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this engine can do and see; anything it can't is `unknown`, never assumed."""

    kind: str
    simulated: bool
    signals: frozenset[Signal]
    can_exec: bool
    can_update: bool
    sees_device_processes: bool  # the live probe looks at the devices themselves
    sees_utilisation: bool
    isolation: tuple[str, ...]  # what is kept apart between projects: files, signals, …
    limits: str  # cgroup-v2 | cgroup-v1 | rlimit | none
    protocol: int = 1
    problem: str | None = None  # code of what keeps it from starting anything; what runs goes on
    problem_params: tuple[tuple[str, str], ...] = ()
    isolation_mode: str = "none"
    not_enforced: tuple[str, ...] = ()  # what could be kept apart and is not
    isolation_text: str = ""  # why it is not more
    isolation_modes: tuple[tuple[str, str | None], ...] = ()  # mode → why not, None where it can be had


@dataclass(frozen=True, slots=True)
class DeviceBinding:
    """A device (or a slot of a flavor) that a member was given."""

    uid: str | None
    device_class: DeviceClass
    family: str
    model: str
    quantity: int
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class MemberStart:
    """Everything the engine needs to run one member. Secrets never stand in `command`."""

    member_id: str  # mb_…
    role: str
    index: int
    node: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    devices: tuple[DeviceBinding, ...]
    cpu: int  # milli-cores
    memory: int  # MiB
    image: str | None = None
    working_directory: str | None = None  # None: the engine makes a work folder of its own
    port: bool = False
    requires: tuple[str, ...] = ()
    tty: bool = False  # its standard streams are a terminal that may be attached to
    venv: str | None = None  # a Python environment whose programs come first
    pull: str = "never"  # never | missing: whether an image that is not there is fetched
    expect: dict[str, str] = field(default_factory=dict)  # simulated engines only


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """One attempt: all members start together."""

    attempt_id: str  # at_…
    workload_id: str
    name: str
    number: int
    namespace: str
    project: str
    install_id: str
    members: tuple[MemberStart, ...]
    time_limit: int | None
    grace: int
    artifacts: tuple[str, ...] = ()
    work_limit: int | None = None  # MiB in each member's work folder; None: as the cluster has it
    resume_from: str | None = None  # the work folder's attempt that this one goes on from
    service: bool = False
    probe_path: str | None = None


class StartState(StrEnum):
    """What `start` says at once; the rest is seen by `observe`."""

    ACCEPTED = "accepted"
    ALREADY = "already"  # known by its attempt id: nothing was done twice
    REFUSED = "refused"  # never will be: `code` says why


@dataclass(frozen=True, slots=True)
class StartReply:
    """Answer to one attempt's start."""

    attempt_id: str
    state: StartState
    code: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a member was really started in, and what that does not enforce for it."""

    mode: str
    not_enforced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemberObservation:
    """A member as the engine sees it now. Times are µs of the engine's clock, None if not reached."""

    attempt_id: str
    member_id: str
    phase: MemberPhase
    sub_stage: str | None = None  # provision | image | environment | launch
    ready: bool = False
    started_at: int | None = None
    ready_at: int | None = None
    ended_at: int | None = None
    exit_code: int | None = None  # None with phase ended: nobody wrote one; it is unknown, never 0
    exit_signal: int | None = None
    failure: str | None = None  # code of a failure the engine itself saw (image-not-found, oom-killed, …)
    failure_stage: str | None = None
    failure_text: str | None = None
    stop_requested: bool = False
    timed_out: bool = False
    endpoint: str | None = None
    isolation: Isolation | None = None  # None: not started yet, or the engine does not tell
    limits: str | None = None  # what bounds it: cgroup-v2 | cgroup-v1 | rlimit; None as above
    saved_at: int | None = None  # up to when its work is saved; None: the engine does not know


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something on the cluster that is not ours: shown, never touched."""

    kind: str
    id: str
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What `observe` saw. `complete`: every member the engine knows is in it; else only what changed.

    `sequence` grows with every observation of one engine life; an older one must not undo a newer one.
    """

    cluster: str
    as_of: int
    complete: bool
    cursor: str
    sequence: int
    members: tuple[MemberObservation, ...]
    foreign: tuple[Foreign, ...] = ()
    gone: tuple[str, ...] = ()  # attempts that ended and seem to have left nothing: worth a probe at once


@dataclass(frozen=True, slots=True)
class ReleaseProbe:
    """What the live probe found of one attempt. `free` None: the engine can't tell (not-observable)."""

    attempt_id: str
    at: int
    free: bool | None
    checks: tuple[tuple[str, str], ...]  # (what was looked at, what was seen), e.g. ("process-group", "gone")
    residue: tuple[str, ...] = ()
    numbers: tuple[tuple[str, int], ...] = ()  # how many of it were seen, by check
    cleared: tuple[tuple[str, int], ...] = ()  # ended and removed since the end: processes, files, bytes …


@dataclass(frozen=True, slots=True)
class Fenced:
    """What `fence` did of one attempt, counted by kind, and what it could not end or take away."""

    attempt_id: str
    done: tuple[tuple[str, int], ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a member left as its result. `sha256` None: not known yet; `there`: it was not removed."""

    path: str
    bytes: int
    sha256: str | None
    there: bool


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The results of a member as of `at` (µs UTC; None: its manifest is not made yet)."""

    at: int | None
    files: tuple[Artifact, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """Measured use. Missing is None, never 0."""

    member_id: str
    at: int
    cpu_micros: int | None
    memory_mib: int | None
    device_permille: int | None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a member's log. `next_offset` is where to read on; `end`: nothing more will come."""

    data: bytes
    next_offset: int
    end: bool


class ExecStream(Protocol):
    """A command that was started beside a member: bytes by channel (`model.execution.Channel`).

    Calls may block; one thread reads while another one writes, and any may close.
    """

    def read(self) -> tuple[int, bytes] | None:
        """The next piece, None when nothing more will come. STATUS is the last one, if it is known."""
        ...

    def write(self, channel: int, data: bytes) -> None:
        """Bytes of its input or of a new window size. Lost where it has ended."""
        ...

    def close(self) -> None:
        """Let go: what still runs is ended."""
        ...


@runtime_checkable
class Herald(Protocol):
    """An engine that can tell when an observation should not wait for the next poll. Its `observe`, and the
    `probe_release` that goes with it, are called from another thread than everything else."""

    def on_news(self, tell: Callable[[], None]) -> None:
        """`tell` is called, from any thread, whenever members may have ended. A call may be lost: polling
        goes on. Ends with the engine's `close`."""
        ...


@runtime_checkable
class Teller(Protocol):
    """An engine that can tell running members of the others."""

    def tell(self, notes: Sequence[tuple[str, str, str]]) -> None:
        """(attempt, member, JSON): what the member finds from now on. One that is gone is passed over."""
        ...


class Engine(Protocol):
    """One cluster. Calls may block; they are made from that cluster's own thread."""

    cluster: str

    def capabilities(self) -> Capabilities:
        """What this engine can do and see."""
        ...

    def inventory(self) -> tuple[FoundNode, ...]:
        """Every node and device there is now, each with a reason where it is not available."""
        ...

    def device_steps(self) -> tuple[Step, ...]:
        """How far the finding of each family of accelerators came, for whoever asks what is wrong; none where
        the engine finds them otherwise. May be called from any thread."""
        ...

    def prepare(self, attempt: AttemptStart) -> StartReply:
        """Provision, image and environment ahead of the start; engines without that answer accepted."""
        ...

    def start(self, attempts: Sequence[AttemptStart]) -> tuple[StartReply, ...]:
        """Start all members of each attempt. Idempotent by attempt id."""
        ...

    def signal(self, attempt_id: str, signal: Signal) -> None:
        """Tell all members of an attempt. Unknown or ended attempts: nothing happens."""
        ...

    def stop(self, attempt_ids: Sequence[str], grace: int) -> None:
        """TERM, and KILL after `grace` µs. Idempotent; returns at once."""
        ...

    def update(self, attempt_id: str, replicas: int, revision: str | None) -> StartReply:
        """Change a service's replicas or revision where `can_update`; else answers refused."""
        ...

    def observe(self, cursor: str | None) -> Observation:
        """What changed since `cursor`; None or a cursor that is not known: everything."""
        ...

    def forget(self, attempt_ids: Sequence[str]) -> None:
        """The control plane has booked these ends durably; the engine may drop its working notes."""
        ...

    def probe_release(self, attempt_ids: Sequence[str]) -> tuple[ReleaseProbe, ...]:
        """Look at the machine, not at notes: is everything of the attempt gone?"""
        ...

    def fence(self, attempt_ids: Sequence[str]) -> tuple[Fenced, ...]:
        """End and take away what these attempts left, within their ownership mark; touches nothing else."""
        ...

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """Bytes of stdout and stderr as written; a negative offset counts from the end."""
        ...

    def artifacts(self, attempt_id: str, member_id: str) -> Artifacts | None:
        """What a member left as its result, with digests; None where nothing is known of any."""
        ...

    def read_artifact(self, attempt_id: str, member_id: str, path: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a file among a member's results; None where it is not there or no plain
        file. Nothing on the way to it is followed."""
        ...

    def exec(self, member_id: str, execution: Execution) -> ExecStream:
        """Run a command beside a member that runs, in its surroundings, where `can_exec`. It ends with its
        member and with its stream. Raises UnavailableError with a code where it can't."""
        ...

    def attach(self, member_id: str) -> ExecStream:
        """The terminal of a member's own program. Letting go of it ends nothing. Raises UnavailableError
        `no-terminal` where it has none, `member-not-running`."""
        ...

    def sample(self) -> tuple[Sample, ...]:
        """Measured use of the running members."""
        ...

    def endpoint(self, member_id: str) -> str | None:
        """host:port at which a service member answers, None while it has none."""
        ...

    def ensure_namespace(self, namespace: str, project: str) -> None:
        """Make what the cluster needs of a namespace (user id, folder, object). Idempotent."""
        ...

    def close(self) -> None:
        """Let go of connections. Running work goes on."""
        ...
