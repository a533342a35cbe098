"""Policy: quota trees with their limits, routing, priority classes. Versioned data.

Queue tree and organisation tree use the same arithmetic (scheduling/quota.py). A node owns
`nominal`, may use `borrowing_limit` above what it owns (None: no bound) and keeps back what exceeds
`lending_limit` (None: lends everything). A hard limit X of an organisation node is nominal 0 with
borrowing_limit X below an unbounded root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from steelyard.model.workloads import WorkloadKind

QUEUE_TREE = "queue"
ORG_TREE = "organisation"
#: Nominal of a root that owns everything there is.
UNBOUNDED = 2**62


class OnExceed(StrEnum):
    """What a request above the limit meets: it waits, or it is refused at submit."""

    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of one node. `subject` is a class (`gpu`) or `flavor/NAME`."""

    tree: str
    node: str
    subject: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    weight: int = 1000
    on_exceed: OnExceed = OnExceed.WAIT


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A queue, cohort, team, project or namespace in its tree."""

    tree: str
    name: str
    kind: str  # cohort | queue | team | project | namespace | user
    parent: str | None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """Within a queue a strictly higher priority may evict a lower one, if its own placement is proven."""

    within_queue: bool = True
    min_runtime: int = 0  # µs a victim must have run


@dataclass(frozen=True, slots=True)
class Route:
    """(project, kind, environment) → queue, priority class. None matches everything; first match wins."""

    queue: str
    priority_class: str
    project: str | None = None
    kind: WorkloadKind | None = None
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What `decide` follows beside the snapshot. Every decision names `version`.

    Bounds on work are counts, never the clock.
    """

    version: int
    preemption: PreemptionRule = PreemptionRule()
    max_placements: int = 512  # a cycle
    max_nodes: int = 20_000  # looked at for one workload
    max_victims: int = 64  # of one preemption
    observation_bound: int = 60_000_000  # µs; an older observation makes its cluster unknown
    priorities: dict[str, int] = field(default_factory=dict)
