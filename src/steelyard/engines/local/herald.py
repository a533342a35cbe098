"""Being told by the runner that members may have ended, over a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from steelyard.engines.local.link import Link
from steelyard.engines.port import EngineUnavailable

#: Seconds until a runner that was lost, or does not tell, is asked again.
_AGAIN = 2.0


class Listener:
    """A thread that waits for news. What it misses, the next poll sees."""

    def __init__(self, link: Link, tell: Callable[[], None]) -> None:
        self._link = link
        self._tell = tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runner-news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self._link.cut()
        self._thread.join(timeout=5)
        self._link.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                for _ in self._link.news():
                    self._tell()
            except EngineUnavailable:
                pass  # whoever asks for something finds out, and says so
            self._link.close()
            self._ended.wait(_AGAIN)
