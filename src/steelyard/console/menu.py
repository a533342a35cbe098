"""The menu: where there is something to see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A place. Its word is the text `page_common.menu.KEY`; what lies below `path` belongs to it."""

    key: str
    path: str

    def holds(self, path: str) -> bool:
        """Whether a page belongs to this entry."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


MENU: tuple[Entry, ...] = (
    Entry("home", "/"),
    Entry("workloads", "/workloads"),
    Entry("submit", "/submit"),
)
