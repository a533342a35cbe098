"""Declared objects, awaited."""

from __future__ import annotations

from typing import Any

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import objects
from steelyard.client.views import ApplyResult, Json


class AsyncObjects(AsyncRequests):
    """Declared objects."""

    async def apply(
        self, documents: list[Json], *, dry_run: bool = False, reason: str | None = None
    ) -> list[ApplyResult]:
        """Declares objects: what became of each, with its differences. `reason`: why, for the log."""
        return await self._ask(objects.apply(documents, dry_run, reason))

    async def diff(self, documents: list[Json]) -> list[ApplyResult]:
        """What `apply` would do."""
        return await self._ask(objects.apply(documents, True, None))

    async def export(self) -> list[Json]:
        """All declared documents in the order in which they can be applied."""
        return await self._ask(objects.export())

    async def objects(self, kind: str, *, at: int | None = None) -> list[Json]:
        """Declared objects of a kind, now or at an instant."""
        return await self._items(objects.objects(kind, at))

    async def object(self, kind: str, name: str) -> Json:
        """One declared object."""
        return await self._ask(objects.object_(kind, name))

    async def object_history(self, kind: str, name: str) -> list[Json]:
        """Its versions."""
        return await self._items(objects.history(kind, name))

    async def retire(self, kind: str, name: str) -> Any:
        """Retires an object."""
        return await self._ask(objects.retire(kind, name))
