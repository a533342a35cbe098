"""Server-sent events: how they are written, and one reader of the log that tells many pages.

A page that does not read is not waited for: when its queue is full it is told so and let go.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio.to_thread
import msgspec
import structlog
from starlette.responses import StreamingResponse

from steelyard.api.context import Services
from steelyard.evidence.leaf import Sequenced
from steelyard.model.errors import UnavailableError
from steelyard.services.changes import BATCH, Change, end_of_log, read_changes
from steelyard.store.store import Store

QUEUE = 1000
LOOK_EVERY = 1.0  # seconds: changes that other servers committed
KEEP_ALIVE = 15.0  # seconds
ASK_AGAIN = 1.0  # seconds after which a stream that tells something asks whether its reader still may know
MAX_SUBSCRIBERS = 200
#: Streams of one kind that one user may have open at one server, so that nobody takes all of them.
MAX_OF_ONE = 50
LOOK_FOR_END = 0.5  # seconds
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)


def event(name: str, data: Any, number: int | None = None) -> bytes:
    """One event; its data is one line of JSON, or bytes without a line break as they are. `number` is what a
    reader that comes back names as the last one that it has seen."""
    line = data if isinstance(data, bytes) else _encode(data)
    seen = b"" if number is None else b"id: %d\n" % number
    return seen + b"event: " + name.encode() + b"\ndata: " + line + b"\n\n"


def keep_alive() -> bytes:
    """A comment, so that nobody between takes the connection for dead."""
    return b": \n\n"


def stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    """An endless answer."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


class Readers:
    """Who reads streams of one kind now. Lives in one event loop."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    def admit(self, user: str) -> None:
        """Raises UnavailableError `too-many-streams` where this one, or all together, have all they may."""
        if self._of[user] >= MAX_OF_ONE or self._of.total() >= MAX_SUBSCRIBERS:
            raise UnavailableError("too-many-streams")

    async def counted(self, user: str, events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The same events; the reader counts until they end, or nobody takes them any more."""
        self._of[user] += 1
        try:
            async with aclosing(events):
                async for one in events:
                    yield one
        finally:
            self._of[user] -= 1


def readers(services: Services, kind: str) -> Readers:
    """The app's readers of a kind of streams."""
    found = services.extra.get(f"readers-{kind}")
    if not isinstance(found, Readers):
        found = services.extra[f"readers-{kind}"] = Readers()
    return found


class Subscriber:
    """One page. `dropped` is set when it did not keep up."""

    def __init__(self, wanted: Callable[[Change], bool]) -> None:
        self.wanted = wanted
        self.queue: asyncio.Queue[Change] = asyncio.Queue(QUEUE)
        self.dropped = False

    def offer(self, change: Change) -> None:
        """Hand over without waiting."""
        if self.dropped or not self.wanted(change):
            return
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            self.dropped = True

    async def next(self, timeout: float, ending: Callable[[], bool]) -> Change | None:
        """The next change, None when none came in time, or soon after `ending` says so."""
        until = time.monotonic() + timeout
        while not ending() and (left := until - time.monotonic()) > 0:
            try:
                return await asyncio.wait_for(self.queue.get(), min(left, LOOK_FOR_END))
            except TimeoutError:
                continue
        return None


class Broadcaster:
    """Reads the log while anybody listens. Lives in one event loop; only `_wake` is called from others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        store.writer.on_publish(self._wake)

    def _wake(self, _done: Sequenced) -> None:
        loop = self._loop
        if loop is None or not self._subscribers:
            return
        try:
            loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            self._loop = None  # the event loop has ended; the writer has not

    @property
    def full(self) -> bool:
        """True when nobody more is taken."""
        return len(self._subscribers) >= MAX_SUBSCRIBERS

    def subscribe(self, wanted: Callable[[Change], bool]) -> Subscriber:
        """From now on. End it with `leave`."""
        subscriber = Subscriber(wanted)
        self._subscribers.add(subscriber)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._changed, self._task = loop, asyncio.Event(), None
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._pump())
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """No more for this one."""
        self._subscribers.discard(subscriber)

    async def _pump(self) -> None:
        at = await anyio.to_thread.run_sync(end_of_log, self._store)
        while self._subscribers:
            before = at
            try:
                changes, at = await anyio.to_thread.run_sync(read_changes, self._store, at)
            except Exception as error:  # the edge of this loop: a database that fails is looked at again
                _log.warning("changes not read", exc_info=error)
                changes = []
            for change in changes:
                for subscriber in self._subscribers:
                    subscriber.offer(change)
            if at - before < BATCH:
                await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), LOOK_EVERY)
        except TimeoutError:
            return
        self._changed.clear()
        await asyncio.sleep(0.05)  # what is committed within this time is told together
