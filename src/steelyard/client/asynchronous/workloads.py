"""Workloads: submit, look, act, wait, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from steelyard.client import steps
from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import workloads
from steelyard.client.views import ExplanationView, Json, WorkloadRow, WorkloadView


class AsyncWorkloads(AsyncRequests):
    """Workloads and their refusals."""

    async def submit(self, document: Json, *, dry_run: bool = False, key: str | None = None) -> Json:
        """Submits a workload: its view, or with `dry_run` {would, reasons, placement}.

        `key` is the Idempotency-Key: the same key with the same document makes one workload, however
        often it is sent. Raises ApiError with code `refused` and all reasons.
        """
        return await self._ask(workloads.submit(document, dry_run, key))

    async def submit_many(self, documents: list[Json], *, key: str | None = None) -> list[Json]:
        """Submits many workloads, `BULK` a request: for each in its order {status, id, problem, replayed}.

        One that is refused leaves the others alone; nothing is raised for it. With `key` the same
        documents make each workload once, however often they are sent.
        """
        return await self._run(steps.submit_many(documents, key))

    async def workloads(self, most: int | None = None, **query: str | int | bool | None) -> list[WorkloadRow]:
        """Workloads, the newest first; `query` as in the API (project, phase, outcome, queue, q …)."""
        return await self._items(workloads.workloads(query), most)

    def each_workload(self, **query: str | int | bool | None) -> AsyncIterator[WorkloadRow]:
        """The same one by one: a page is read when its first workload is asked for."""
        return self._each(workloads.workloads(query))

    async def workload(self, workload_id: str) -> WorkloadView:
        """The page of one workload."""
        return await self._ask(workloads.workload(workload_id))

    async def find(self, name: str) -> str:
        """The id of a workload by id or by name, the newest of that name. Raises ApiError not-found."""
        return await self._run(steps.find(name))

    async def refusal(self, refusal_id: str) -> Json:
        """One refusal."""
        return await self._ask(workloads.refusal(refusal_id))

    async def refusals(self, most: int | None = None, *, project: str | None = None) -> list[Json]:
        """Refusals, the newest first."""
        return await self._items(workloads.refusals(project), most)

    async def explain(self, workload_id: str) -> ExplanationView:
        """Why it waits and what would start it, now, asked of the scheduler itself."""
        return await self._ask(workloads.explain(workload_id))

    async def compare(self, workload_id: str, other_id: str) -> Json:
        """Which of two waiting workloads comes first, by the factors of the order. Raises ApiError."""
        return await self._ask(workloads.compare(workload_id, other_id))

    async def cancel(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Asks a workload to end; one that waits is withdrawn."""
        return await self._ask(workloads.act(workload_id, "cancel", version))

    async def retry(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Lets a finished workload try again."""
        return await self._ask(workloads.act(workload_id, "retry", version))

    async def scale(self, workload_id: str, replicas: int, *, version: int | None = None) -> WorkloadView:
        """Asks for another number of replicas of a service."""
        return await self._ask(workloads.act(workload_id, "scale", version, {"replicas": replicas}))

    async def hold(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Takes a waiting workload out of the queue."""
        return await self._ask(workloads.act(workload_id, "hold", version))

    async def release(self, workload_id: str, *, version: int | None = None) -> WorkloadView:
        """Puts a held workload back into the queue."""
        return await self._ask(workloads.act(workload_id, "release", version))

    async def wait(
        self,
        workload_id: str,
        until: str | Collection[str] = "finished",
        *,
        timeout: float | None = None,
        on_change: Callable[[WorkloadView], Any] | None = None,
    ) -> WorkloadView:
        """Waits until the workload is in one of the phases, or has finished. `timeout` in seconds.

        Raises WaitTimeoutError with the phase it was last seen in.
        """
        return await self._run(steps.wait(workload_id, until, timeout, on_change, self._clock))
