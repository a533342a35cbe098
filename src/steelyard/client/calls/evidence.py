"""Requests on use, failures, scheduling cycles and the log."""

from __future__ import annotations

from typing import Any

from steelyard.client.call import Call, Pages, get, part, post
from steelyard.client.transport import Query
from steelyard.client.views import Json

#: How long what reads the whole house may take: minutes, where hundreds of thousands of workloads have run.
AUDIT_SECONDS = 1800.0


def failures(query: Query) -> Call[Json]:
    """Failures by signature."""
    return get("/v1/failures", query, of="failures")


def usage(start: int | None, end: int | None, by: str | None) -> Call[Json]:
    """Who used what."""
    return get("/v1/usage", {"from": start, "to": end, "by": by}, of="usage")


def review(start: int | None, end: int | None) -> Call[Json]:
    """Five questions."""
    return get("/v1/usage/review", {"from": start, "to": end})


def leaves(stream: str | None, after: int | None, most: int | None) -> Call[Json]:
    """Log entries of a stream."""
    return get("/v1/audit/leaves", {"stream": stream, "after": after, "limit": most})


def checkpoint() -> Call[Json]:
    """The newest signed checkpoint."""
    return get("/v1/audit/checkpoint")


def proof(seq: int) -> Call[bytes]:
    """That an entry is in the log."""
    return Call("GET", f"/v1/audit/proof/{seq}", raw=True)


def consistency(start: int, end: int) -> Call[Any]:
    """That the log only grew."""
    return get("/v1/audit/consistency", {"from": start, "to": end})


def checks() -> Call[Json]:
    """Conservation and integrity."""
    return post("/v1/audit/checks", patience=AUDIT_SECONDS)


def bundle(start: int | None, end: int | None) -> Call[bytes]:
    """An evidence bundle."""
    body = {key: value for key, value in (("from", start), ("to", end)) if value is not None}
    return post("/v1/audit/bundle", body, patience=AUDIT_SECONDS, raw=True)


def cycles() -> Pages[Json]:
    """Scheduling cycles."""
    return Pages("/v1/cycles", of="cycles")


def cycle(cycle_id: str) -> Call[Json]:
    """One cycle whole."""
    return get(f"/v1/cycles/{part(cycle_id)}")


def replay(cycle_id: str) -> Call[Json]:
    """A stored cycle decided again."""
    return post(f"/v1/cycles/{part(cycle_id)}/replay")
