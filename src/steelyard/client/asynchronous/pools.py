"""Pools, labels, admissions of resource types, verification records and the register, awaited."""

from __future__ import annotations

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import pools
from steelyard.client.views import Json


class AsyncPools(AsyncRequests):
    """What pools let in, and what was verified in them."""

    async def pools(self) -> list[Json]:
        """Every pool: purpose, who runs it, whether it is open, what is verified in it."""
        return await self._items(pools.pools())

    async def pool(self, name: str) -> Json:
        """One pool with its rules, members, and when it was closed and why."""
        return await self._ask(pools.pool(name))

    async def close_pool(self, name: str, reason: str) -> Json:
        """Lets nothing new into a pool."""
        return await self._ask(pools.set_pool(name, "close", reason))

    async def open_pool(self, name: str, reason: str) -> Json:
        """Ends what shuts a pool; a drift is accepted as it is."""
        return await self._ask(pools.set_pool(name, "open", reason))

    async def labels(self) -> Json:
        """The labels in force, and the foreign keys that engines report."""
        return await self._ask(pools.labels())

    async def label_lint(self) -> Json:
        """Too few, too many, unused and foreign labels, with figures."""
        return await self._ask(pools.label_lint())

    async def label_history(self, key: str | None = None) -> Json:
        """Changes of the vocabulary with who and why, and the values that stood on nodes."""
        return await self._ask(pools.label_history(key))

    async def admissions(self) -> list[Json]:
        """Admissions of types of resources, the newest first."""
        return await self._items(pools.admissions())

    async def admission(self, admission_id: str) -> Json:
        """One admission with its steps."""
        return await self._ask(pools.admission(admission_id))

    async def start_admission(self, device_class: str, family: str, model: str, reason: str) -> Json:
        """Begins the admission of a type: it is pending until every step is done."""
        return await self._ask(pools.start_admission(device_class, family, model, reason))

    async def take_admission_step(self, admission_id: str, step: str, detail: Json) -> Json:
        """Takes a step: labels, environment, monitoring, owner or verification."""
        return await self._ask(pools.take_step(admission_id, step, detail))

    async def finish_admission(self, admission_id: str) -> Json:
        """Admits the type, where every step is done and its verification stands."""
        return await self._ask(pools.finish_admission(admission_id))

    async def verifications(self, *, standing: bool = False) -> list[Json]:
        """Verification records, the newest first; `standing`: only those that hold."""
        return await self._items(pools.verifications(standing))

    async def verification(self, verification_id: str) -> Json:
        """One record."""
        return await self._ask(pools.verification(verification_id))

    async def end_verification(self, verification_id: str, reason: str) -> Json:
        """Ends a record before its time."""
        return await self._ask(pools.end_verification(verification_id, reason))

    async def register(self) -> list[Json]:
        """Entries of the register with their answers: yes, pending or no."""
        return await self._items(pools.register())

    async def register_entry(self, name: str) -> Json:
        """One entry, with what each pool says."""
        return await self._ask(pools.register_entry(name))
