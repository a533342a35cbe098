"""What there is: devices, queues, quotas, and the server itself, awaited."""

from __future__ import annotations

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import resources
from steelyard.client.views import Json


class AsyncResources(AsyncRequests):
    """Devices, queues and quotas; the server."""

    async def inventory(self, **query: str | int | bool | None) -> list[Json]:
        """Nodes with their devices; `query`: cluster, class, pool."""
        return await self._items(resources.inventory(query))

    async def inventory_summary(self) -> Json:
        """Clusters, and capacity by class."""
        return await self._ask(resources.inventory_summary())

    async def device(self, device_id: str) -> Json:
        """A device with the history of its facts."""
        return await self._ask(resources.device(device_id))

    async def queues(self) -> list[Json]:
        """The queue tree with limits and use."""
        return await self._items(resources.queues())

    async def quotas(self) -> list[Json]:
        """The organisation tree with limits and use."""
        return await self._items(resources.quotas())

    async def doctor(self) -> Json:
        """What is in order, and what is not."""
        return await self._ask(resources.doctor())

    async def version(self) -> Json:
        """The server's version and install id."""
        return await self._ask(resources.version())
