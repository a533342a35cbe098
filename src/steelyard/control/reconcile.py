"""The reconcile loop: what engines see against what is booked. Level-triggered, idempotent.

Absent never means ended; an older observation never undoes a newer one. A crash between a commit and
its act is mended here: what should have been started or stopped is told again.
"""

from __future__ import annotations

from dataclasses import replace

from steelyard.control.attempts import isolation_of
from steelyard.control.commands import (
    is_term_owed,
    send_stop,
    start_attempt,
    stop_attempt,
    term_due,
)
from steelyard.control.context import Context, step
from steelyard.control.growing import failed_to_join, joining, let_go, tell_members
from steelyard.control.leaving import follow, tell_again
from steelyard.control.release import begin_release
from steelyard.control.waiting import Waiting
from steelyard.engines.port import MemberObservation, MemberPhase, Observation, StartReply, StartState
from steelyard.model.errors import InvalidError
from steelyard.model.ids import id_time, parse, render
from steelyard.model.lifecycle import RULES, Outcome, Phase
from steelyard.model.units import SECOND
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.services.verdicts import withdrawn_json
from steelyard.store import tables as t
from steelyard.store.unit import Unit

#: A start or stop of which nothing is seen is told again after this time.
TELL_AGAIN = 2 * SECOND
#: A member that complete observations do not know for this long is lost.
LOST_AFTER = 30 * SECOND
#: A sub-stage is written on its own only when it lasts; else the next transition carries it.
SHOW_STAGE_AFTER = SECOND // 2
#: Ends that speak of the place: the next attempt must not meet it again.
LOSSES = frozenset({"node-lost", "device-lost", "lost"})


