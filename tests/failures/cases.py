"""The induced failures as they are written down, what was told of each, and the confusion table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from steelyard.model.failures import Stage

HERE = Path(__file__).parent
#: The row or column of what is no failure: it waits, or it succeeds.
NONE = "none"
STAGES = (*(stage.value for stage in Stage if stage is not Stage.UNKNOWN), NONE)
Kind = tuple[str, str, str]  # stage, code, group


@dataclass(frozen=True, slots=True)
class Case:
    """One induced failure. `truth` None: it is no failure, and must not be called one."""

    where: str  # local | simulated
    name: str
    how: str
    truth: Kind | None
    raw: dict[str, Any]

    @property
    def act(self) -> str | None:
        """What is done to it from outside."""
        act = self.raw.get("act")
        return None if act is None else str(act)


@dataclass(frozen=True, slots=True)
class Told:
    """What the verdict said; None: there was none."""

    case: Case
    verdict: dict[str, Any] | None

    @property
    def kind(self) -> Kind | None:
        """Stage, code, group."""
        found = self.verdict
        return None if found is None else (found["stage"], found["code"], found["group"])

    @property
    def result(self) -> str:
        """right, wrong, or unknown, which is neither."""
        if self.kind == self.case.truth:
            return "right"
        other = self.case.raw.get("without_control_groups")
        if self.case.truth and self.kind == (self.case.truth[0], other, self.case.truth[2]):
            return "right"
        return "unknown" if self.kind is not None and self.kind[0] == Stage.UNKNOWN else "wrong"


def load(where: str) -> list[Case]:
    """The cases of `local` or `simulated`."""
    found = []
    for raw in yaml.safe_load((HERE / f"{where}.yaml").read_text(encoding="utf-8")):
        truth = raw["truth"]
        kind = None if truth is None else (truth["stage"], truth["code"], truth["group"])
        found.append(Case(where, raw["name"], raw["how"], kind, raw))
    assert len({case.name for case in found}) == len(found)
    return found


def confusion(told: Sequence[Told]) -> dict[tuple[str, str], int]:
    """(true stage, told stage) → how often."""
    return dict(
        Counter(
            (one.case.truth[0] if one.case.truth else NONE, one.kind[0] if one.kind else NONE) for one in told
        )
    )
