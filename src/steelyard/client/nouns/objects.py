"""Declared objects."""

from __future__ import annotations

from typing import Any

from steelyard.client.calls import objects
from steelyard.client.requests import Requests
from steelyard.client.views import ApplyResult, Json


class Objects(Requests):
    """Declared objects."""

    def apply(
        self, documents: list[Json], *, dry_run: bool = False, reason: str | None = None
    ) -> list[ApplyResult]:
        """Declares objects: what became of each, with its differences. `reason`: why, for the log."""
        return self._ask(objects.apply(documents, dry_run, reason))

    def diff(self, documents: list[Json]) -> list[ApplyResult]:
        """What `apply` would do."""
        return self._ask(objects.apply(documents, True, None))

    def export(self) -> list[Json]:
        """All declared documents in the order in which they can be applied."""
        return self._ask(objects.export())

    def objects(self, kind: str, *, at: int | None = None) -> list[Json]:
        """Declared objects of a kind, now or at an instant."""
        return self._items(objects.objects(kind, at))

    def object(self, kind: str, name: str) -> Json:
        """One declared object."""
        return self._ask(objects.object_(kind, name))

    def object_history(self, kind: str, name: str) -> list[Json]:
        """Its versions."""
        return self._items(objects.history(kind, name))

    def retire(self, kind: str, name: str) -> Any:
        """Retires an object."""
        return self._ask(objects.retire(kind, name))