class Reconciler:
    """Keeps what was seen of each member and moves attempts along."""

    def __init__(self, context: Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._sequences: dict[str, int] = {}
        self._touched: dict[int, LiveAttempt] = {}
        self._absent: dict[int, int] = {}  # attempt id → since when complete observations lack it

    def observe(self, observation: Observation) -> None:
        """Take in what an engine saw."""
        last = self._sequences.get(observation.cluster, -1)
        if observation.sequence <= last:
            return  # late or doubled: a newer one was taken in already
        self._sequences[observation.cluster] = observation.sequence
        known: set[int] = set()
        for seen in observation.members:
            attempt = self._attempt(seen.attempt_id)
            member = None if attempt is None else _member(attempt, seen.member_id)
            if attempt is None or member is None:
                continue
            known.add(member.id if member.apart else attempt.attempt_id)
            if member.seen is None or member.seen.phase is not MemberPhase.ENDED:
                member.seen = seen
            self._touched[attempt.attempt_id] = attempt
        if observation.complete:
            self._note_absent(observation, known)

    def forget_cluster(self, cluster: str) -> None:
        """A new engine life: its sequence begins anew."""
        self._sequences.pop(cluster, None)

    def reply(self, reply: StartReply) -> None:
        """A start that never will be is an end."""
        attempt = self._attempt(reply.attempt_id)
        if attempt is None or reply.state is not StartState.REFUSED:
            return
        for member in attempt.part_of(parse("attempt", reply.attempt_id)):
            member.seen = MemberObservation(
                reply.attempt_id,
                member.text_id,
                MemberPhase.ENDED,
                ended_at=self._context.store.now(),
                failure=reply.code or "start-refused",
                failure_stage="launch",
                failure_text=reply.text,
            )
        self._touched[attempt.attempt_id] = attempt

    def _attempt(self, text: str) -> LiveAttempt | None:
        state = self._context.state
        try:
            number = parse("attempt", text)
        except InvalidError:
            return None
        return state.attempts.get(number) or state.parts.get(number)

    def _note_absent(self, observation: Observation, known: set[int]) -> None:
        for attempt in self._context.state.in_phase(Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            if attempt.phase is Phase.STARTING and not self._from_backup(attempt):
                continue
            for part, clusters in attempt.parts().items():
                if part in known or observation.cluster not in clusters:
                    self._absent.pop(part, None)
                else:
                    since = self._absent.setdefault(part, observation.as_of)
                    if observation.as_of - since >= LOST_AFTER:
                        self._lose(attempt, part, observation.as_of)

    def _from_backup(self, attempt: LiveAttempt) -> bool:
        """Made before a backup that was restored meanwhile: it may have started, run and ended since. What
        the engine does not know of, or does not start anew, is lost, its end unknown."""
        return id_time(attempt.attempt_id) < self._context.restored_at

    def _lose(self, attempt: LiveAttempt, part: int, at: int) -> None:
        for member in attempt.part_of(part):
            if member.seen is None or member.seen.phase is not MemberPhase.ENDED:
                text = render("attempt", part)
                member.seen = MemberObservation(
                    text,
                    member.text_id,
                    MemberPhase.ENDED,
                    ended_at=at,
                    failure="lost",
                    failure_stage="infrastructure",
                )
        self._touched[attempt.attempt_id] = attempt

    # --- moving attempts ---------------------------------------------------------------------------
    def run(self, limit: int = 200) -> bool:
        """Book what was seen, at most `limit` attempts a unit, which is carried over; True when more is
        waiting."""
        context, now = self._context, self._context.now()
        unit = context.unit()
        moved = 0
        for attempt_id in sorted(self._touched):
            attempt = self._touched.pop(attempt_id)
            if attempt.attempt_id in context.state.attempts and self._move(unit, attempt, now):
                moved += 1
                if moved >= limit:
                    break
        context.carry(unit)
        return bool(self._touched)

    def _move(self, unit: Unit, attempt: LiveAttempt, now: int) -> bool:
        if attempt.phase not in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            return False
        if attempt.leaves:
            follow(self._context, unit, attempt)
        if attempt.phase is Phase.RUNNING and self._follow_joining(unit, attempt, now):
            return True
        staying = attempt.staying
        seen = [member.seen for member in staying]
        ended = [s for s in seen if s is not None and s.phase is MemberPhase.ENDED]
        if any(s.failure in LOSSES for s in ended):
            for cluster in attempt.clusters & self._context.agents.keys():
                self._context.agents[cluster].look_at_inventory()
        if len(ended) == len(staying):
            if any(member.leaving_at is not None and not _has_ended(member) for member in attempt.members):
                return False  # it ends with whoever leaves it now
            begin_release(self._context, unit, attempt, now, self._started(attempt, now))
            return True
        bad = [s for s in ended if s.failure is not None or s.exit_code != 0 or s.exit_signal is not None]
        if bad and attempt.phase is not Phase.STOPPING:
            detail: dict[str, object] = {"member": bad[0].member_id, "failure": bad[0].failure}
            stop_attempt(self._context, unit, attempt, now, "member-failed", "workload.stop", detail)
            return True
        alive = sum(1 for s in seen if s is not None and s.phase in (MemberPhase.RUNNING, MemberPhase.ENDED))
        if attempt.phase is Phase.STARTING and alive == len(staying):
            self._run(unit, attempt, now)
            return True
        return self._note_ready(unit, attempt, now) or self._note_stage(unit, attempt, now)

    def _follow_joining(self, unit: Unit, attempt: LiveAttempt, now: int) -> bool:
        """Those that joined come to run, or are let go; True in the second case."""
        for member in joining(attempt):
            if member.seen is not None and member.seen.phase is MemberPhase.RUNNING:
                self._member_runs(unit, member)
        failed = failed_to_join(attempt, now)
        if failed:
            let_go(self._context, unit, attempt, failed, now)
            self._touched[attempt.attempt_id] = attempt  # its end is followed in the next pass
        return bool(failed)

    def _started(self, attempt: LiveAttempt, now: int) -> int | None:
        """When the last member started, on the engine's clock, within what the ledger allows."""
        staying = attempt.staying
        times = [m.seen.started_at for m in staying if m.seen is not None and m.seen.started_at is not None]
        if len(times) < len(staying):
            return None
        return min(max(max(times), attempt.times["placed"] or 0, attempt.left_at), now)

    def _run(self, unit: Unit, attempt: LiveAttempt, now: int) -> None:
        started = self._started(attempt, now) or now
        ready = now if all(m.seen is not None and m.seen.ready for m in attempt.staying) else None
        attempt.times["started"] = started
        attempt.times["ready"] = ready
        for member in attempt.staying:
            self._member_runs(unit, member)
        before, stage = attempt.phase, attempt.sub_stage
        values = {"started": started, "ready": ready, "sub_stage": None}
        carrier = self._context.move(unit, attempt, Phase.RUNNING, values)
        attempt.sub_stage = None
        self._context.leaf(
            unit, attempt, carrier, "workload.start", (step(before, "running", started, stage),),
            isolation_of(attempt),
        )  # fmt: skip

    def _member_runs(self, unit: Unit, member: LiveMember) -> None:
        seen = member.seen
        assert seen is not None
        member.phase, member.started_at, member.endpoint = "running", seen.started_at, seen.endpoint
        unit.update(
            t.member, {"id": member.id}, phase="running", started_at=seen.started_at,
            endpoint=seen.endpoint, limits=seen.limits,
        )  # fmt: skip

    def _note_ready(self, unit: Unit, attempt: LiveAttempt, now: int) -> bool:
        ready = all(m.seen is not None and m.seen.ready for m in attempt.staying)
        if attempt.phase is not Phase.RUNNING or not ready or attempt.times.get("ready") is not None:
            return False
        attempt.times["ready"] = now
        for member in attempt.staying:
            self._member_runs(unit, member)
        carrier = self._context.move(unit, attempt, Phase.RUNNING, {"ready": now})
        self._context.leaf(unit, attempt, carrier, "workload.ready", ())
        return True

    def _note_stage(self, unit: Unit, attempt: LiveAttempt, now: int) -> bool:
        stages = [m.seen.sub_stage for m in attempt.members if m.seen is not None and m.seen.sub_stage]
        stage = stages[0] if stages else None
        waited = now - (attempt.times["placed"] or now)
        if (
            attempt.phase is not Phase.STARTING
            or stage in (None, attempt.sub_stage)
            or waited < SHOW_STAGE_AFTER
        ):
            return False
        attempt.sub_stage = stage
        unit.update(
            t.attempt, {"id": attempt.attempt_id, "version": attempt.attempt_version}, sub_stage=stage
        )
        self._context.moved.add(attempt.workload_id)  # a unit changes a row once
        return True

    # --- timers --------------------------------------------------------------------------------------
    def timers(self) -> None:
        """Cancels that were asked for, phases that lasted too long, commands that got lost."""
        context, now = self._context, self._context.now()
        phases = (Phase.RESERVED, Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
        unit: Unit | None = None
        for attempt in context.state.in_phase(*phases):
            why = _why_stop(attempt, now)
            if why is not None:
                unit = unit or context.unit()
                if attempt.phase is Phase.RESERVED:
                    self._leave(unit, attempt, now)
                else:
                    stop_attempt(context, unit, attempt, now, why[0], "workload.stop", why[1])
            elif attempt.workload_id not in context.moved and (failed := failed_to_join(attempt, now)):
                unit = unit or context.unit()
                let_go(context, unit, attempt, failed, now)
            if attempt.workload_id not in context.moved:  # what is not written yet nobody is told of
                self._tell_again(attempt, now)
        if unit is not None:
            context.commit(unit, now)

    def _leave(self, unit: Unit, attempt: LiveAttempt, now: int) -> None:
        """Cancelled before it was placed: it leaves, and the next cycle drops its hold."""
        context = self._context
        hold = context.state.holds.get(attempt.attempt_id)
        if hold is not None:
            context.state.holds[attempt.attempt_id] = replace(hold, alive=False)
        self._waiting.slices(unit, attempt, now)
        outcome = Outcome.WITHDRAWN.value
        ended = {
            "ended": now, "release_confirmed": now, "outcome": outcome, "verdict_json": withdrawn_json(),
        }  # fmt: skip
        workload = {"outcome": outcome, "finished_at": now}
        carrier = context.move(unit, attempt, Phase.FINISHED, ended, workload)
        moved = (step(Phase.RESERVED, "finished", now, outcome),)
        context.leaf(unit, attempt, carrier, "workload.withdraw", moved)
        context.state.remove(attempt.workload_id)
        context.changed = True

    def _tell_again(self, attempt: LiveAttempt, now: int) -> None:
        if attempt.phase is Phase.STOPPING and is_term_owed(attempt, now):
            send_stop(self._context, attempt)
        if attempt.leaves:
            tell_again(self._context, attempt, now)
        if attempt.apart and attempt.phase is Phase.RUNNING:
            tell_members(self._context, attempt, now)
        if now - attempt.command_at < TELL_AGAIN:
            return
        unseen = any(member.seen is None for member in attempt.members)
        if attempt.phase is Phase.STARTING and (unseen or not attempt.started_once):
            if (attempt.times["placed"] or 0) >= self._context.restored_at:  # else told before
                start_attempt(self._context, attempt)
            if self._from_backup(attempt):
                self._look_again(attempt, now)
        elif attempt.phase is Phase.STOPPING:
            if not attempt.command_at or attempt.command_at >= term_due(attempt):  # else it saves its work
                send_stop(self._context, attempt)
            if unseen:
                self._look_again(attempt, now)
        elif self._absent and not self._absent.keys().isdisjoint(attempt.parts()):
            self._look_again(attempt, now)

    def _look_again(self, attempt: LiveAttempt, now: int) -> None:
        """Only a complete observation can say that something is not there; engines tell of changes alone."""
        attempt.command_at = now
        for cluster in attempt.clusters:
            agent = self._context.agents.get(cluster)
            if agent is not None:
                agent.look_again()


def _why_stop(attempt: LiveAttempt, now: int) -> tuple[str, dict[str, object]] | None:
    """Why an attempt is to be stopped now, with what its leaf says of it."""
    if attempt.phase is Phase.STOPPING:
        return None
    if attempt.cancel_requested_at is not None:
        return "cancelled", {}
    limit = RULES[Phase.STARTING].timer or 0
    if attempt.phase is Phase.STARTING and now - (attempt.times["placed"] or now) > limit:
        stages = [m.seen.sub_stage for m in attempt.members if m.seen is not None and m.seen.sub_stage]
        attempt.sub_stage = stages[0] if stages else attempt.sub_stage  # where it hangs
        return "start-timeout", {"after": limit}
    started, most = attempt.times.get("started"), attempt.spec.time_limit
    if started is not None and most is not None and now - started > most + SECOND:
        return "time-limit", {"limit": most}
    return None


def _has_ended(member: LiveMember) -> bool:
    return member.phase == "ended" or (member.seen is not None and member.seen.phase is MemberPhase.ENDED)


def _member(attempt: LiveAttempt, text: str) -> LiveMember | None:
    for member in attempt.members:
        if member.text_id == text:
            return member
    return None
