"""Organisation: team → project → namespace, people, roles and bindings.

All of these are intervals (valid_from, valid_to, version) in the store, never updated in place, so
that usage goes to the organisation of its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """What a principal may do; separate verbs for view, request, change, execute and manage."""

    VIEW = "view"
    REQUEST = "request"
    CHANGE = "change"
    EXECUTE = "execute"  # run commands beside a workload's members
    MANAGE = "manage"
    AUDIT = "audit"
    OBSERVE = "observe"  # read figures of the whole installation that tell of no project


class RoleName(StrEnum):
    """Built-in roles."""

    ADMINISTRATOR = "administrator"
    MEMBER = "member"  # of a project: views and requests in it, changes own workloads
    VIEWER = "viewer"
    AUDITOR = "auditor"
    MONITOR = "monitor"  # for a monitoring system: its metrics, and nothing else


#: role → verbs it grants. Administrator, auditor and monitor are bound to the whole installation.
GRANTS: dict[RoleName, frozenset[Verb]] = {
    RoleName.ADMINISTRATOR: frozenset(Verb),
    RoleName.MEMBER: frozenset({Verb.VIEW, Verb.REQUEST, Verb.CHANGE, Verb.EXECUTE}),
    RoleName.VIEWER: frozenset({Verb.VIEW}),
    RoleName.AUDITOR: frozenset({Verb.VIEW, Verb.AUDIT, Verb.OBSERVE}),
    RoleName.MONITOR: frozenset({Verb.OBSERVE}),
}


@dataclass(frozen=True, slots=True)
class Binding:
    """A role for a user, on one project or (project None) on the whole installation."""

    user: str
    role: RoleName
    project: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts: an authenticated user or one of our own loops (`kind` control, system)."""

    id: str  # us_… or a loop's name
    kind: str  # user | control | system
    name: str
    bindings: tuple[Binding, ...] = ()

    @property
    def is_administrator(self) -> bool:
        """Bound to the whole installation as administrator."""
        return any(b.role is RoleName.ADMINISTRATOR and b.project is None for b in self.bindings)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a read may see: a mandatory argument of every list, count, search and stream.

    `projects` None means everything. Made only by `identity.scope()` and `Scope.system()`.
    """

    projects: frozenset[str] | None
    user: str | None = None

    @staticmethod
    def system() -> Scope:
        """For our own loops and operator commands on the data folder."""
        return Scope(projects=None)

    def allows(self, project: str | None) -> bool:
        """True when rows of this project may be shown."""
        return self.projects is None or project in self.projects


@dataclass(frozen=True, slots=True)
class OrgEdge:
    """child belonged to parent during [valid_from, valid_to); None is open."""

    kind: str  # team | project | namespace
    child: str
    parent: str | None
    valid_from: int
    valid_to: int | None
    version: int
    org_version: int = 0  # of the whole organisation, when the edge was made
    environment: str | None = None  # of a namespace
    cost_centre: str | None = None


@dataclass(frozen=True, slots=True)
class OrgPlace:
    """Where a namespace stood at an instant."""

    namespace: str
    project: str
    team: str | None
    environment: str | None
    cost_centre: str | None
    version: int
