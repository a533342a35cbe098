"""What engines are told about an attempt: to start it, to end it, and before that to save its work.

Telling is idempotent by attempt, and always comes after the commit that decided it. A workload that declares
that it writes checkpoints (`checkpoint`: how long it may take) is told to write one when it has to make room,
and TERM follows when that time is over. What is written and when is the program's; an engine that can't send
the signal, or a program that does not know it, only goes on until TERM.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.control.agents import Checkpoint, Start, Stop
from steelyard.control.attempts import attempt_starts
from steelyard.control.context import Context, step
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.services.departures import DRAINED
from steelyard.services.live_records import LiveAttempt
from steelyard.store.live import resumable_parts
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

#: Why an attempt ends that is to go on later.
_GOES_ON = frozenset({"preempted", DRAINED})


def start_attempt(context: Context, attempt: LiveAttempt) -> None:
    """Hand the start to each cluster's agent; it is idempotent by attempt id."""
    attempt.started_once = True
    attempt.command_at = context.store.now()
    resumable = _resumable(context, attempt)
    for cluster in sorted(attempt.clusters):
        agent = context.agents.get(cluster)
        if agent is not None:
            install = context.store.install_id
            agent.send(Start(tuple(attempt_starts(context.state, install, attempt, cluster, resumable))))


def _resumable(context: Context, attempt: LiveAttempt) -> Mapping[tuple[str, int], int]:
    """The members of the attempt before that were apart: their work folders are their own."""
    if not attempt.apart or attempt.previous_id is None:
        return {}
    with context.store.read() as view:
        return resumable_parts(view, attempt.previous_id)


def part_names(attempt: LiveAttempt, cluster: str) -> tuple[str, ...]:
    """What the engine of a cluster knows of an attempt."""
    return tuple(render("attempt", part) for part, on in attempt.parts().items() if cluster in on)


def stop_attempt(
    context: Context,
    unit: Unit,
    attempt: LiveAttempt,
    now: int,
    why: str,
    action: str,
    detail: dict[str, object],
) -> None:
    """Ask a holding attempt to end; TERM first, or a checkpoint before it; KILL after its grace."""
    before = attempt.phase
    attempt.stop_reason = why
    attempt.times["stopping"] = now
    values: Row = {"stopping": now, "stop_reason": why, "sub_stage": attempt.sub_stage}
    carrier = context.move(unit, attempt, Phase.STOPPING, values)
    context.leaf(unit, attempt, carrier, action, (step(before, "stopping", now),), detail, reason=why)
    context.after_commit.append(lambda: send_stop(context, attempt))


def term_due(attempt: LiveAttempt) -> int:
    """When TERM may be sent (µs) to an attempt that stops; 0: at once."""
    within, stopping = attempt.spec.checkpoint, attempt.times.get("stopping")
    saves = attempt.stop_reason in _GOES_ON and attempt.cancel_requested_at is None
    if not within or stopping is None or not saves or attempt.times.get("started") is None:
        return 0
    return stopping + within


def is_term_owed(attempt: LiveAttempt, now: int) -> bool:
    """True when an attempt that was told to save its work has had its time for that."""
    return attempt.command_at < term_due(attempt) <= now


def send_stop(context: Context, attempt: LiveAttempt) -> None:
    """(Again) tell the engines to end an attempt, or that it should save its work first."""
    attempt.command_at = context.store.now()
    saves = attempt.command_at < term_due(attempt)
    for cluster in sorted(attempt.clusters):
        agent = context.agents.get(cluster)
        if agent is not None:
            names = part_names(attempt, cluster)
            agent.send(Checkpoint(names) if saves else Stop(names, attempt.spec.grace))
