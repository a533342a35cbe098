"""The Python SDK: what a program outside sees of a server.

    with Client("http://127.0.0.1:7580", token=...) as client:
        workload = client.submit({"kind": "Workload", ...})
        done = client.wait(workload["id"])

    async with AsyncClient("http://127.0.0.1:7580", token=...) as client:
        async for piece in client.follow_logs(workload["id"]):
            ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from steelyard.client.client import Client
from steelyard.client.documents import load_documents, read_documents
from steelyard.client.errors import ApiError, NotReachableError, WaitTimeoutError

if TYPE_CHECKING:
    from steelyard.client.asynchronous.client import AsyncClient

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "NotReachableError",
    "WaitTimeoutError",
    "load_documents",
    "read_documents",
]


def __getattr__(name: str) -> Any:
    """The asynchronous client, loaded when it is first named: the command line never needs it."""
    if name == "AsyncClient":
        return import_module("steelyard.client.asynchronous.client").AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
