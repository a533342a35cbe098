"""Requests on declared objects."""

from __future__ import annotations

from typing import Any

from steelyard.client.call import Call, Pages, delete, get, part, post
from steelyard.client.views import ApplyResult, Json


def apply(documents: list[Json], dry_run: bool, reason: str | None) -> Call[list[ApplyResult]]:
    """Declares objects."""
    return post(
        "/v1/objects:apply",
        {"documents": documents},
        query={"dry_run": dry_run, "reason": reason},
        of="results",
        pick=lambda answer: answer["results"],
    )


def export() -> Call[list[Json]]:
    """All declared documents."""
    return Call("GET", "/v1/objects:export", of="objects", pick=_documents)


def objects(kind: str, at: int | None) -> Pages[Json]:
    """Declared objects of a kind."""
    return Pages("/v1/objects", {"kind": kind, "at": at}, of="objects")


def object_(kind: str, name: str) -> Call[Json]:
    """One declared object."""
    return get(f"/v1/objects/{part(kind)}/{part(name)}", of="object")


def history(kind: str, name: str) -> Pages[Json]:
    """Its versions."""
    return Pages(f"/v1/objects/{part(kind)}/{part(name)}/history", of="objects")


def retire(kind: str, name: str) -> Call[Any]:
    """The end of an object."""
    return delete(f"/v1/objects/{part(kind)}/{part(name)}")


def _documents(answer: Any) -> Any:
    if isinstance(answer, list):
        return answer
    return next((answer[key] for key in ("documents", "items") if key in answer), [])
