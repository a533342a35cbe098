"""How a simulated member lives: from its opening stages through running to its end and its release."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.engines.port import MemberPhase
from steelyard.engines.simulated.faults import Suffering
from steelyard.engines.simulated.feed import Feed
from steelyard.engines.simulated.member import (
    END,
    FREED,
    LIMIT,
    READY,
    RUN,
    Ending,
    Member,
    Step,
)
from steelyard.engines.simulated.spec import Timing
from steelyard.engines.simulated.timeline import Timeline
from steelyard.engines.simulated.world import World

_TERM, _KILL = 15, 9


class Life:
    """Steps of members. `on_running` is told of members that meet a fault where they run."""

    def __init__(
        self,
        world: World,
        timeline: Timeline,
        feed: Feed,
        on_running: Callable[[Member, Suffering, int], None],
    ) -> None:
        self._world = world
        self._timeline = timeline
        self._feed = feed
        self._on_running = on_running
        self.timing = Timing()

    def step(self, member: Member, at: int) -> int | None:
        """Takes the member's next step; returns when the one after it is due."""
        _, what = member.steps.pop()
        if what == RUN:
            self._run(member, at)
        elif what == READY:
            member.ready_at = at
            member.marks.append((at, READY))
            self._touch(member, at)
        elif what == END:
            self._end(member, at)
        elif what == FREED:
            self._world.leave(member.id)
        elif what == LIMIT:
            member.timed_out = True
            member.marks.append((at, "time-limit"))
            self.terminate(member, at, member.attempt.grace)
            return None
        else:
            member.stage = what
            member.marks.append((at, what))
            self._touch(member, at)
        return member.steps[-1][0] if member.steps else None

    def terminate(self, member: Member, at: int, grace: int | None) -> None:
        """TERM, and KILL `grace` µs later (None: never). Idempotent: an end that comes sooner stays."""
        if member.phase is MemberPhase.ENDED and member.hidden_at is None:
            return
        if not member.stop_requested:
            member.stop_requested = True
            member.marks.append((at, "term"))
            self._touch(member, at, always=True)
        if member.hidden_at is not None:
            member.orders.append(grace)
            return
        options: list[tuple[int, Ending]] = []
        if member.phase is not MemberPhase.RUNNING:
            options.append((at + self.timing.stop, Ending(exit_signal=_TERM, stage=member.stage)))
        elif not member.behaviour.ignore_term:
            code = member.behaviour.term_exit
            signal = _TERM if code is None else None
            options.append((at + self.timing.stop, Ending(exit_code=code, exit_signal=signal)))
        if grace is not None:
            options.append((at + grace, Ending(exit_signal=_KILL)))
        if options:
            self._end_sooner(member, options)

    def kill(self, member: Member, at: int, ending: Ending | None = None) -> None:
        """The member ends at once."""
        if member.phase is MemberPhase.ENDED:
            return
        if member.hidden_at is not None and ending is None:
            member.orders.append(0)
            return
        self._end_sooner(member, [(at, ending or Ending(exit_signal=_KILL))])

    def checkpoint(self, member: Member, at: int) -> None:
        """The member saves how far it is, if it is one that can."""
        if member.phase is MemberPhase.RUNNING and member.behaviour.checkpoint is not None:
            member.checkpoint = member.record.progress + at - (member.started_at or at)
            member.marks.append((at, "checkpoint"))
            self._touch(member, at)

    def hide(self, member: Member, at: int) -> bool:
        """Its node can't be reached any more. False: it had ended, or can't be seen already."""
        if member.phase is MemberPhase.ENDED or member.hidden_at is not None:
            return False
        member.hidden_at = at
        self._touch(member, at, always=True)
        return True

    def reveal(self, member: Member, at: int) -> None:
        """Its node is back: what became of it is seen, and it is told what it could not be told."""
        if member.hidden_at is None:
            return
        member.hidden_at = None
        orders, member.orders = member.orders, []
        for grace in orders:
            self.terminate(member, at, grace)
        self._touch(member, at)

    def lose(self, member: Member, at: int) -> None:
        """Its node is gone, and it with it; whatever it did meanwhile is not known."""
        if member.phase is MemberPhase.ENDED and member.hidden_at is None:
            return
        stage = member.stage or "running"
        member.hidden_at = None
        member.phase, member.stage, member.ended_at = MemberPhase.ENDED, None, at
        member.ending = Ending(failure="node-lost", stage=stage, text="the node is gone")
        member.replan([])
        self._keep_progress(member)
        self._touch(member, at)

    def release(self, member: Member, at: int) -> None:
        """What was stuck comes free, or won't be stuck."""
        member.stuck = None
        if member.phase is MemberPhase.ENDED:
            member.replan([(at, FREED)])
            self._timeline.schedule(at, member)

    def _run(self, member: Member, at: int) -> None:
        behaviour = member.behaviour
        member.phase, member.stage, member.started_at = MemberPhase.RUNNING, None, at
        member.marks.append((at, RUN))
        member.ending = _own_ending(member)
        natural = self._natural_end(member)
        limit = member.attempt.time_limit
        steps: list[Step] = []
        if limit is not None and (natural is None or at + limit < natural):
            steps.append((at + limit, LIMIT))
        elif natural is not None:
            steps.append((natural, END))
        if behaviour.ready_after == 0:
            member.ready_at = at
        elif not steps or at + behaviour.ready_after <= steps[0][0]:
            steps.append((at + behaviour.ready_after, READY))
        member.steps = steps
        self._touch(member, at)
        for suffering in member.triggers:
            self._on_running(member, suffering, at)

    def _end(self, member: Member, at: int) -> None:
        member.phase, member.stage, member.ended_at = MemberPhase.ENDED, None, at
        self._world.die(member.id)
        self._keep_progress(member)
        stuck = member.stuck
        if stuck is None:
            member.steps = [(at + self.timing.release, FREED)]
        else:
            member.steps = [] if stuck.duration is None else [(at + stuck.duration, FREED)]
        self._touch(member, at)

    def _end_sooner(self, member: Member, options: list[tuple[int, Ending]]) -> None:
        """Plans the earliest of the options and of the end that was planned or would come by itself."""
        for due, what in member.steps:
            if what == END:
                options.insert(0, (due, member.ending))
        natural = self._natural_end(member) if member.phase is MemberPhase.RUNNING else None
        if natural is not None:
            options.append((natural, _own_ending(member)))
        due, member.ending = min(options, key=lambda option: option[0])
        steps = [step for step in member.steps if step[1] == READY and step[0] < due]
        member.replan([(due, END), *steps])
        self._timeline.schedule(member.steps[-1][0], member)

    @staticmethod
    def _natural_end(member: Member) -> int | None:
        run = member.behaviour.run
        if run is None or member.started_at is None:
            return None
        return member.started_at + max(0, run - member.record.progress)

    @staticmethod
    def _keep_progress(member: Member) -> None:
        interval = member.behaviour.checkpoint
        if interval is None or member.started_at is None or member.ended_at is None:
            return
        ran = member.record.progress + member.ended_at - member.started_at
        member.checkpoint = max(member.checkpoint or member.record.progress, ran // interval * interval)

    def _touch(self, member: Member, at: int, *, always: bool = False) -> None:
        if always or member.hidden_at is None:
            self._feed.touch(member, at)


def _own_ending(member: Member) -> Ending:
    behaviour = member.behaviour
    if behaviour.oom:
        return Ending(exit_signal=_KILL, failure="oom-killed", stage="running", text="out of memory")
    return Ending(behaviour.exit_code, behaviour.exit_signal)
