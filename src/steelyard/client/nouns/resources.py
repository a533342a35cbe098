"""What there is: devices, queues, quotas, and the server itself."""

from __future__ import annotations

from steelyard.client.calls import resources
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Resources(Requests):
    """Devices, queues and quotas; the server."""

    def inventory(self, **query: str | int | bool | None) -> list[Json]:
        """Nodes with their devices; `query`: cluster, class, pool, at (µs UTC)."""
        return self._items(resources.inventory(query))

    def inventory_summary(self, at: int | None = None) -> Json:
        """Clusters, and capacity by class; `at` (µs UTC): by class as it was then."""
        return self._ask(resources.inventory_summary(at))

    def inventory_diff(self, start: int, end: int | None = None) -> Json:
        """What changed between two instants (µs UTC; `end` None: now), when last, by whom and why."""
        return self._ask(resources.inventory_diff(start, end))

    def registrations(self, most: int | None = None, *, outcome: str | None = None) -> list[Json]:
        """What became of every device that was found, the newest first."""
        return self._items(resources.registrations(outcome), most)

    def flags(self) -> list[Json]:
        """Flags that stand on nodes and devices."""
        return self._items(resources.flags())

    def flag(self, on: str, act: str, reason: str, *, drain: bool = False) -> Json:
        """`act`: cordon, uncordon, drain, maintenance or fence, on a node or device; wants a reason."""
        return self._ask(resources.flag(on, act, reason, drain))

    def verify_device(self, device: str, workload: str, *, valid_for: str | None = None) -> Json:
        """Records that a workload that ran on the device and ended well verifies its model."""
        return self._ask(resources.verify_device(device, workload, valid_for))

    def retire_device(self, device: str, reason: str) -> Json:
        """Gives up a device that is missing for good."""
        return self._ask(resources.retire_device(device, reason))

    def departures(self, on: str, *, at_once: bool = False) -> Json:
        """Who would leave if a node or device were drained now; changes nothing."""
        return self._ask(resources.departures(on, at_once))

    def device(self, device_id: str) -> Json:
        """A device with the history of its facts."""
        return self._ask(resources.device(device_id))

    def queues(self) -> list[Json]:
        """The queue tree with limits and use."""
        return self._items(resources.queues())

    def waiting_order(self, queue: str, limit: int = 50) -> Json:
        """The order in which what waits in a queue is looked at, and what puts each before the next."""
        return self._ask(resources.waiting_order(queue, limit))

    def quota_inventory(self) -> list[Json]:
        """By class and flavor, what queues own, what is there and offered, and the difference."""
        return self._items(resources.quota_inventory())

    def quotas(self) -> list[Json]:
        """The organisation tree with limits and use."""
        return self._items(resources.quotas())

    def doctor(self) -> Json:
        """What is in order, and what is not."""
        return self._ask(resources.doctor())

    def version(self) -> Json:
        """The server's version and install id."""
        return self._ask(resources.version())
