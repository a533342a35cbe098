"""The server's end of the runner's socket: starts a runner where none answers, and asks again when one dies.

Every operation is idempotent, so a request whose reply was lost is sent once more to whoever is there then.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from steelyard.engines.local import protocol
from steelyard.engines.local.paths import Layout, short_socket_path
from steelyard.engines.local.stranger import RunnerMismatch
from steelyard.engines.local.stream import LocalStream
from steelyard.engines.port import EngineUnavailable
from steelyard.model.errors import UnavailableError

T = TypeVar("T")
_START_SECONDS = 15.0
_REPLY_SECONDS = 30.0
_RUNNER = "steelyard.engines.local.runner"


class Link:
    """One connection, used by one thread at a time. Raises EngineUnavailable, and nothing else."""

    def __init__(self, layout: Layout, install_id: str, idle_seconds: float | None = None) -> None:
        self._layout = layout
        self._install = install_id
        self._idle = idle_seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._cut = False  # nobody waits for an answer any more
        self.hello: dict[str, Any] = {}

    def ask(self, operation: str, **fields: Any) -> Any:
        """The result of an operation."""
        return self._try_twice(lambda: self._exchange({"op": operation, **fields}))

    def _try_twice(self, act: Callable[[], T]) -> T:
        """Over a connection that may turn out to be to a runner that is gone: then to the next one."""
        with self._lock:
            for last in (False, True):
                try:
                    self._connect()
                    return act()
                except (OSError, ValueError) as failed:  # ValueError: a reply cut short
                    self._disconnect()
                    if last or self._cut:
                        raise EngineUnavailable("runner-unreachable", text=str(failed)[:200]) from failed
        raise AssertionError("unreachable")

    def another(self) -> Link:
        """A link to the same runner."""
        return Link(self._layout, self._install, self._idle)

    def tell(self, operation: str, **fields: Any) -> None:
        """Asks for an operation whose result nobody waits for; whether it was done is not known."""
        self._try_twice(lambda: self._send({"op": operation, **fields}))

    def open_stream(self, operation: str, **fields: Any) -> LocalStream:
        """A connection of its own that the runner hands over to whatever the operation starts. Not sent
        again: what the runner answers is raised as UnavailableError with its code."""
        self.ask("running")  # a runner is there, and its version is known
        if int(self.hello["protocol"]) < protocol.WITH_EXEC:
            raise UnavailableError("exec-not-supported", reason="runner-protocol")
        one = self.another()
        try:
            with one._lock:
                one._connect()
                one._exchange({"op": operation, **fields})
                sock, one._socket = one._socket, None
                assert sock is not None
                return LocalStream(sock, bytes(one._received))
        except EngineUnavailable as refused:
            if refused.code == "runner-refused":
                raise UnavailableError(str(refused.params["reason"])) from refused
            raise
        except (OSError, ValueError) as failed:
            raise EngineUnavailable("runner-unreachable", text=str(failed)[:200]) from failed
        finally:
            one.close()

    def news(self) -> Iterator[None]:
        """Yields whenever the runner says that there is something to observe, until it is gone or `close` is
        called. Ends at once where the runner does not tell such things."""
        self.ask("running")
        if int(self.hello["protocol"]) < protocol.WITH_NEWS:
            return
        self.ask("listen")
        sock = self._socket
        while sock is not None:
            try:
                self._line(sock)
            except TimeoutError:
                continue
            except (OSError, ValueError):
                return
            yield

    def cut(self) -> None:
        """Ends a wait in another thread, for news or an answer; the link is of no use afterwards."""
        self._cut = True
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Lets go of the connection; the runner goes on."""
        with self._lock:
            self._disconnect()
            if self._process is not None:
                self._process.poll()

    # ---- the connection

    def _connect(self) -> None:
        """To a runner that answers. A socket may be there without one: a process that a runner had just
        forked when it was killed has it for a moment still."""
        if self._socket is not None:
            return
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if self._try_connect():
                try:
                    self.hello = self._greet()
                    return
                except (OSError, ValueError):
                    self._disconnect()
                    if self._cut or time.monotonic() > deadline:
                        raise
            elif self._process is None or self._process.poll() is not None:
                self._start_runner()
            if self._cut or time.monotonic() > deadline:
                raise EngineUnavailable("runner-not-started", folder=self._layout.data)
            time.sleep(0.01)

    def _greet(self) -> dict[str, Any]:
        """What the runner says of itself. Raises RunnerMismatch where there is no version in common."""
        ours = ", ".join(map(str, protocol.ADOPTABLE))
        try:
            hello: dict[str, Any] = self._exchange(
                {"op": "hello", "versions": list(protocol.ADOPTABLE), "install": self._install}
            )
        except EngineUnavailable as refused:
            self._disconnect()
            if refused.params.get("reason") == "protocol-version":
                raise RunnerMismatch(str(refused.params.get("text")), ours) from refused
            raise
        if hello.get("protocol") not in protocol.ADOPTABLE:
            self._disconnect()
            raise RunnerMismatch(str(hello.get("protocol")), ours)
        return hello

    def _try_connect(self) -> bool:
        try:
            folder = os.open(self._layout.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_REPLY_SECONDS)
            sock.connect(short_socket_path(folder))
        except OSError:
            sock.close()
            return False
        finally:
            os.close(folder)
        self._socket = sock
        self._received.clear()
        return True

    def _start_runner(self) -> None:
        """Starts a runner. Two servers may both do so: the folder's lock lets one of them stay."""
        try:
            self._layout.make()
            command = [sys.executable, "-I", "-m", _RUNNER, "--data", self._layout.data]
            if self._idle is not None:
                command += ["--idle", str(self._idle)]
            self._process = subprocess.Popen(
                command, cwd="/", env=_env(), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        except OSError as failed:
            raise EngineUnavailable("runner-not-started", folder=self._layout.data) from failed

    def _exchange(self, request: dict[str, Any]) -> Any:
        sock = self._socket
        if sock is None or self._cut:
            raise ConnectionError("not connected")
        self._send(request)
        while True:
            reply = protocol.decode(self._line(sock))
            if reply.get("id") == self._number:  # an older one answers what nobody waited for
                break
        if not reply["ok"]:
            why, said = str(reply["code"]), str(reply["text"])[:300]
            raise EngineUnavailable("runner-refused", reason=why, text=said)
        return reply["result"]

    def _send(self, request: dict[str, Any]) -> None:
        if self._socket is None:
            raise ConnectionError("not connected")
        self._number += 1
        self._socket.sendall(protocol.encode({"id": self._number, **request}))

    def _line(self, sock: socket.socket) -> bytes:
        while (end := self._received.find(b"\n")) < 0:
            chunk = sock.recv(1 << 18)
            if not chunk:
                raise ConnectionError("the runner closed the connection")
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()


def _env() -> dict[str, str]:
    """The runner's environment: of the server's only where its home is, for isolated programs must not see
    that."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": os.path.expanduser("~")}
