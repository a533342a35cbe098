"""Live pages: `change` events of what the reader may see."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import Services, ServicesDep
from steelyard.api.streams import ASK_AGAIN, KEEP_ALIVE, Broadcaster, event, keep_alive, readers, stream
from steelyard.identity.authorise import scope
from steelyard.model.errors import SteelyardError, UnavailableError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.changes import Change, end_of_log, read_changes

router = APIRouter(prefix="/v1/events", tags=["events"])
_KEY = "broadcaster"
#: Entries of the log that a reader may have missed; one that was away longer reads everything anew.
MOST_MISSED = 20_000


def broadcaster(services: Services) -> Broadcaster:
    """The app's one reader of changes."""
    found = services.extra.get(_KEY)
    if not isinstance(found, Broadcaster):
        found = services.extra[_KEY] = Broadcaster(services.store)
    return found


def secret_of(request: Request) -> str:
    """The bearer secret, for a stream that asks again whether it still holds."""
    return request.headers.get("authorization", "").partition(" ")[2].strip()


async def still(services: Services, secret: str) -> Principal | None:
    """Who the secret stands for now; None once it is revoked or expired."""
    try:
        return await anyio.to_thread.run_sync(services.principals.principal_of, secret)
    except SteelyardError:
        return None


def last_event(request: Request) -> int | None:
    """What a reader that comes back says it has seen; None for a new one, or for what no event ever had."""
    given = request.headers.get("last-event-id", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None


@router.get("/stream", response_class=StreamingResponse)
async def changes(
    request: Request,
    who: PrincipalDep,
    services: ServicesDep,
    kind: Annotated[str | None, Query(max_length=63)] = None,
    project: Annotated[str | None, Query(max_length=63)] = None,
    after: Annotated[
        int | None, Query(ge=-1, le=2**53, description="the last event seen; as the header Last-Event-ID")
    ] = None,
    seconds: Annotated[int, Query(ge=0, le=86_400, description="how long; then ask again")] = 3600,
) -> StreamingResponse:
    """Events `change` {kind, id, action, phase, version, project, at}, each with its place in the log as its
    id: whoever comes back with the last one goes on from there, at any server. `dropped` when the reader was
    too slow or away too long, after which the stream ends and what is shown is to be read anew."""
    found = broadcaster(services)
    if found.full:
        raise UnavailableError("too-many-streams")
    reading = readers(services, "events")
    reading.admit(who.id)
    seen = [scope(who, Verb.VIEW, "workload")]

    def wanted(change: Change) -> bool:
        narrowed = kind in (None, change.kind) and project in (None, change.project)
        return narrowed and change.visible(seen[0])

    last = after if after is not None else last_event(request)
    told = _changes(found, services, secret_of(request), seen, wanted, seconds, last)
    return stream(reading.counted(who.id, told))


async def _changes(
    source: Broadcaster,
    services: Services,
    secret: str,
    seen: list[Scope],
    wanted: Callable[[Change], bool],
    seconds: int,
    last: int | None,
) -> AsyncGenerator[bytes, None]:
    """`seen` holds the reader's scope, which is asked for again before anything is told."""
    subscriber, until = source.subscribe(wanted), time.monotonic() + seconds
    asked, ending = time.monotonic(), services.stopping.is_set
    try:
        end = await anyio.to_thread.run_sync(end_of_log, services.store)
        at = end if last is None else min(last + 1, end)
        yield event("hello", {}, at - 1)
        if end - at > MOST_MISSED:
            yield event("dropped", {"code": "reader-too-slow"})
            return
        while at < end:
            missed, at = await anyio.to_thread.run_sync(read_changes, services.store, at)
            for known in filter(wanted, missed):
                yield event("change", _shown(known), known.seq)
        while not subscriber.dropped:
            left = until - time.monotonic()
            if left <= 0 or ending():
                yield event("end", {"code": "server-stopping" if ending() else "time-reached"})
                return
            change = await subscriber.next(min(KEEP_ALIVE, left), ending)
            if change is None or time.monotonic() - asked >= ASK_AGAIN:
                now = await still(services, secret)
                if now is None:
                    yield event("end", {"code": "credential-invalid"})
                    return
                seen[0], asked = scope(now, Verb.VIEW, "workload"), time.monotonic()
            if change is None:
                yield keep_alive()
            elif wanted(change) and change.seq >= at:  # others were told with what was missed
                yield event("change", _shown(change), change.seq)
        yield event("dropped", {"code": "reader-too-slow"})
    finally:
        source.leave(subscriber)


def _shown(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "id": change.id,
        "action": change.action,
        "phase": change.phase,
        "version": change.version,
        "project": change.project,
        "at": change.at,
        "seq": change.seq,
    }
