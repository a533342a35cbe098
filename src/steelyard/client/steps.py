"""What takes several requests, written once: generators that say what is to be sent and are given the answer.

A generator yields `Call`s and `Pause`s and returns the result; the two clients carry it out, each in its way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Generator
from typing import Any, TypeAlias, TypeVar

from steelyard.client.call import PAGE, Call, Pages, Pause
from steelyard.client.calls import releases, workloads
from steelyard.client.errors import ApiError, NotReachableError, WaitTimeoutError
from steelyard.client.shown import shown
from steelyard.client.transport import parsed
from steelyard.client.views import Json, LogChunk, WorkloadView

T = TypeVar("T")
Steps: TypeAlias = Generator["Call[Any] | Pause", Any, T]

_POLL = (0.1, 1.0)  # seconds: the first pause of a wait, and the longest
_RELEASE_POLL = 0.2
_RECONNECTS = 3  # of a followed log, without a byte between them
RECONNECT_SECONDS = 1.0
#: Workloads in one request of `submit_many`.
BULK = 500


def items(pages: Pages[T], most: int | None, lang: str) -> Steps[list[T]]:
    """Items of all pages, at most `most`."""
    found: list[T] = []
    cursor: str | None = None
    while most is None or len(found) < most:
        page = yield pages.page(cursor, PAGE if most is None else min(PAGE, most - len(found)))
        rows, cursor = rows_of(page)
        found += rows
        if not cursor:
            break
    result: list[T] = shown(found if most is None else found[:most], pages.of, lang)
    return result


def rows_of(page: Any) -> tuple[list[Any], str | None]:
    """The rows of a page and the cursor of the next one; some lists come whole."""
    return (page, None) if isinstance(page, list) else (page["items"], page.get("next_cursor"))


def submit_many(documents: list[Json], key: str | None) -> Steps[list[Json]]:
    """Submits `BULK` a request."""
    results: list[Json] = []
    for number, begin in enumerate(range(0, len(documents), BULK)):
        numbered = None if key is None else f"{key}.{number}"
        results += (yield workloads.submit_many(documents[begin : begin + BULK], numbered))
    return results


def find(name: str) -> Steps[str]:
    """The id of the newest workload of a name."""
    if name.startswith("wl_"):
        return name
    page = yield workloads.workloads({"q": name, "order": "newest"}).page(None)
    for row in rows_of(page)[0]:
        if row["name"] == name:
            return str(row["id"])
    raise ApiError(404, {"code": "not-found", "params": {"kind": "workload", "id": name[:80]}})


def wait(
    workload_id: str,
    until: str | Collection[str],
    timeout: float | None,
    on_change: Callable[[WorkloadView], None] | None,
    clock: Callable[[], float],
) -> Steps[WorkloadView]:
    """Asks until the workload is in one of the phases, or has finished."""
    wanted = {until} if isinstance(until, str) else set(until)
    deadline = None if timeout is None else clock() + timeout
    pause, seen = _POLL[0], -1
    while True:
        view: WorkloadView = yield workloads.workload(workload_id)
        if view["version"] != seen:
            seen, pause = view["version"], _POLL[0]
            if on_change is not None:
                on_change(view)
        if view["phase"] in wanted or view["phase"] == "finished":
            return view
        if deadline is not None and clock() >= deadline:
            raise WaitTimeoutError(
                "wait-timed-out", id=workload_id, seconds=int(timeout or 0), phase=view["phase"]
            )
        yield Pause(pause)
        pause = min(pause * 1.5, _POLL[1])


def release_answer(release_id: str, timeout: float, clock: Callable[[], float]) -> Steps[Json]:
    """Asks until what was asked of a release is answered."""
    deadline = clock() + timeout
    while True:
        view: Json = yield releases.unproven_release(release_id)
        if view["asked"] is None:
            return view
        if clock() >= deadline:
            raise WaitTimeoutError("wait-timed-out", id=release_id, seconds=int(timeout), phase=view["state"])
        yield Pause(_RELEASE_POLL)


def log_piece(chunk: LogChunk, offset: int) -> tuple[bytes, int | None]:
    """The bytes of a piece of a log, and where to go on; None at the end."""
    data = base64.b64decode(chunk["data_base64"])
    following = chunk["next_offset"]
    return data, following if data and following > offset else None


class Following:
    """Where a followed log stands, over its connections."""

    def __init__(self, workload_id: str, member: str | None) -> None:
        self.path = workloads.log_stream(workload_id)
        self.ended = False
        self._member, self._offset, self._failures = member, 0, 0

    def query(self) -> dict[str, str | int | bool | None]:
        """From where the next connection reads."""
        return {"member": self._member, "offset": self._offset}

    def heard(self, name: str, data: str) -> bytes:
        """The bytes of an event, empty for others. Raises ApiError when the log can't be read any more."""
        if name == "log":
            piece = base64.b64decode(data)
            self._failures, self._offset = 0, self._offset + len(piece)
            return piece
        if name == "error":
            raise ApiError(503, parsed(data) or {})
        self.ended = name == "end"
        return b""

    def lost(self, error: NotReachableError) -> None:
        """A connection broke off. Raises the error when it did too often."""
        self._failures += 1
        if self._failures >= _RECONNECTS:
            raise error
