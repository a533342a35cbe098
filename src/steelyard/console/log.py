"""The log of a workload on its page: the end of one member's, as text, and where a script follows it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from steelyard.console.visit import Visit
from steelyard.identity.authorise import scope
from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Verb
from steelyard.services.logs import find_member, read_chunk

SHOWN = 32 * 1024


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
    try:
        return _read(visit, view["id"], chosen, members)
    except SteelyardError as error:
        return Log(chosen, members, error=visit.speech.error(error.code, error.params))


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
