"""A proxy in front of a server: a candidate that lies in one way. Nothing of the server is changed.

`Stale` answers for ten minutes as it did before; `Swapping` asks for another class than it was asked.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_HOP = {"connection", "content-length", "content-encoding", "transfer-encoding", "host", "keep-alive"}


class Proxy:
    """Passes everything on. A lie overrides `asked` or `answered`."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30.0, trust_env=False)

    def asked(self, method: str, path: str, body: bytes) -> bytes:
        """The body that the server is given."""
        return body

    def answered(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """The answer to a request."""
        return self._client.request(method, path, content=self.asked(method, path, body), headers=headers)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, on loopback, as long as the block lasts."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            self._client.close()


class Stale(Proxy):
    """The inventory is cached for ten minutes."""

    def __init__(self, url: str, seconds: float = 600.0) -> None:
        super().__init__(url)
        self._seconds = seconds
        self._kept: dict[str, tuple[float, httpx.Response]] = {}

    def answered(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """What it answered before, if it was asked the same within the time."""
        if method != "GET" or not path.startswith(("/v1/inventory", "/v1/devices")):
            return super().answered(method, path, body, headers)
        at, kept = self._kept.get(path, (0.0, None))
        if kept is None or time.monotonic() - at > self._seconds:
            kept = super().answered(method, path, body, headers)
            self._kept[path] = (time.monotonic(), kept)
        return kept


class Swapping(Proxy):
    """A request for GPUs is served from cores."""

    def asked(self, method: str, path: str, body: bytes) -> bytes:
        """The same request, for a core in place of each GPU."""
        if method != "POST" or path.partition("?")[0] != "/v1/workloads":
            return body
        document: dict[str, Any] = json.loads(body)
        for role in document["spec"]["roles"]:
            if role["requests"].pop("gpu", None) is not None:
                role["requests"]["cpu"] = "1"
                for key in ("flavors", "models"):
                    role.pop(key, None)
        return json.dumps(document).encode()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            answer = proxy.answered(self.command, self.path, body, headers)
            self.send_response(answer.status_code)
            for key, value in answer.headers.items():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = _pass

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    return Handler
