"""Requests that may be sent again: the answer is recorded in the unit of the change itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from steelyard.model.errors import ConflictError
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.idempotency import recorded
from steelyard.store.unit import Unit


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer that was given before."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Once:
    """A request with an Idempotency-Key of its principal; `digest` is of all that was asked."""

    principal: str
    key: str
    digest: str

    def recorded(self, view: View) -> Recorded | None:
        """What was answered. Raises ConflictError `idempotency-key-reused` when something else was asked."""
        found = recorded(view, self.principal, self.key)
        if found is None:
            return None
        if found.request_digest != self.digest:
            raise ConflictError("idempotency-key-reused")
        return Recorded(found.status, json.loads(found.response_json))

    def record(self, unit: Unit, status: int, body: Any, now: int) -> None:
        """Add the answer to the unit that makes it true. It must hold no secret."""
        unit.insert(
            t.idempotency,
            principal=self.principal,
            key=self.key,
            request_digest=self.digest,
            status=status,
            response_json=json.dumps(body),
            at=now,
        )
