"""What there is: devices, queues, quotas, and the server itself, awaited."""

from __future__ import annotations

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import resources
from steelyard.client.views import Json


class AsyncResources(AsyncRequests):
    """Devices, queues and quotas; the server."""

    async def inventory(self, **query: str | int | bool | None) -> list[Json]:
        """Nodes with their devices; `query`: cluster, class, pool, at (µs UTC)."""
        return await self._items(resources.inventory(query))

    async def inventory_summary(self, at: int | None = None) -> Json:
        """Clusters, and capacity by class; `at` (µs UTC): by class as it was then."""
        return await self._ask(resources.inventory_summary(at))

    async def inventory_diff(self, start: int, end: int | None = None) -> Json:
        """What changed between two instants (µs UTC; `end` None: now), when last, by whom and why."""
        return await self._ask(resources.inventory_diff(start, end))

    async def registrations(self, most: int | None = None, *, outcome: str | None = None) -> list[Json]:
        """What became of every device that was found, the newest first."""
        return await self._items(resources.registrations(outcome), most)

    async def flags(self) -> list[Json]:
        """Flags that stand on nodes and devices."""
        return await self._items(resources.flags())

    async def flag(self, on: str, act: str, reason: str, *, drain: bool = False) -> Json:
        """`act`: cordon, uncordon, drain, maintenance or fence, on a node or device; wants a reason."""
        return await self._ask(resources.flag(on, act, reason, drain))

    async def verify_device(self, device: str, workload: str, *, valid_for: str | None = None) -> Json:
        """Records that a workload that ran on the device and ended well verifies its model."""
        return await self._ask(resources.verify_device(device, workload, valid_for))

    async def retire_device(self, device: str, reason: str) -> Json:
        """Gives up a device that is missing for good."""
        return await self._ask(resources.retire_device(device, reason))

    async def departures(self, on: str, *, at_once: bool = False) -> Json:
        """Who would leave if a node or device were drained now; changes nothing."""
        return await self._ask(resources.departures(on, at_once))

    async def device(self, device_id: str) -> Json:
        """A device with the history of its facts."""
        return await self._ask(resources.device(device_id))

    async def queues(self) -> list[Json]:
        """The queue tree with limits and use."""
        return await self._items(resources.queues())

    async def waiting_order(self, queue: str, limit: int = 50) -> Json:
        """The order in which what waits in a queue is looked at, and what puts each before the next."""
        return await self._ask(resources.waiting_order(queue, limit))

    async def quota_inventory(self) -> list[Json]:
        """By class and flavor, what queues own, what is there and offered, and the difference."""
        return await self._items(resources.quota_inventory())

    async def quotas(self) -> list[Json]:
        """The organisation tree with limits and use."""
        return await self._items(resources.quotas())

    async def doctor(self) -> Json:
        """What is in order, and what is not."""
        return await self._ask(resources.doctor())

    async def version(self) -> Json:
        """The server's version and install id."""
        return await self._ask(resources.version())
