"""The menu: where there is something to see."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.identity.authorise import authorise
from steelyard.model.errors import ForbiddenError
from steelyard.model.organisation import Principal, Verb


@dataclass(frozen=True, slots=True)
class Entry:
    """A place. Its word is the text `page_common.menu.KEY`; what lies below `path` and
    `others` belongs to it."""

    key: str
    path: str
    others: tuple[str, ...] = ()
    verb: Verb | None = None  # only for those who may
    noun: str = ""

    def holds(self, path: str) -> bool:
        """Whether a page belongs to this entry."""
        places = (self.path, *self.others)
        return path in places or (self.path != "/" and any(path.startswith(f"{place}/") for place in places))


MENU: tuple[Entry, ...] = (
    Entry("home", "/"),
    Entry("workloads", "/workloads"),
    Entry("submit", "/submit"),
    Entry(
        "inventory",
        "/inventory",
        (
            "/nodes", "/devices", "/places", "/flags", "/pools", "/labels", "/admissions", "/verifications",
            "/support", "/register", "/registrations",
        ),
    ),
    Entry("queues", "/queues", ("/refusals", "/what-if")),
    Entry("usage", "/usage"),
    Entry("failures", "/failures"),
    Entry("evidence", "/evidence", verb=Verb.AUDIT, noun="audit"),
    Entry("system", "/system", verb=Verb.VIEW, noun="doctor"),
)


def menu_of(principal: Principal) -> list[Entry]:
    """What is there for this reader."""
    return [entry for entry in MENU if _is_for(entry, principal)]


def _is_for(entry: Entry, principal: Principal) -> bool:
    if entry.verb is None:
        return True
    try:
        authorise(principal, entry.verb, entry.noun)
    except ForbiddenError:
        return False
    return True
