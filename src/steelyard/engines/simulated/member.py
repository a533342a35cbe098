"""A simulated member: what the engine notes about it and the steps that lie before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.engines.port import MemberObservation, MemberPhase
from steelyard.engines.simulated.behaviour import Behaviour
from steelyard.engines.simulated.faults import STAGE_FAULTS, Suffering
from steelyard.engines.simulated.records import MemberRecord
from steelyard.engines.simulated.spec import Timing

STAGES = ("provision", "image", "environment", "launch")
RUN, READY, LIMIT, END, FREED = "run", "ready", "limit", "end", "freed"

Step = tuple[int, str]


@dataclass(slots=True)
class Ending:
    """How a member is going to end, unless something comes first."""

    exit_code: int | None = None
    exit_signal: int | None = None
    failure: str | None = None
    stage: str | None = None
    text: str | None = None


@dataclass(slots=True)
class Attempt:
    """The members of one attempt, or why it was refused."""

    id: str
    name: str
    number: int
    install_id: str
    grace: int
    time_limit: int | None
    members: list[Member] = field(default_factory=list)
    refused: tuple[str, str] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing of it can change any more."""
        return all(member.phase is MemberPhase.ENDED for member in self.members)


@dataclass(slots=True, eq=False)
class Member:
    """Mutable notes. `steps` are what comes, the next one last; `marks` are what came, for the log."""

    id: str
    attempt: Attempt
    record: MemberRecord
    behaviour: Behaviour
    steps: list[Step]
    ending: Ending
    stuck: Suffering | None = None
    triggers: tuple[Suffering, ...] = ()
    generation: int = 0
    version: int = 0
    shown: MemberObservation | None = None  # what observers see, where that is not what is noted
    phase: MemberPhase = MemberPhase.STARTING
    stage: str | None = "provision"
    started_at: int | None = None
    ready_at: int | None = None
    ended_at: int | None = None
    stop_requested: bool = False
    timed_out: bool = False
    kill_at: int | None = None
    checkpoint: int | None = None  # µs of running that its last checkpoint saves
    dropped: bool = False  # forgotten: nobody observes it any more
    hidden_at: int | None = None  # its node is lost since then: nobody sees what becomes of it
    orders: list[int | None] = field(default_factory=list)  # graces of what it could not be told meanwhile
    marks: list[tuple[int, str]] = field(default_factory=list)

    def replan(self, steps: list[Step]) -> None:
        """Other steps lie before it; the caller schedules it anew."""
        self.steps = steps
        self.generation += 1

    def observation(self) -> MemberObservation:
        """What an observer is told."""
        if self.hidden_at is not None:
            return MemberObservation(
                self.attempt.id,
                self.id,
                MemberPhase.UNKNOWN,
                started_at=self.started_at,
                stop_requested=self.stop_requested,
            )
        ended = self.phase is MemberPhase.ENDED
        ending = self.ending
        return MemberObservation(
            self.attempt.id,
            self.id,
            self.phase,
            self.stage,
            self.ready_at is not None and not ended,
            self.started_at,
            self.ready_at,
            self.ended_at,
            ending.exit_code if ended else None,
            ending.exit_signal if ended else None,
            ending.failure if ended else None,
            ending.stage if ended else None,
            ending.text if ended else None,
            self.stop_requested,
            self.timed_out,
            saved_at=self._saved_at(),
        )

    def _saved_at(self) -> int | None:
        """When what its last checkpoint saves was done; None before the first."""
        if self.started_at is None or self.checkpoint is None:
            return None
        return self.started_at + max(0, self.checkpoint - self.record.progress)


def opening(at: int, timing: Timing, fault: Suffering | None) -> list[Step]:
    """The steps from acceptance to `run`, or to the end at the stage where the fault strikes; last first."""
    steps: list[Step] = []
    failing = STAGE_FAULTS[fault.fault][0] if fault is not None else None
    durations = (timing.provision, timing.image, timing.environment, timing.launch)
    for stage, duration in zip(STAGES, durations, strict=True):
        strikes = fault is not None and stage == failing
        if stage != "provision" and (duration or strikes):
            steps.append((at, stage))
        if fault is not None and strikes:
            steps.append((at + (duration if fault.after is None else fault.after), END))
            break
        at += duration
    else:
        steps.append((at, RUN))
    steps.reverse()
    return steps
