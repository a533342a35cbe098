"""What every step of the story has at hand: the doors, the notebook, and ways to wait for things."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.demo import documents
from steelyard.demo.door import Door, get, post, wait
from steelyard.demo.expect import Expectation, Json, Seen

ADMINISTRATOR = "admin"
#: User → the project that she is a member of.
PEOPLE = {"lin": "vision", "mei": "language"}
SIMULATED, SERVING, LOCAL = "sim-accel", "sim-serve", "this-machine"


@dataclass(slots=True)
class Story:
    """The story under way. `doors` are opened as people log in; `seen` is what the checks look at."""

    out: Path
    data: Path
    examples: Path
    python: str
    open_door: Callable[[str, str], Door]
    first_password: Callable[[], str]
    keep_password: Callable[[str], None]  # the administrator's, for whoever looks around afterwards
    doors: dict[str, Door] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    ids: dict[str, str] = field(default_factory=dict)  # workload's name → id
    began: int = field(default_factory=lambda: time.time_ns() // 1000)

    @property
    def admin(self) -> Door:
        """The administrator's door."""
        return self.doors[ADMINISTRATOR]

    def door_of(self, name: str) -> Door:
        """The door of whoever submits the workload: the member of its project."""
        namespace = documents.workload(name, {})["metadata"]["namespace"]
        return self.doors["lin" if namespace.startswith("vision") else "mei"]

    def document(self, name: str, **values: str) -> Json:
        """A workload document with this machine's interpreter and the example scripts filled in."""
        return documents.workload(name, {"PYTHON": self.python, "EXAMPLES": str(self.examples), **values})

    def submit(self, name: str, **values: str) -> Json:
        """Submits a workload as a member of its project; its view. Raises Unexpected."""
        view: Json = post(self.door_of(name), "/v1/workloads", self.document(name, **values))
        self.ids[name] = view["id"]
        return view

    def view(self, name: str) -> Json:
        """The page of a workload that was submitted, as the administrator sees it."""
        found: Json = get(self.admin, f"/v1/workloads/{self.ids[name]}")
        return found

    def until(
        self, name: str, reached: Callable[[Json], bool], what: str, seconds: float = 30.0, pause: float = 0.1
    ) -> Json:
        """The workload's page as soon as it is so. Raises UnavailableError."""

        def look() -> Json | None:
            view = self.view(name)
            return view if reached(view) else None

        return wait(f"{name}: {what}", look, seconds, pause)

    def until_finished(self, name: str, seconds: float = 40.0) -> Json:
        """The workload's page once it has ended and its release is decided."""
        return self.until(name, lambda view: view["phase"] == "finished", "finished", seconds)

    def apply(self, *wanted: Json) -> list[Json]:
        """Declares objects as the administrator; what became of each."""
        results: list[Json] = post(self.admin, "/v1/objects:apply", {"documents": list(wanted)})["results"]
        return results

    def log(self, name: str, member: str | None = None) -> str:
        """The log of a workload's member (the first one where none is named), as text."""
        answer = get(
            self.admin, f"/v1/workloads/{self.ids[name]}/logs", member=member, offset=0, limit=1 << 16
        )
        return base64.b64decode(answer["data_base64"]).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Step:
    """One chapter: what is done, and what is expected of it. `demo.step.ID` is its title."""

    id: str
    run: Callable[[Story], None]
    expectations: tuple[Expectation, ...] = ()


def members(view: Json, attempt: int = -1) -> list[Json]:
    """The members of a workload's attempt, the last by default."""
    found: list[Json] = view["attempts"][attempt]["members"]
    return found


def is_running(view: Json) -> bool:
    """Whether it runs now."""
    return bool(view["phase"] == "running")


def now() -> int:
    """µs UTC of this machine."""
    return time.time_ns() // 1000


def total(amounts: Any) -> int:
    """The sum of whole numbers that may be written as decimal text."""
    return sum(int(amount) for amount in amounts)
