"""What a report is made of: answers of the API and the results of the expectations, nothing else.

`report.json` beside the report holds the same, so that the page can be made again from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from steelyard.demo.expect import Json, Result, Said, Seen


@dataclass(frozen=True, slots=True)
class Facts:
    """Any of it may be missing when a chapter did not come to its end; then its part of the page says so."""

    began: int
    ended: int
    lang: str
    results: tuple[Result, ...] = ()
    steps: list[Json] = field(default_factory=list)
    version: Json = field(default_factory=dict)
    summary: Json = field(default_factory=dict)  # when the accelerators were full, else the first one
    nodes: list[Json] = field(default_factory=list)  # of the same moment
    workloads: list[Json] = field(default_factory=list)  # every page, at the end
    explanation: Json = field(default_factory=dict)  # of `finetune`, as the administrator sees it
    refusals: list[Json] = field(default_factory=list)
    usage: Json = field(default_factory=dict)
    usage_by_team: Json = field(default_factory=dict)
    review: Json = field(default_factory=dict)
    segments: list[Json] = field(default_factory=list)
    capacity: list[Json] = field(default_factory=list)
    checks: Json = field(default_factory=dict)
    checkpoint: Json = field(default_factory=dict)
    verified: Json = field(default_factory=dict)
    silence: Json = field(default_factory=dict)
    moved_at: int | None = None

    @property
    def window(self) -> tuple[int, int]:
        """Of the usage that was asked for; the whole story where it was not."""
        return int(self.usage.get("from", self.began)), int(self.usage.get("to", self.ended))


def gather(seen: Seen, results: Sequence[Result], lang: str, began: int, ended: int) -> Facts:
    """The facts of a story."""
    return Facts(
        began=began,
        ended=ended,
        lang=lang,
        results=tuple(results),
        steps=seen.get("steps", []),
        version=seen.get("version", {}),
        summary=seen.get("busy-summary") or seen.get("summary", {}),
        nodes=seen.get("busy-nodes") or seen.get("nodes", []),
        workloads=seen.get("workloads", []),
        explanation=seen.get("explanation-open") or seen.get("explanation", {}),
        refusals=seen.get("refusals", []),
        usage=seen.get("usage", {}),
        usage_by_team=seen.get("usage-by-team", {}),
        review=seen.get("review", {}),
        segments=seen.get("segments", []),
        capacity=seen.get("capacity", []),
        checks=seen.get("checks", {}),
        checkpoint=seen.get("checkpoint", {}),
        verified=seen.get("verified", {}),
        silence=seen.get("silence", {}),
        moved_at=seen.get("moved-at"),
    )


def to_json(facts: Facts) -> str:
    """The facts as JSON text."""
    return json.dumps(asdict(facts), ensure_ascii=False, sort_keys=True, indent=1)


def from_json(path: Path) -> Facts:
    """The facts of a `report.json`."""
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    known = {entry.name for entry in fields(Facts)}
    value["results"] = tuple(_result(result) for result in value.get("results", ()))
    return Facts(**{key: item for key, item in value.items() if key in known})


def _result(value: Mapping[str, Any]) -> Result:
    expected, seen = Said(**value["expected"]), Said(**value["seen"])
    return Result(value["id"], tuple(value["rows"]), expected, seen, value["ok"])
