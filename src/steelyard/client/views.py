"""What the API shows, as types: keys that a program may rely on.

Times are integer µs UTC, quantities integers in milli-devices, milli-cores and MiB, sums of quantity ×
time decimal strings. null is "not known", never 0.
"""

from __future__ import annotations

from typing import Any, TypedDict

Json = dict[str, Any]


class HolderView(TypedDict):
    """Somebody who holds a part of what is missing; a nameless one is of another project."""

    kind: str
    id: str
    amount: int
    name: str | None
    project: str | None
    queue: str | None
    since: int | None


class ReasonView(TypedDict):
    """Why something waits, is refused or was evicted."""

    code: str
    stage: str
    scope: str | None
    owner: str | None
    resource: str | None
    flavor: str | None
    limit: int | None
    used: int | None
    requested: int | None
    short_by: int | None
    holders: list[HolderView]
    wakes_on: list[str]
    approximate: bool
    params: Json
    text: str


class PointerView(TypedDict):
    """A piece of evidence: a counter and its value, or a line of a member's log and where it is."""

    kind: str
    field: str
    value: str | int | None
    member: str | None
    offset: int | None
    length: int | None
    digest: str | None


class VerdictView(TypedDict):
    """Why an attempt failed, and whose matter it is."""

    stage: str
    code: str
    group: str
    responsible: str
    action: str
    retry: str
    evidence: list[PointerView]
    confidence: str
    rule: str
    catalogue: str
    signature: str
    detail: str | None
    params: Json
    others: list[Json]
    text: str


class WorkloadRow(TypedDict):
    """A workload in a list."""

    id: str
    name: str
    namespace: str
    project: str
    team: str | None
    kind: str
    queue: str
    priority: int
    phase: str
    sub_stage: str | None
    outcome: str | None
    attempt: int
    submitted_at: int
    placed_at: int | None
    started_at: int | None
    finished_at: int | None
    cluster: str | None
    simulated: bool
    first_reason: ReasonView | None
    version: int
    requested: dict[str, int] | None
    group: Json | None  # the service or array that it belongs to


class WorkloadView(WorkloadRow):
    """The page of a workload."""

    reasons: list[ReasonView]
    verdict: VerdictView | None
    attempts: list[Json]
    evictions: list[Json]
    evicted: list[Json]
    spec: Json
    submitter: str
    ahead: int | None
    group_members: list[Json]
    use: Json | None
    evaluation: Json | None
    evaluations: list[Json]


class RaiseView(TypedDict):
    """One limit that would have to be higher, with quantities in the resource's unit."""

    tree: str
    owner: str
    scope: str
    resource: str
    flavor: str | None
    field: str  # nominal | borrowing_limit
    before: int | None
    after: int | None
    by: int
    ask: str | None  # who looks after the queue or cohort


class RemedyView(TypedDict):
    """A change that would start a waiting workload now; it was tried. `kind` says which fields are set."""

    code: str
    kind: str
    role: str | None
    resource: str | None
    before: int | None
    after: int | None
    flavor: str | None
    queue: str | None
    priority_class: str | None
    raises: list[RaiseView]
    holders: list[HolderView]
    at: int | None
    approximate: bool
    text: str


class ExplanationView(TypedDict):
    """Why a workload waits, what would start it, and who is before it."""

    decision: str
    reasons: list[ReasonView]
    scaled: Json | None  # members, asked: it runs with fewer
    reservation: Json | None  # starts_at, ends_at: its place on the timeline
    remedies: list[RemedyView]
    position: int | None
    ahead: list[Json]
    last_evaluated_at: int | None
    wakes_on: list[str]
    approximate: bool
    policy_version: int | None
    verdict: Json | None
    past: list[Json]
    evictions: list[Json]


class ApplyResult(TypedDict):
    """What became of one declared document."""

    kind: str
    name: str
    action: str
    version: int
    diff: list[Json]


class LogChunk(TypedDict):
    """A piece of a member's log."""

    member: str
    offset: int
    next_offset: int
    end: bool
    data_base64: str
