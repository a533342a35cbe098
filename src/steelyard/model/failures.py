"""Failures: the closed lists of a verdict, and the verdict itself.

A verdict says at which stage an attempt (or a request) came to grief, whose matter that is, what to do, how
certain it is, and by which rule of which catalogue; evidence points at the very counter or line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """Where it happened. `unknown` is a stage of its own, never a part of `application`."""

    REQUEST = "request"  # the request itself: malformed, not allowed, impossible
    QUEUE = "queue"  # limits and queues
    PROVISION = "provision"  # getting what was placed
    IMAGE = "image"
    ENVIRONMENT = "environment"
    LAUNCH = "launch"
    APPLICATION = "application"  # the program itself
    INFRASTRUCTURE = "infrastructure"
    POLICY = "policy"  # a rule ended it: time limit, work folder, preemption
    CANCELLED = "cancelled"  # somebody asked for the end
    UNKNOWN = "unknown"


class Group(StrEnum):
    """Whose kind of problem it is."""

    REQUEST = "request"  # what was asked is wrong in itself, whatever there is to run it on
    SCHEDULING = "scheduling"
    ENVIRONMENT = "environment"
    BUSINESS = "business"
    INFRASTRUCTURE = "infrastructure"
    NONE = "none"  # no problem: it was asked to end
    UNKNOWN = "unknown"


class Party(StrEnum):
    """Who has to look at it."""

    SUBMITTER = "submitter"
    PLATFORM = "platform"
    QUOTA_OWNER = "quota-owner"
    NOBODY = "nobody"


class Retry(StrEnum):
    """Whether trying again can help."""

    RETRY = "retry"
    ELSEWHERE = "retry-elsewhere"  # on another node
    NO = "do-not-retry"  # not before something was put right
    CHANGE = "change-request"  # only with another request


class Confidence(StrEnum):
    """How certain it is. What a program printed itself gives `medium` at most."""

    CERTAIN = "certain"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def is_failure(stage: str, code: str) -> bool:
    """False of a verdict on what was ended on purpose: cancelled, preempted, drained, reclaimed as idle."""
    return stage != Stage.CANCELLED and code not in ("preempted", "drained", "idle-limit")


@dataclass(frozen=True, slots=True)
class Pointer:
    """One piece of evidence.

    kind `counter`: `field` of the engine's observation of `member` (None: of the control plane), and its
    `value`. kind `line`: the bytes `[offset, offset + length)` of the member's log, with their SHA-256 as
    `digest`, and as `value` their text, shortened and made printable.
    """

    kind: str
    field: str
    value: str | int | None = None
    member: str | None = None
    offset: int | None = None
    length: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """A rule that held, too, and was not the strongest."""

    rule: str
    stage: str
    code: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an attempt did not succeed, or a request was refused. `detail` is what the rule found by name (a
    module, an exception); `signature` is equal for failures of the same kind and detail."""

    stage: str
    code: str
    group: str
    responsible: str
    action: str
    evidence: tuple[Pointer, ...]
    confidence: str
    retry: str = Retry.NO
    rule: str = ""
    catalogue: str = ""  # version and digest of the rules
    signature: str = ""
    detail: str | None = None
    params: dict[str, str | int | None] = field(default_factory=dict)
    others: tuple[Other, ...] = ()

    @property
    def is_failure(self) -> bool:
        """False where it was ended on purpose: cancelled, preempted and requeued, or reclaimed as idle."""
        return is_failure(self.stage, self.code)
