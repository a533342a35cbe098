"""May this principal do this? `authorise` for an act, its twin `scope` for a read.

Verbs come from a role's grants (`model.organisation.GRANTS`); a binding reaches one project or, without
one, the whole installation. What is not shown is reported as not there, so that ids tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.model.errors import ForbiddenError, NotFoundError
from steelyard.model.organisation import GRANTS, Binding, Principal, RoleName, Scope, Verb

#: Viewed by everybody who is bound anywhere: what there is to run on and how to ask for it.
SHARED_NOUNS = frozenset(
    {
        "inventory", "cluster", "pool", "queue", "cohort", "priorityclass", "template", "quota", "device",
        "label", "admission", "verification", "supportdocument", "register",
    }
)
#: A member changes only its own of these, and runs commands only beside them.
OWNED_NOUNS = frozenset({"workload"})
_OWNERS_VERBS = frozenset({Verb.CHANGE, Verb.EXECUTE})
_LOOPS = frozenset({"control", "system"})


def authorise(
    principal: Principal, verb: Verb, noun: str, project: str | None = None, *, owner: str | None = None
) -> Binding:
    """The binding that allows it. Raises ForbiddenError `missing-grant` (verb, noun, project).

    `project` None asks for the whole installation. `owner` is the submitter's id or name of an owned
    object that is to be changed: a member changes its own only (`not-owner`).
    """
    if principal.kind in _LOOPS:
        return Binding(principal.name, RoleName.ADMINISTRATOR, None, 0)
    allowing = [b for b in _granting(principal.bindings, verb) if _reaches(b, verb, noun, project)]
    for binding in allowing:
        if binding.role is not RoleName.MEMBER or not _is_others(principal, verb, noun, owner):
            return binding
    code = "not-owner" if allowing else "missing-grant"
    raise ForbiddenError(code, verb=verb.value, noun=noun, project=project)


def authorise_object(
    principal: Principal,
    verb: Verb,
    noun: str,
    project: str | None,
    object_id: str,
    *,
    owner: str | None = None,
) -> Binding:
    """As `authorise`, for an object that was looked up by its id: one that the principal may not even
    view is reported as NotFoundError `not-found` (kind, id), exactly like one that does not exist."""
    if not scope(principal, Verb.VIEW, noun).allows(project):
        raise NotFoundError("not-found", kind=noun, id=object_id)
    return authorise(principal, verb, noun, project, owner=owner)


def scope(principal: Principal, verb: Verb, noun: str) -> Scope:
    """What a read may see: everything, or the projects in which a binding grants the verb (maybe none).

    `noun` is what is read; all nouns of a project are read alike.
    """
    if principal.kind in _LOOPS:
        return Scope.system()
    granting = list(_granting(principal.bindings, verb))
    if any(binding.project is None for binding in granting):
        return Scope(None, principal.id)
    return Scope(frozenset(b.project for b in granting if b.project is not None), principal.id)


def _granting(bindings: Iterable[Binding], verb: Verb) -> Iterable[Binding]:
    return (binding for binding in bindings if verb in GRANTS[binding.role])


def _reaches(binding: Binding, verb: Verb, noun: str, project: str | None) -> bool:
    if binding.project is None or binding.project == project:
        return True
    return project is None and verb is Verb.VIEW and noun in SHARED_NOUNS


def _is_others(principal: Principal, verb: Verb, noun: str, owner: str | None) -> bool:
    if verb not in _OWNERS_VERBS or noun not in OWNED_NOUNS or owner is None:
        return False
    return owner not in (principal.id, principal.name)
