"""Doors made with the SDK: what a program outside would use."""

from __future__ import annotations

from typing import Any

from steelyard.client.transport import Transport, decoded
from steelyard.demo.door import Door, Query


class SdkDoor:
    """One user's connection. Every change carries an idempotency key of its own."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None
    ) -> tuple[int, Any]:
        """Status and decoded body. Raises NotReachableError where nobody answers."""
        answer = self._transport.call(method, path, query=query, body=body)
        try:
            return answer.status_code, answer.json() if answer.content else None
        except ValueError:
            return answer.status_code, answer.text[:400]

    def download(self, path: str, body: Any) -> bytes:
        """The bytes that a POST answers with. Raises ApiError for anything but success."""
        answer = self._transport.call("POST", path, body=body)
        if answer.status_code >= 400:
            decoded(answer)
        return answer.content


def open_door(url: str, user: str, password: str, lang: str) -> Door:
    """The door of a user who logs in; of nobody, where no user is named. Raises ApiError."""
    transport = Transport(url, None, lang, timeout=60.0)
    if user:
        answer = transport.call("POST", "/v1/sessions", body={"user": user, "password": password})
        transport.token = decoded(answer)["token"]
    return SdkDoor(transport)
