"""What follows an attempt that did not succeed: the workload's next attempt, or its end.

By group: a fault of the infrastructure is tried again, on another node where possible, unless the workload
says `never`; the environment and the image are not, for nothing has changed; the program's own failures are
as the workload says; what a policy or somebody ended never is. Unknown is treated as the program's own.
"""

from __future__ import annotations

from steelyard.model.failures import Group, Stage, Verdict
from steelyard.model.lifecycle import Outcome
from steelyard.model.workloads import RestartPolicy
from steelyard.services.live_records import LiveMember

#: So many nodes of failed attempts are kept in mind.
MAX_AVOIDED = 8
_FINAL = frozenset({Stage.CANCELLED, Stage.POLICY, Stage.REQUEST, Stage.QUEUE})


def follow_up(
    outcome: Outcome,
    verdict: Verdict | None,
    restart: RestartPolicy,
    number: int,
    most: int,
    *,
    cancelled: bool,
) -> str | None:
    """`preempted` or `retry`: why there is another attempt after the `number`th; None: there is none.

    A preempted workload always comes back; a failed one only while its attempts are fewer than `most`.
    """
    if cancelled:
        return None
    if outcome is Outcome.PREEMPTED:
        return "preempted"
    if verdict is None or number >= most or restart is RestartPolicy.NEVER or verdict.stage in _FINAL:
        return None
    if verdict.group == Group.INFRASTRUCTURE:
        return "retry"
    if verdict.group == Group.ENVIRONMENT:
        return None
    return "retry" if restart is RestartPolicy.ON_FAILURE else None


def avoided(before: tuple[int, ...], verdict: Verdict | None, failed: LiveMember | None) -> tuple[int, ...]:
    """Nodes that the next attempt should not meet again where another one will do; the newest last."""
    if verdict is None or failed is None or verdict.group != Group.INFRASTRUCTURE:
        return before
    return (*(node for node in before if node != failed.node_id), failed.node_id)[-MAX_AVOIDED:]
