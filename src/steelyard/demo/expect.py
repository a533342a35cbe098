"""Expectations as data: what ought to be seen, by which requirements, and how it is decided.

The sentences belong to `locale`: `demo.expect.ID` says what is expected, the code of a `Found` what was
seen. A check looks only at what the story wrote down while it went; it asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Param: TypeAlias = str | int | None


class Seen(dict[str, Any]):
    """What the story saw, by key. A key that is missing was never seen."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence to be made late: code and parameters."""

    code: str
    params: Mapping[str, Param] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found, and whether it is as expected."""

    ok: bool
    said: Said


def found(ok: bool, code: str, /, **params: Param) -> Found:
    """A finding: `demo.seen.CODE` is its sentence."""
    return Found(ok, Said(f"demo.seen.{code}", params))


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row of the table at the end."""

    id: str
    rows: tuple[str, ...]  # of requirements.md
    check: Callable[[Seen], Found]

    @property
    def said(self) -> Said:
        """What is expected."""
        return Said(f"demo.expect.{self.id}")


@dataclass(frozen=True, slots=True)
class Result:
    """An expectation with what was seen."""

    id: str
    rows: tuple[str, ...]
    expected: Said
    seen: Said
    ok: bool


def judge(expectation: Expectation, seen: Seen, error: str | None = None) -> Result:
    """The result. What was not seen, or has not the shape it should have, does not meet it."""
    try:
        decided = expectation.check(seen)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
        reason = error or f"{type(problem).__name__}: {problem}"
        decided = found(False, "nothing", reason=reason[:200])
    return Result(expectation.id, expectation.rows, expectation.said, decided.said, decided.ok)


def judge_all(expectations: Iterable[Expectation], seen: Seen, error: str | None = None) -> list[Result]:
    """The results in order; `error` is what went wrong on the way, where something did."""
    return [judge(expectation, seen, error) for expectation in expectations]
