"""Reasons as records: why something waits, is refused, evicted or failed.

One form serves all of them, so that a reader learns it once. All blocking reasons are given, the
binding one first; `holders` name who has what is missing, and their amounts sum to `short_by`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class ReasonCode(StrEnum):
    """Closed list. A code without a zh and an en sentence fails the build."""

    # the request itself can't be taken: said at submit
    INVALID_REQUEST = "invalid-request"
    MISSING_GRANT = "missing-grant"
    # can never fit: said at submit
    EXCEEDS_MAX_QUOTA = "exceeds-max-quota"
    EXCEEDS_CAPACITY = "exceeds-capacity"
    NO_MATCHING_FLAVOR = "no-matching-flavor"
    NO_ROUTE = "no-route"
    NO_NAMESPACE = "no-namespace"
    NO_QUEUE = "no-queue"
    LABEL_UNKNOWN = "label-unknown"  # a key or a value that the vocabulary does not have
    LABEL_MISMATCH = "label-mismatch"  # a label or a part of a pool's environment is not what is wanted
    POOL_NOT_ADMITTING = "pool-not-admitting"  # the pool's rules don't let this request in
    POOL_CLOSED = "pool-closed"  # it lets nothing new in for now
    LENDING_UNVERIFIED = "lending-unverified"  # the pool lends, but no real run has verified the place
    MODEL_UNVERIFIED = "model-unverified"  # it names a model on which no real run has shown that it runs
    EXCEEDS_GUARANTEE = "exceeds-guarantee"  # more is to be guaranteed than its queue owns
    # over a limit whose owner declared `refuse`
    OVER_LIMIT = "over-limit"
    # waits
    WAITING_FOR_QUOTA = "waiting-for-quota"
    WAITING_FOR_CAPACITY = "waiting-for-capacity"
    FRAGMENTED = "fragmented"
    NO_DOMAIN = "no-domain"  # room is there, but no domain of the required topology level has enough of it
    RESERVED_FOR = "reserved-for"  # it fits, and would delay who has a place on the timeline
    BEHIND_HEAD = "behind-head"  # its queue is strict, and its head waits for the same devices
    DRAINING = "draining"  # it fits, and what becomes free is collected for one that has waited too long
    STARVING = "starving"  # has waited longer than its queue's bound
    PRIORITY = "priority"
    EVICTS_TOO_MUCH = "evicts-too-much"  # for what it asks for, more would have to be stopped than may be
    WAITING_FOR_PREEMPTED = "waiting-for-preempted-workloads"
    QUEUE_STOPPED = "queue-stopped"
    CLUSTER_UNREACHABLE = "cluster-unreachable"
    HELD = "held"
    STANDBY = "standby"  # of a service's headroom: its place is kept until the service is scaled up
    BACKOFF = "backoff"
    PENDING_EVALUATION = "pending-evaluation"
    # evictions
    PREEMPTED = "preempted"


#: What a wait slice is booked under (metering.md 3d), by reason code.
WAIT_SLICE: dict[str, str] = {
    ReasonCode.WAITING_FOR_QUOTA: "quota",
    ReasonCode.OVER_LIMIT: "quota",
    ReasonCode.EXCEEDS_MAX_QUOTA: "quota",
    ReasonCode.WAITING_FOR_CAPACITY: "capacity",
    ReasonCode.EXCEEDS_CAPACITY: "capacity",
    ReasonCode.CLUSTER_UNREACHABLE: "capacity",
    ReasonCode.NO_MATCHING_FLAVOR: "capacity",
    ReasonCode.LABEL_MISMATCH: "capacity",
    ReasonCode.POOL_NOT_ADMITTING: "policy-window",
    ReasonCode.POOL_CLOSED: "policy-window",
    ReasonCode.LENDING_UNVERIFIED: "policy-window",
    ReasonCode.MODEL_UNVERIFIED: "policy-window",
    ReasonCode.FRAGMENTED: "fragmentation",
    ReasonCode.NO_DOMAIN: "fragmentation",
    ReasonCode.RESERVED_FOR: "priority",
    ReasonCode.BEHIND_HEAD: "priority",
    ReasonCode.DRAINING: "priority",
    ReasonCode.STARVING: "priority",
    ReasonCode.PRIORITY: "priority",
    ReasonCode.EVICTS_TOO_MUCH: "priority",
    ReasonCode.WAITING_FOR_PREEMPTED: "priority",
    ReasonCode.QUEUE_STOPPED: "policy-window",
    ReasonCode.HELD: "held-by-user",
    ReasonCode.STANDBY: "standby",
    ReasonCode.BACKOFF: "policy-window",
    ReasonCode.PENDING_EVALUATION: "evaluation",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who holds a part of what is missing. `amount` in the unit of the reason's resource."""

    kind: str  # workload | queue | cohort | node | team | project | withheld (why: its name) | …
    id: str
    amount: int
    name: str | None = None
    project: str | None = None
    queue: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. Quantities are integers in the resource's unit (milli-devices, milli-cores, MiB)."""

    code: str
    stage: str  # submit | quota | placement | preemption | provision | image | environment | launch | …
    scope: str | None = None  # the tree or the kind of the limit's owner: queue, cohort, team, project, …
    owner: str | None = None  # whose limit: the node's name
    resource: str | None = None  # class: gpu, npu, cpu, memory, other
    flavor: str | None = None
    limit: int | None = None
    used: int | None = None
    requested: int | None = None
    short_by: int | None = None
    holders: tuple[Holder, ...] = ()
    wakes_on: tuple[str, ...] = ()  # events that will make it be looked at again
    approximate: bool = False
    params: dict[str, str | int | None] = field(default_factory=dict)
