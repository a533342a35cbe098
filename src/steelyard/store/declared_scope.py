"""Which declared objects a scope shows: own projects and what stands around them, and nothing that
tells of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from steelyard.model.organisation import Scope

DeclaredKey: TypeAlias = tuple[str, str]
Specs: TypeAlias = Mapping[DeclaredKey, dict[str, Any]]

#: Kinds that everybody sees who is bound anywhere: what there is to run on and how to ask for it.
SHARED_KINDS = frozenset(
    {
        "Cluster", "Pool", "PriorityClass", "Template", "LabelVocabulary", "SupportDocument", "Extension",
        "ObservationSource", "RegisterEntry", "SchedulingPolicy", "ConversionTable",
    }
)  # fmt: skip


def visible_keys(specs: Specs, scope: Scope) -> set[DeclaredKey]:
    """The objects that may be shown. Queues are shown where a route leads a project of the scope to
    them; the routing itself, and what belongs to other projects, only to an unlimited scope."""
    if scope.projects is None:
        return set(specs)
    if not scope.projects:
        return set()
    seen = {key for key in specs if key[0] in SHARED_KINDS}
    for (kind, name), spec in specs.items():
        project = name if kind == "Project" else spec.get("project")
        if kind in ("Project", "Namespace", "Binding") and project is not None and scope.allows(project):
            seen.add((kind, name))
            if kind == "Project":
                seen.add(("Team", str(spec.get("team"))))
    for (kind, name), spec in specs.items():
        if kind == "Quota" and _quota_target(spec) in seen:
            seen.add((kind, name))
    seen |= _queues(specs, scope)
    return seen & set(specs)


def reachable_queues(specs: Specs, scope: Scope) -> set[str]:
    """Queues to which a route leads a project of the scope."""
    routes = specs.get(("Routing", "default"), {}).get("routes", [])
    projects = scope.projects
    return {
        route["queue"]
        for route in routes
        if projects is None or (projects and (route.get("project") is None or route["project"] in projects))
    }


def _queues(specs: Specs, scope: Scope) -> set[DeclaredKey]:
    found: set[DeclaredKey] = set()
    for queue in reachable_queues(specs, scope):
        found.add(("Queue", queue))
        cohort = specs.get(("Queue", queue), {}).get("cohort")
        while cohort is not None and ("Cohort", cohort) not in found:
            found.add(("Cohort", cohort))
            cohort = specs.get(("Cohort", cohort), {}).get("parent")
    return found


def _quota_target(spec: dict[str, Any]) -> DeclaredKey | None:
    for kind in ("Team", "Project", "Namespace"):
        if kind.lower() in spec:
            return kind, spec[kind.lower()]
    return None
