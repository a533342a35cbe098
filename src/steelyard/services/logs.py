"""Logs of a member, read from the engine that has them. Bytes stay bytes: nobody here interprets them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from steelyard.engines.port import Engine, LogChunk, MemberPhase
from steelyard.model.errors import InvalidError, NotFoundError, UnavailableError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Scope
from steelyard.store import workloads as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record

MAX_CHUNK = 1024 * 1024
EngineLookup = Callable[[str], Engine | None]
#: Phases of a member of which its engine may not know yet.
EARLY = frozenset({MemberPhase.PENDING, MemberPhase.STARTING})


def find_member(connection: View, scope: Scope, workload_id: int, wanted: str | None) -> Record:
    """The member whose log is meant: an id, `ROLE/INDEX` of the newest attempt, or its first member.

    Raises NotFoundError for a workload or a member that is not there, or is not within the scope.
    """
    if wanted is not None and wanted.startswith("mb_"):
        member = repository.get_member(connection, scope, parse("member", wanted))
        if member is None or member["workload_id"] != workload_id:
            raise NotFoundError("not-found", kind="member", id=wanted)
        return member
    if repository.get_workload(connection, scope, workload_id) is None:
        raise NotFoundError("not-found", kind="workload", id=render("workload", workload_id))
    attempts = [row["id"] for row in repository.attempts_of(connection, workload_id)]
    members = repository.members_of(connection, attempts)
    newest = [row for row in members if row["attempt_id"] == max(r["attempt_id"] for r in members)]
    for row in newest:
        if wanted is None or wanted == f"{row['role']}/{row['idx']}":
            return row
    if wanted is not None:
        raise NotFoundError("not-found", kind="member", id=wanted[:80])
    raise NotFoundError("logs-not-yet", id=render("workload", workload_id))


def read_chunk(engines: EngineLookup, member: Record, offset: int, limit: int) -> LogChunk:
    """Bytes of a member's log. What an engine that does not know the member yet calls its end is none.

    Raises UnavailableError where its cluster can't be asked.
    """
    if not 1 <= limit <= MAX_CHUNK:
        raise InvalidError("limit-invalid", limit=limit, most=MAX_CHUNK)
    engine = engines(member["cluster"])
    if engine is None:
        raise UnavailableError("cluster-not-served", cluster=member["cluster"])
    chunk = engine.logs(render("member", member["id"]), offset, limit)
    unknown = chunk.end and chunk.next_offset == 0 and member["phase"] in EARLY
    return replace(chunk, end=False) if unknown else chunk


def chunk_view(member: Record, chunk: LogChunk) -> dict[str, Any]:
    """A chunk as JSON. `offset` is where its data begin, also where it was asked for from the end."""
    return {
        "member": render("member", member["id"]),
        "offset": chunk.next_offset - len(chunk.data),
        "next_offset": chunk.next_offset,
        "end": chunk.end,
        "data_base64": b64encode(chunk.data).decode(),
    }
