"""What there is: devices, queues, quotas, and the server itself."""

from __future__ import annotations

from steelyard.client.calls import resources
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Resources(Requests):
    """Devices, queues and quotas; the server."""

    def inventory(self, **query: str | int | bool | None) -> list[Json]:
        """Nodes with their devices; `query`: cluster, class, pool."""
        return self._items(resources.inventory(query))

    def inventory_summary(self) -> Json:
        """Clusters, and capacity by class."""
        return self._ask(resources.inventory_summary())

    def device(self, device_id: str) -> Json:
        """A device with the history of its facts."""
        return self._ask(resources.device(device_id))

    def queues(self) -> list[Json]:
        """The queue tree with limits and use."""
        return self._items(resources.queues())

    def quotas(self) -> list[Json]:
        """The organisation tree with limits and use."""
        return self._items(resources.quotas())

    def doctor(self) -> Json:
        """What is in order, and what is not."""
        return self._ask(resources.doctor())

    def version(self) -> Json:
        """The server's version and install id."""
        return self._ask(resources.version())
