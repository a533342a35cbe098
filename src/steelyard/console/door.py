"""One address for programs and people: the API's paths to the API, all others to the console.

A browser can't send a credential with a stream of events, only its cookies. So on the streams, which only
tell and change nothing, the session's cookie stands for the credential that is not there.
"""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from steelyard.console.cookies import SESSION

_API = re.compile(r"/(v1|healthz|readyz|metrics)(/.*)?")
_STREAM = re.compile(r"/v1/(events|workloads/[^/]+/logs)/stream")


class Door:
    """ASGI app in front of both. `own` are the first parts of the console's addresses. Start and end of the
    server are the API's."""

    def __init__(self, api: ASGIApp, console: ASGIApp, own: frozenset[str]) -> None:
        self._api = api
        self._console = console
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's start and end."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
        elif self._is_for_people(scope):
            await self._console(scope, receive, send)
        else:
            await self._api(_with_session(scope), receive, send)

    def _is_for_people(self, scope: Scope) -> bool:
        """A program that is wrong about an address is told so as a program, a browser by a page."""
        path = scope["path"]
        if _API.fullmatch(path):
            return False
        first = path.lstrip("/").partition("/")[0]
        return first in self._own or "text/html" in Headers(scope=scope).get("accept", "")


def _with_session(scope: Scope) -> Scope:
    headers = Headers(scope=scope)
    if scope["method"] != "GET" or "authorization" in headers or not _STREAM.fullmatch(scope["path"]):
        return scope
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return scope
    name = f"__Host-{SESSION}" if scope.get("scheme") == "https" else SESSION
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        found = None
    if found is None or not found.value.isascii():
        return scope
    bearer = (b"authorization", b"Bearer " + found.value.encode())
    return {**scope, "headers": [*scope["headers"], bearer]}
