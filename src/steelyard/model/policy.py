"""Policy: quota trees with their limits, routing, priority classes. Versioned data.

Queue tree and organisation tree use the same arithmetic (scheduling/quota.py). A node owns
`nominal`, may use `borrowing_limit` above what it owns (None: no bound) and keeps back what exceeds
`lending_limit` (None: lends everything). A hard limit X of an organisation node is nominal 0 with
borrowing_limit X below an unbounded root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from steelyard.model.units import MINUTE
from steelyard.model.workloads import WorkloadKind

QUEUE_TREE = "queue"
ORG_TREE = "organisation"
USER_TREE = "user"
#: Nominal of a root that owns everything there is.
UNBOUNDED = 2**62
#: The subject of a limit on a flavor is this and its name.
FLAVOR_PREFIX = "flavor/"
#: Of a node that declares no weight, in thousandths.
USUAL_WEIGHT = 1000


class Measure(StrEnum):
    """What a limit on an accelerator's class counts, other than devices (`scheduling.subjects`)."""

    WHOLE = "whole"
    FRACTION = "fraction"
    MEMORY = "memory"
    NORMALISED = "normalised"


class OnExceed(StrEnum):
    """What a request above the limit meets: it waits, or it is refused at submit."""

    WAIT = "wait"
    REFUSE = "refuse"


class OnLowered(StrEnum):
    """What becomes of what runs above a limit, beside that nothing new starts (`scheduling.lowered`)."""

    STOP_NEW = "StopNew"  # it goes on
    DRAIN = "Drain"  # what is above leaves when a time is over
    RECLAIM = "Reclaim"  # what is above leaves at once


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of one node. `subject` is a class (`gpu`), `flavor/NAME` or `CLASS/MEASURE`."""

    tree: str
    node: str
    subject: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    on_exceed: OnExceed = OnExceed.WAIT
    on_lowered: OnLowered | None = None  # None: it says nothing
    drain_for: int = 0  # µs since the change, where it drains
    since: int = field(default=0, compare=False)  # µs: when it became what it is


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A queue, cohort, team, project, namespace or user in its tree."""

    tree: str
    name: str
    kind: str  # cohort | queue | team | project | namespace | user
    parent: str | None
    stopped: bool = False


class QueueingStrategy(StrEnum):
    """What a head that does not fit means for those behind it in its queue."""

    STRICT_FIFO = "StrictFIFO"  # they wait with it
    BEST_EFFORT_FIFO = "BestEffortFIFO"  # they are tried


class Precedence(StrEnum):
    """Which of equals in a queue goes first."""

    FIRST_COME = "FirstCome"
    SHORTEST_FIRST = "ShortestFirst"  # the least remaining time × devices; without a time limit last
    LEAST_SERVED = "LeastServed"  # the lowest level of what it was served so far; within one first come


class Reclaim(StrEnum):
    """From whom a queue may take back what it owns and another queue of its cohort has borrowed."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class Search(StrEnum):
    """Whether a flavor that would do with a drawback ends the search for a better one."""

    MAY_STOP = "MayStopSearch"
    TRY_NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """Which drawback is the smaller one."""

    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    """How a queue walks through its ordered flavors. A fit within nominal quota always ends the search."""

    when_can_borrow: Search = Search.MAY_STOP
    when_can_preempt: Search = Search.TRY_NEXT
    preference: Preference = Preference.BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Classes that move together through the same ordered flavors."""

    classes: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """Who may be stopped for a queue's work, and how its own work is protected.

    Within a queue a strictly higher priority may evict a lower one; nominal quota that others borrowed
    is taken back as `reclaim` says. Always only if the preemptor's own placement is proven.
    """

    within_queue: bool = True
    reclaim: Reclaim = Reclaim.ANY
    borrow_below: int | None = None  # while it borrows itself it may evict priorities below this; None: none
    min_runtime: int = 0  # µs a victim must have run; read at the lowest common ancestor of both queues
    delay: int = 0  # µs an attempt must have waited before it may evict; runs anew after its own eviction
    per_hour: int | None = None  # evictions for this queue's work in an hour; None: not bounded


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a queue or cohort declares beside its limits. None: as its parent, else as the defaults are;
    `scheduling.rules.rules_of` says what is in force."""

    strategy: QueueingStrategy | None = None
    fungibility: FlavorFungibility | None = None
    preemption: PreemptionRule | None = None
    groups: tuple[ResourceGroup, ...] = ()
    reservations: int | None = None  # blocked workloads at its head that get a place on the timeline
    starvation_bound: int | None = None  # µs within which whatever can ever fit starts, or is flagged
    weight: int = USUAL_WEIGHT  # of its share beside its siblings, in thousandths
    owner: str | None = None
    precedence: Precedence | None = None


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A named priority. `ageing` 0 is strict: nothing of a lower class goes before it.

    A class that ages stands in the band of `ages_to` (None: of the highest class there is) and counts
    there as submitted `ageing` µs later than it was: after that time it precedes whatever is newer.
    """

    value: int
    ageing: int = 0
    ages_to: int | None = None


class QueueOrder(StrEnum):
    """Whose turn it is between the queues of a cohort."""

    FAIR_SHARE = "FairShare"  # the smallest dominant share above quota, with what was used lately
    PRIORITY = "Priority"  # those within their nominal quota first, then the higher priority
    STRICT_PRIORITY = "StrictPriority"  # the higher priority first, whoever owns the quota


class NodeOrder(StrEnum):
    """Which of the nodes that would do takes a member."""

    FIRST_FIT = "FirstFit"
    BEST_FIT = "BestFit"
    NODE_VALUE = "NodeValue"


class ModelOrder(StrEnum):
    """On which of the models that would do a workload starts."""

    AS_LISTED = "AsListed"  # in the order of its request or its queue, else by name
    ADVANTAGE = "Advantage"  # what is free is assigned to what waits with the most progress


@dataclass(frozen=True, slots=True)
class Fairness:
    """How use of the past counts. Half-life 0: it does not."""

    half_life: int = 0  # µs
    sampling: int = 300_000_000  # µs between two sums; what starts in between is charged at once


@dataclass(frozen=True, slots=True)
class Route:
    """(project, kind, environment) → queue, priority class, preemption rule. None matches everything; the
    first match wins."""

    queue: str
    priority_class: str
    project: str | None = None
    kind: WorkloadKind | None = None
    environment: str | None = None
    preemptible: bool | None = None  # None: as the workload says


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
    max_evicted: int = 4_000  # thousandths of what is asked for that its victims may give up
    observation_bound: int = 60_000_000  # µs; an older observation makes its cluster unknown
    growth_window: int = 5 * MINUTE  # µs after a gang was last asked for members in which it gets none
    priorities: dict[str, int] = field(default_factory=dict)
    classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    queues: Mapping[str, QueueRules] = field(default_factory=dict)  # by queue or cohort
    defaults: QueueRules = QueueRules()  # where neither a queue nor a cohort above it declares anything
    weights: Mapping[str, int] = field(default_factory=dict)  # organisation node → thousandths; else 1000
    order: QueueOrder = QueueOrder.PRIORITY
    nodes: NodeOrder = NodeOrder.FIRST_FIT
    models: ModelOrder = ModelOrder.AS_LISTED
    fairness: Fairness = Fairness()
    conversions: Mapping[str, int] = field(default_factory=dict)  # model → thousandths of a normal device
    memories: Mapping[str, int] = field(default_factory=dict)  # model → MiB that limits on memory count
