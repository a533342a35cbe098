"""One step on the way to a family of accelerators, and whether it was taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class StepName(StrEnum):
    """In the order in which each needs the one before."""

    CARD = "card"
    DRIVER = "driver"
    LIBRARY = "library"
    PERMISSION = "permission"
    TOOL = "tool"
    RUNTIME = "runtime"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one family. `ok` None: it can't be told. `params` go into its sentence."""

    family: str
    name: StepName
    ok: bool | None
    params: dict[str, str | int | None] = field(default_factory=dict)
