"""Requests on what is left of workloads: results, and releases that were not proven."""

from __future__ import annotations

from steelyard.client.call import Call, Pages, get, part, post
from steelyard.client.views import Json


def artifacts(workload_id: str) -> Call[list[Json]]:
    """Results."""
    path = f"/v1/workloads/{part(workload_id)}/artifacts"
    return Call("GET", path, pick=lambda answer: answer["items"])


def releases(closed: bool | None) -> Pages[Json]:
    """Unproven releases."""
    return Pages("/v1/releases", {"closed": closed}, of="releases")


def unproven_release(release_id: str) -> Call[Json]:
    """One of them."""
    return get(f"/v1/releases/{part(release_id)}")


def confirm(release_id: str, force: bool, reason: str | None) -> Call[Json]:
    """A new probe, or an operator's word."""
    return post(f"/v1/releases/{part(release_id)}/confirm", {"force": force, "reason": reason})


def fence(release_id: str, reason: str) -> Call[Json]:
    """The end of what is left."""
    return post(f"/v1/releases/{part(release_id)}/fence", {"reason": reason})
