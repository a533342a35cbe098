"""Results of checks: what was checked, how much of it, and every place where it does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Window: TypeAlias = tuple[int, int]
Span: TypeAlias = tuple[int, int]

MAX_FINDINGS = 200


@dataclass(slots=True)
class CheckResult:
    """`checked` counts what was looked at; `findings` are the first of `found`, each `{code, kind, id, t0,
    t1, …}` with amounts as decimal strings."""

    id: str
    checked: int = 0
    found: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return self.found == 0

    def add(self, code: str, kind: str, id: int | str | None, span: Span | None = None, **more: Any) -> None:
        """Note a place where the check does not hold."""
        self.found += 1
        if len(self.findings) < MAX_FINDINGS:
            t0, t1 = span if span is not None else (None, None)
            self.findings.append({"code": code, "kind": kind, "id": id, "t0": t0, "t1": t1, **more})


def cut(row: Row, window: Window) -> Span | None:
    """The row's interval within the window; an open one (t1 null) ends with it. None: nothing of it."""
    return cut_times(row["t0"], row["t1"], window)


def cut_times(begin: int, end: int | None, window: Window) -> Span | None:
    """The same of an interval."""
    t0 = max(begin, window[0])
    t1 = window[1] if end is None else min(end, window[1])
    return (t0, t1) if t0 < t1 else None


def by_device(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows by device; those that name none are left out."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        device_id = row["device_id"]
        if device_id is not None:
            groups.setdefault(device_id, []).append(row)
    return groups


def levels(changes: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """(t0, t1, level) between the instants at which a running sum changes."""
    level = 0
    for t0, t1 in pairwise(sorted(changes)):
        level += changes[t0]
        yield t0, t1, level


def holes(spans: Iterable[Span], whole: Span) -> list[tuple[str, int, int]]:
    """("gap" | "overlap", t0, t1): where the spans do not tile `whole` exactly."""
    found = []
    at = whole[0]
    for t0, t1 in sorted(spans):
        if t0 > at:
            found.append(("gap", at, t0))
        elif t0 < at:
            found.append(("overlap", t0, min(at, t1)))
        at = max(at, t1)
    if at < whole[1]:
        found.append(("gap", at, whole[1]))
    elif at > whole[1]:
        found.append(("overlap", whole[1], at))
    return found


def all_ok(results: Sequence[CheckResult]) -> bool:
    """Every check holds."""
    return all(result.ok for result in results)
