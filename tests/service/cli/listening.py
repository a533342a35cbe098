"""The server that is a table of answers, on a port of its own."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.service.cli.fake import installed


class House:
    """A server on a port of its own that can go away, come back and hang."""

    def __init__(self) -> None:
        self.fake = installed()
        self.answering = threading.Event()
        self.answering.set()
        self.asked = threading.Event()
        self._port = 0
        self._listening = self._listen()

    def _listen(self) -> ThreadingHTTPServer:
        house = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                house.asked.set()
                house.answering.wait(60)
                answer = house.fake.answers["GET " + self.path.partition("?")[0]][0]
                status, answer = answer if isinstance(answer, tuple) else (200, answer)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        listening = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        listening.daemon_threads = True
        self._port = listening.server_port
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        return listening

    def leave(self) -> None:
        self._listening.shutdown()
        self._listening.server_close()

    def come_back(self) -> None:
        self._listening = self._listen()

    def environ(self, lang: str = "en", **more: str) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._port}"
        own = {"STEELYARD_URL": url, "STEELYARD_LANG": lang, "HOME": "/nonexistent", "PYTHONUTF8": "1"}
        return {**os.environ, **own, **more}
