"""A workload's log: the end of a member's on its page, where a script follows it, and as a whole file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from steelyard.console import answers
from steelyard.console.visit import Visit
from steelyard.engines.port import LogChunk
from steelyard.identity.authorise import scope
from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Verb
from steelyard.services.logs import MAX_CHUNK, find_member, read_chunk
from steelyard.store.scoped import Record

SHOWN = 32 * 1024
MAX_LISTED = 200  # members to choose from
MAX_FILE = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Log:
    """What is shown of it. `error`: why nothing can be. `stream`: where it goes on; None after its end."""

    member: str
    members: tuple[tuple[str, str], ...]  # (id, role/index #attempt), the newest attempt first
    text: str = ""
    cut: int = 0  # bytes before what is shown
    stream: str | None = None
    error: str | None = None


def log_of(visit: Visit, view: Mapping[str, Any]) -> Log | None:
    """The log of the member that `?member=` names, or of the first of the newest attempt; None where no
    attempt has begun."""
    members = tuple(
        (member["id"], f"{member['role']}/{member['index']} #{attempt['number']}")
        for attempt in reversed(view["attempts"])
        for member in attempt["members"]
    )
    if not members:
        return None
    wanted = visit.asked("member", 128)
    chosen = wanted if wanted in dict(members) else members[0][0]
    members = tuple(m for index, m in enumerate(members) if index < MAX_LISTED or m[0] == chosen)
    try:
        return _read(visit, view["id"], chosen, members)
    except SteelyardError as error:
        return Log(chosen, members, error=visit.speech.error(error.code, error.params))


def whole_log(visit: Visit) -> Response:
    """A member's log as it is now, as a file. Raises NotFoundError, UnavailableError."""
    workload, seen = visit.named("workload_id"), scope(visit.principal, Verb.VIEW, "workload")
    wanted = visit.asked("member", 128) or None
    with visit.console.store.read() as view:
        found = find_member(view, seen, parse("workload", workload), wanted)
    first = read_chunk(visit.console.engines.get, found, 0, MAX_CHUNK)
    name = f"{workload}-{found['role']}-{found['idx']}.log"
    headers = {**answers.HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    chunks = _chunks(visit, found, first)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8", headers=headers)


def _chunks(visit: Visit, member: Record, chunk: LogChunk) -> Iterator[bytes]:
    """From the first chunk to what is the end now; one that can't be read any more ends the file."""
    sent = 0
    while chunk.data and sent < MAX_FILE:
        sent += len(chunk.data)
        yield chunk.data
        try:
            chunk = read_chunk(visit.console.engines.get, member, chunk.next_offset, MAX_CHUNK)
        except SteelyardError:
            return


def _read(visit: Visit, workload: str, member: str, members: tuple[tuple[str, str], ...]) -> Log:
    seen = scope(visit.principal, Verb.VIEW, "workload")
    with visit.console.store.read() as view:
        found = find_member(view, seen, parse("workload", workload), member)
    chunk = read_chunk(visit.console.engines.get, found, -SHOWN, SHOWN)
    first = chunk.next_offset - len(chunk.data)
    text = chunk.data.decode("utf-8", "replace")
    if first:
        text = text.partition("\n")[2] or text  # not from the middle of a line
    query = urlencode({"member": render("member", found["id"]), "offset": chunk.next_offset})
    stream = None if chunk.end else f"/v1/workloads/{workload}/logs/stream?{query}"
    return Log(member, members, text, first, stream)
