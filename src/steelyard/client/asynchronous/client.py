"""The asynchronous client: every method of `Client` under its name, awaited."""

from __future__ import annotations

from steelyard.client.asynchronous.access import AsyncAccess
from steelyard.client.asynchronous.evidence import AsyncEvidence
from steelyard.client.asynchronous.foresight import AsyncForesight
from steelyard.client.asynchronous.objects import AsyncObjects
from steelyard.client.asynchronous.pools import AsyncPools
from steelyard.client.asynchronous.programs import AsyncPrograms
from steelyard.client.asynchronous.releases import AsyncReleases
from steelyard.client.asynchronous.resources import AsyncResources
from steelyard.client.asynchronous.workloads import AsyncWorkloads


class AsyncClient(
    AsyncWorkloads, AsyncPrograms, AsyncReleases, AsyncResources, AsyncPools, AsyncObjects, AsyncEvidence,
    AsyncForesight, AsyncAccess,
):
    """A server as a program sees it. Usable as an asynchronous context manager, within one event loop.

    Methods are those of `Client` and raise as they do; what is iterated over there is iterated over with
    `async for` here.
    """
