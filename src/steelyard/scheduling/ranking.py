"""In which order reasons are told: the binding one first, and not more than a reader takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.model.reasons import Reason, ReasonCode

MAX_REASONS = 16
_RANK = {
    code: rank
    for rank, code in enumerate(
        (
            ReasonCode.NO_QUEUE,
            ReasonCode.NO_NAMESPACE,
            ReasonCode.QUEUE_STOPPED,
            ReasonCode.EXCEEDS_MAX_QUOTA,
            ReasonCode.OVER_LIMIT,
            ReasonCode.WAITING_FOR_QUOTA,
            ReasonCode.FRAGMENTED,
            ReasonCode.NO_DOMAIN,
            ReasonCode.WAITING_FOR_CAPACITY,
            ReasonCode.EVICTS_TOO_MUCH,
            ReasonCode.CLUSTER_UNREACHABLE,
            ReasonCode.EXCEEDS_CAPACITY,
            ReasonCode.POOL_CLOSED,
            ReasonCode.LENDING_UNVERIFIED,
            ReasonCode.LABEL_MISMATCH,
            ReasonCode.POOL_NOT_ADMITTING,
            ReasonCode.NO_MATCHING_FLAVOR,
        )
    )
}


_NEVER = frozenset({ReasonCode.EXCEEDS_MAX_QUOTA, ReasonCode.EXCEEDS_CAPACITY})


def hopeless_of(by_flavor: Mapping[str, Iterable[Reason]]) -> frozenset[str]:
    """Flavors that can never do, where another one may: nothing of them binds."""
    never = {name for name, found in by_flavor.items() if any(each.code in _NEVER for each in found)}
    return frozenset(never) if len(never) < len(by_flavor) else frozenset()


def bounded(reasons: Iterable[Reason], hopeless: frozenset[str] = frozenset()) -> tuple[Reason, ...]:
    """At most sixteen, the binding one first; among equals the smallest shortfall. What is said of `hopeless`
    flavors comes last."""
    ranked = sorted(
        enumerate(reasons),
        key=lambda entry: (
            entry[1].flavor in hopeless, _RANK.get(ReasonCode(entry[1].code), 0), entry[1].short_by or 0,
            entry[0],
        ),
    )  # fmt: skip
    ordered = [reason for _, reason in ranked]
    if len(ordered) > MAX_REASONS:
        left_out = len(ordered) - MAX_REASONS
        last = ordered[MAX_REASONS - 1]
        ordered = ordered[:MAX_REASONS]
        ordered[-1] = replace(last, params={**last.params, "more_reasons": left_out})
    return tuple(ordered)
