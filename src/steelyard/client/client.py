"""The client: one method for each thing that can be asked of a server."""

from __future__ import annotations

from steelyard.client.nouns.access import Access
from steelyard.client.nouns.evidence import Evidence
from steelyard.client.nouns.foresight import Foresight
from steelyard.client.nouns.objects import Objects
from steelyard.client.nouns.pools import Pools
from steelyard.client.nouns.programs import Programs
from steelyard.client.nouns.releases import Releases
from steelyard.client.nouns.resources import Resources
from steelyard.client.nouns.workloads import Workloads


class Client(Workloads, Programs, Releases, Resources, Pools, Objects, Evidence, Foresight, Access):
    """A server as a program sees it. Usable as a context manager; not shared between threads.

    Methods raise `ApiError` for a problem the server answered with and `NotReachableError` where there
    is no answer. Times are µs UTC.
    """
