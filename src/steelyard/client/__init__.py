"""The Python SDK: what a program outside sees of a server.

    with Client("http://127.0.0.1:7580", token=...) as client:
        workload = client.submit({"kind": "Workload", ...})
        done = client.wait(workload["id"])
"""

from steelyard.client.client import Client
from steelyard.client.documents import load_documents, read_documents
from steelyard.client.errors import ApiError, NotReachableError, WaitTimeoutError

__all__ = [
    "ApiError",
    "Client",
    "NotReachableError",
    "WaitTimeoutError",
    "load_documents",
    "read_documents",
]
