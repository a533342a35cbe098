"""Requests on workloads, their refusals and their logs."""

from __future__ import annotations

from typing import Any

from steelyard.client.call import Call, Pages, get, part, post
from steelyard.client.transport import Query
from steelyard.client.views import ExplanationView, Json, LogChunk, WorkloadRow, WorkloadView


def submit(document: Json, dry_run: bool, key: str | None) -> Call[Json]:
    """A new workload, or what would become of it."""
    of = None if dry_run else "workload"
    return post("/v1/workloads", document, key=key, query={"dry_run": dry_run}, of=of)


def submit_many(documents: list[Json], key: str | None) -> Call[list[Json]]:
    """Many new workloads in one request."""
    body = {"documents": documents}
    return post("/v1/workloads:submit", body, key=key, pick=lambda answer: answer["results"])


def workloads(query: Query) -> Pages[WorkloadRow]:
    """Workloads."""
    return Pages("/v1/workloads", query, of="workloads")


def workload(workload_id: str) -> Call[WorkloadView]:
    """The page of one."""
    return get(f"/v1/workloads/{part(workload_id)}", of="workload")


def explain(workload_id: str) -> Call[ExplanationView]:
    """Why it waits."""
    return get(f"/v1/workloads/{part(workload_id)}/explanation", of="explanation")


def compare(workload_id: str, other_id: str) -> Call[Json]:
    """Which of two that wait comes first."""
    return get(f"/v1/workloads/{part(workload_id)}/ahead/{part(other_id)}")


def act(workload_id: str, verb: str, version: int | None, body: Any = None) -> Call[WorkloadView]:
    """cancel, retry, scale, hold or release."""
    return post(f"/v1/workloads/{part(workload_id)}/{verb}", body, version=version, of="workload")


def refusal(refusal_id: str) -> Call[Json]:
    """One refusal."""
    return get(f"/v1/refusals/{part(refusal_id)}")


def refusals(project: str | None) -> Pages[Json]:
    """Refusals."""
    return Pages("/v1/refusals", {"project": project}, of="refusals")


def log_chunk(workload_id: str, member: str | None, offset: int) -> Call[LogChunk]:
    """A piece of a log."""
    return get(f"/v1/workloads/{part(workload_id)}/logs", {"member": member, "offset": offset})


def log_stream(workload_id: str) -> str:
    """The path of a log as a stream of events."""
    return f"/v1/workloads/{part(workload_id)}/logs/stream"
