"""Whether services answer: a plain HTTP request to each, without waiting for any. Standard library only."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable

from steelyard.engines.local.book import RUNNING, Record

#: Often until the first answer, for that is waited for; once a second after it.
_FIRST = 0.2
_LATER = 1.0
_PATIENCE = 2.0
_MISSES = 3


class _Probe:
    """One request under way, and how the last ones went."""

    __slots__ = ("deadline", "due", "misses", "record", "socket")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.socket: socket.socket | None = None
        self.deadline = 0.0
        self.due = 0.0
        self.misses = 0


class Prober:
    """Probes every running member of a service; tells `changed` when one becomes ready or ceases to be."""

    def __init__(self, selector: selectors.BaseSelector, changed: Callable[[Record], None]) -> None:
        self._selector = selector
        self._changed = changed
        self._probes: dict[str, _Probe] = {}

    def watch(self, record: Record) -> None:
        """Takes a running member in; does nothing for what is no service or has no port."""
        if record.attempt["service"] and record.member["port"] is not None:
            self._probes.setdefault(record.id, _Probe(record))

    def tick(self) -> float | None:
        """Starts what is due; seconds until the next one, None when nothing is probed."""
        now = time.monotonic()
        for name, probe in list(self._probes.items()):
            if probe.record.phase != RUNNING:
                self._close(probe)
                del self._probes[name]
            elif probe.socket is not None and now >= probe.deadline:
                self._result(probe, False)
            elif probe.socket is None and now >= probe.due:
                self._begin(probe, now)
        times = [p.due if p.socket is None else p.deadline for p in self._probes.values()]
        return max(0.0, min(times) - now) if times else None

    def _begin(self, probe: _Probe, now: float) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        probe.socket = sock
        probe.deadline = now + _PATIENCE
        if sock.connect_ex(("127.0.0.1", probe.record.member["port"])) not in (0, errno.EINPROGRESS):
            self._result(probe, False)
            return
        self._selector.register(sock, selectors.EVENT_WRITE, lambda _mask: self._send(probe))

    def _send(self, probe: _Probe) -> None:
        sock = probe.socket
        if sock is None:
            return
        path = probe.record.attempt["probe_path"]
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._result(probe, False)
        elif path is None:  # no path declared: that something listens is all there is to see
            self._result(probe, True)
        else:
            request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            try:
                sock.send(request.encode("utf-8", "replace"))
            except OSError:
                self._result(probe, False)
                return
            self._selector.modify(sock, selectors.EVENT_READ, lambda _mask: self._receive(probe))

    def _receive(self, probe: _Probe) -> None:
        if probe.socket is None:
            return
        try:
            words = probe.socket.recv(64).split(b" ")
        except OSError:
            words = []
        good = len(words) > 1 and words[0].startswith(b"HTTP/") and words[1][:1] in (b"2", b"3")
        self._result(probe, good)

    def _result(self, probe: _Probe, good: bool) -> None:
        self._close(probe)
        probe.misses = 0 if good else probe.misses + 1
        record = probe.record
        probe.due = time.monotonic() + (_LATER if record.ready_at is not None or good else _FIRST)
        ready = good or (record.ready and probe.misses < _MISSES)
        if ready == record.ready:
            return
        record.ready = ready
        if ready and record.ready_at is None:
            record.ready_at = time.time_ns() // 1000
        self._changed(record)

    def _close(self, probe: _Probe) -> None:
        if probe.socket is None:
            return
        if probe.socket in self._selector.get_map():
            self._selector.unregister(probe.socket)
        probe.socket.close()
        probe.socket = None
