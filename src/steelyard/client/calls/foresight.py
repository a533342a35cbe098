"""Requests on what would come of changes, on start estimates, and on windows of the past decided again."""

from __future__ import annotations

from steelyard.client.call import Call, get, post
from steelyard.client.views import Json

#: How long a question about a whole window may take.
WINDOW_SECONDS = 900.0


def what_if(changes: list[Json]) -> Call[Json]:
    """What would come of changes."""
    return post("/v1/what-if", {"changes": changes}, patience=WINDOW_SECONDS)


def estimates(workload: str | None, project: str | None) -> Call[Json]:
    """When what waits will start."""
    return get("/v1/estimates", {"workload": workload, "project": project})


def policy_preview(documents: list[Json], since: int | None, until: int | None) -> Call[Json]:
    """A window of the past under other documents."""
    body = {"documents": documents, "since": since, "until": until}
    given = {key: value for key, value in body.items() if value is not None}
    return post("/v1/policy:preview", given, patience=WINDOW_SECONDS)


def replay_window(since: int | None, until: int | None, cursor: str | None, limit: int | None) -> Call[Json]:
    """Some cycles of a window decided again."""
    body = {"since": since, "until": until, "cursor": cursor, "limit": limit}
    given = {key: value for key, value in body.items() if value is not None}
    return post("/v1/cycles:replay", given, patience=WINDOW_SECONDS)
