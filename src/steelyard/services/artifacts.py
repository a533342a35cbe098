"""What attempts left as their results, found from the workload: path, size and digest, also of files that
were removed since."""

from __future__ import annotations

from typing import Any

from steelyard.engines.port import Artifacts
from steelyard.identity.authorise import scope
from steelyard.model.errors import NotFoundError
from steelyard.model.ids import render
from steelyard.model.organisation import Principal, Verb
from steelyard.services.logs import EngineLookup
from steelyard.store import workloads as repository
from steelyard.store.store import Store

Json = dict[str, Any]
MAX_MEMBERS = 200


def list_artifacts(store: Store, engines: EngineLookup, principal: Principal, workload_id: int) -> list[Json]:
    """Members that left something, the newest attempt first. Raises NotFoundError.

    A member whose cluster is not served by this server is shown with `files` None: not known, not empty.
    """
    with store.read() as view:
        seen = scope(principal, Verb.VIEW, "workload")
        if repository.get_workload(view, seen, workload_id) is None:
            raise NotFoundError("not-found", kind="workload", id=render("workload", workload_id))
        attempts = {row["id"]: row["number"] for row in repository.attempts_of(view, workload_id)}
        members = repository.members_of(view, list(attempts))
    shown: list[Json] = []
    for member in sorted(members, key=lambda row: (-row["attempt_id"], row["id"]))[:MAX_MEMBERS]:
        engine = engines(member["cluster"])
        attempt_id, name = render("attempt", member["attempt_id"]), render("member", member["id"])
        part = render("attempt", member["id"]) if member["apart"] else attempt_id  # as its engine knows it
        found = None if engine is None else engine.artifacts(part, name)
        if engine is not None and found is None:
            continue
        shown.append(
            {
                "attempt": attempt_id,
                "number": attempts[member["attempt_id"]],
                "member": name,
                "role": member["role"],
                "index": member["idx"],
                "cluster": member["cluster"],
                **_view(found),
            }
        )
    return shown


def _view(found: Artifacts | None) -> Json:
    if found is None:
        return {"listed_at": None, "complete": False, "files": None}
    files = [
        {"path": one.path, "bytes": one.bytes, "sha256": one.sha256, "there": one.there}
        for one in found.files
    ]
    return {"listed_at": found.at, "complete": found.complete, "files": files}
