"""What a trial comes to: checks with status and reason, and how many of them make one verdict.

The closed lists are those of the kit: a check passes, fails, or is pending for a reason that somebody owns.
There is no way to set one to pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

Params = dict[str, str | int | None]


class Status(StrEnum):
    """Of a check, a scenario or a whole trial."""

    PASS = "pass"
    FAIL = "fail"
    PENDING = "pending"
    NOT_APPLICABLE = "not-applicable"


class PendingReason(StrEnum):
    """Closed: why something can't be decided."""

    HARDWARE_ABSENT = "hardware-absent"
    SIMULATED_DEVICE = "simulated-device"
    SUPPORT_MATRIX_UNCONFIRMED = "support-matrix-unconfirmed"
    DRIVER_OR_FRAMEWORK_UNCONFIRMED = "driver-or-framework-unconfirmed"
    PRICE_OR_SLA_UNCONFIRMED = "price-or-sla-unconfirmed"
    EVIDENCE_INCOMPLETE = "evidence-incomplete"
    OBSERVER_MISSING = "observer-missing"
    WINDOW_NOT_ELAPSED = "window-not-elapsed"
    HUMAN_OBSERVATION_NEEDED = "human-observation-needed"
    DISPUTED = "disputed"
    TIME_NOT_ANCHORED = "time-not-anchored"
    LINK_UNCHECKED = "link-unchecked"


class FailReason(StrEnum):
    """Closed: what a failed check comes from."""

    CONTRADICTED = "contradicted"  # the candidate's claim, or the observer, is not as expected
    CAPABILITY_MISSING = "capability-missing"  # it can't do the step at all


class Said(msgspec.Struct, frozen=True):
    """A sentence to be made late: code and parameters."""

    code: str
    params: Params = {}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check with the five items that a trial keeps, and the rule that decided it.

    `evidence`: files of the trial's folder, with a JSON pointer after `#`. `simulated`: what it looked at is
    simulated, so that it says nothing about hardware. `mandatory`: it counts for the scenario's verdict.
    """

    id: str
    requirement_rows: tuple[str, ...]
    scenario: str
    step: str
    preconditions: tuple[str, ...]
    role: str
    expected: Said
    actual: Said
    status: Status
    reason: str | None
    evidence: tuple[str, ...]
    rule: str
    rule_version: int
    seen_by: tuple[str, ...]
    simulated: bool
    mandatory: bool


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule found. `ok` None: it can't be decided, for `reason`.

    `missing`: observers that could not say what they see; what the candidate claims alone never passes.
    `seen_by`: those that could.
    """

    ok: bool | None
    actual: Said
    reason: str | None = None
    missing: tuple[str, ...] = ()
    seen_by: tuple[str, ...] = ()
    simulated: bool = False
    mandatory: bool = True


def status_of(outcome: Outcome) -> tuple[Status, str | None]:
    """The status that an outcome stands for, and its reason."""
    if outcome.ok is False:
        return Status.FAIL, outcome.reason or FailReason.CONTRADICTED
    if outcome.ok is None:
        return Status.PENDING, outcome.reason or PendingReason.EVIDENCE_INCOMPLETE
    if outcome.missing:
        return Status.PENDING, PendingReason.OBSERVER_MISSING
    return Status.PASS, None


def verdict_of(checks: Iterable[Check]) -> Status:
    """fail > pending > pass, over what counts; nothing that counts is pending, too."""
    found = {check.status for check in checks if check.mandatory}
    for status in (Status.FAIL, Status.PENDING):
        if status in found:
            return status
    return Status.PASS if Status.PASS in found else Status.PENDING


def summary_of(checks: Iterable[Check]) -> dict[str, Any]:
    """Counts by status, and which are not passed, by id."""
    listed = list(checks)
    by_status = {status.value: [check.id for check in listed if check.status is status] for status in Status}
    return {
        "verdict": verdict_of(listed).value,
        "counts": {status: len(ids) for status, ids in by_status.items()},
        "failed": by_status["fail"],
        "pending": {c.id: c.reason for c in listed if c.status is Status.PENDING},
        "simulated": [check.id for check in listed if check.simulated],
    }
