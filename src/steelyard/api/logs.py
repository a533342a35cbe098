"""Logs of members: a chunk, or a stream that follows."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import Services, ServicesDep
from steelyard.api.events import secret_of, still
from steelyard.api.streams import ASK_AGAIN, KEEP_ALIVE, event, keep_alive, readers, stream
from steelyard.identity.authorise import scope
from steelyard.model.errors import NotFoundError, SteelyardError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.services.logs import EARLY, MAX_CHUNK, chunk_view, find_member, read_chunk
from steelyard.store.scoped import Record

router = APIRouter(prefix="/v1/workloads/{workload_id}/logs", tags=["logs"])
MemberQuery = Annotated[
    str | None, Query(max_length=128, description="mb_… or ROLE/INDEX of the newest attempt; else the first")
]
OffsetQuery = Annotated[int, Query(ge=-(2**40), le=2**62, description="negative: from the end")]
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds between looks at a log that does not grow


def _member(services: Services, who: Principal, workload_id: str, member: str | None) -> Record:
    with services.store.read() as view:
        return find_member(view, scope(who, Verb.VIEW, "workload"), parse("workload", workload_id), member)


@router.get("")
def chunk(
    workload_id: str,
    who: PrincipalDep,
    services: ServicesDep,
    member: MemberQuery = None,
    offset: OffsetQuery = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_CHUNK)] = 65536,
) -> dict[str, Any]:
    """Bytes of standard output and error as they were written, in base64. `end`: no more will come."""
    found = _member(services, who, workload_id, member)
    return chunk_view(found, read_chunk(services.engines.get, found, offset, limit))


@router.get("/stream", response_class=StreamingResponse)
async def follow(
    request: Request,
    workload_id: str,
    who: PrincipalDep,
    services: ServicesDep,
    member: MemberQuery = None,
    offset: OffsetQuery = 0,
) -> StreamingResponse:
    """Events `log` (data: the bytes in base64) as the log grows, and `end` after its last byte."""
    reading = readers(services, "logs")
    reading.admit(who.id)
    found = await anyio.to_thread.run_sync(_member, services, who, workload_id, member)
    return stream(reading.counted(who.id, _follow(services, secret_of(request), workload_id, found, offset)))


async def _again(services: Services, secret: str, workload_id: str, name: str) -> Record | str:
    """The member as it is now, or why the reader may read no more."""
    who = await still(services, secret)
    if who is None:
        return "credential-invalid"
    try:
        return await anyio.to_thread.run_sync(_member, services, who, workload_id, name)
    except NotFoundError as error:
        return error.code


async def _follow(
    services: Services, secret: str, workload_id: str, member: Record, offset: int
) -> AsyncGenerator[bytes, None]:
    pause, asked, told = FIRST_PAUSE, time.monotonic(), time.monotonic()
    name = render("member", member["id"])
    yield event("member", {"id": name, "role": member["role"], "index": member["idx"]})
    while True:
        if services.stopping.is_set():
            yield event("end", {"offset": offset, "code": "server-stopping"})
            return
        if member["phase"] in EARLY or time.monotonic() - asked >= ASK_AGAIN:
            asked, found = time.monotonic(), await _again(services, secret, workload_id, name)
            if isinstance(found, str):
                yield event("end", {"offset": offset, "code": found})
                return
            member = found
        try:
            read = await anyio.to_thread.run_sync(read_chunk, services.engines.get, member, offset, 65536)
        except SteelyardError as error:
            yield event("error", {"code": error.code, "params": error.params})
            return
        if read.data:
            yield event("log", b64encode(read.data))
            offset, pause = read.next_offset, FIRST_PAUSE
        if read.end:
            yield event("end", {"offset": read.next_offset})
            return
        if not read.data:
            offset = read.next_offset
            await anyio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        if time.monotonic() - told >= KEEP_ALIVE:
            told = time.monotonic()
            yield keep_alive()
