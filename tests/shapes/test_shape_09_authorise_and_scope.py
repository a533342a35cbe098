"""Shape 9: authorise has a twin, scope, which every read takes; the two never disagree."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.identity.authorise import authorise, authorise_object, scope
from steelyard.model.errors import ForbiddenError, NotFoundError
from steelyard.model.organisation import Binding, Principal, RoleName, Verb
from steelyard.store import declared as declared_rows

PROJECTS = ["vision", "speech", "maps"]
BINDINGS = st.lists(
    st.builds(
        Binding,
        user=st.just("ann"),
        role=st.sampled_from(RoleName),
        project=st.sampled_from([*PROJECTS, None]),
        version=st.just(1),
    ),
    max_size=4,
)


def ann(*bindings: Binding) -> Principal:
    return Principal("us_1", "user", "ann", tuple(bindings))


def bound(role: RoleName, project: str | None) -> Principal:
    return ann(Binding("ann", role, project, 1))


@given(bindings=BINDINGS, verb=st.sampled_from(Verb), project=st.sampled_from(PROJECTS))
def test_scope_shows_a_project_exactly_when_authorise_allows_it(
    bindings: list[Binding], verb: Verb, project: str
) -> None:
    person = ann(*bindings)
    try:
        allowed = authorise(person, verb, "workload", project) in bindings
    except ForbiddenError:
        allowed = False
    assert scope(person, verb, "workload").allows(project) == allowed


@pytest.mark.requirement("I14")
def test_the_answer_names_the_binding_or_the_missing_grant() -> None:
    viewer = bound(RoleName.VIEWER, "vision")
    assert authorise(viewer, Verb.VIEW, "workload", "vision") is viewer.bindings[0]
    with pytest.raises(ForbiddenError) as caught:
        authorise(viewer, Verb.REQUEST, "workload", "vision")
    assert caught.value.code == "missing-grant"
    assert caught.value.params == {"verb": "request", "noun": "workload", "project": "vision"}


@pytest.mark.requirement("I13")
def test_no_role_but_the_administrators_both_manages_and_audits() -> None:
    for role in (RoleName.MEMBER, RoleName.VIEWER, RoleName.AUDITOR):
        with pytest.raises(ForbiddenError):
            authorise(bound(role, None), Verb.MANAGE, "quota")
    authorise(bound(RoleName.AUDITOR, None), Verb.AUDIT, "log")
    for role in (RoleName.MEMBER, RoleName.VIEWER):
        with pytest.raises(ForbiddenError):
            authorise(bound(role, None), Verb.AUDIT, "log")


def test_a_member_changes_its_own_workloads_only() -> None:
    member = bound(RoleName.MEMBER, "vision")
    for owner in ("us_1", "ann", None):
        authorise(member, Verb.CHANGE, "workload", "vision", owner=owner)
    with pytest.raises(ForbiddenError, match="not-owner"):
        authorise(member, Verb.CHANGE, "workload", "vision", owner="us_2")
    authorise(bound(RoleName.ADMINISTRATOR, None), Verb.CHANGE, "workload", "vision", owner="us_2")


def test_what_is_out_of_scope_is_not_there() -> None:
    member = bound(RoleName.MEMBER, "vision")
    with pytest.raises(NotFoundError):
        authorise_object(member, Verb.CHANGE, "workload", "speech", "wl_1")
    with pytest.raises(NotFoundError):
        authorise_object(member, Verb.CHANGE, "workload", None, "wl_1")


def test_somebody_without_bindings_sees_and_does_nothing() -> None:
    nobody = ann()
    assert scope(nobody, Verb.VIEW, "workload").projects == frozenset()
    for verb in Verb:
        with pytest.raises(ForbiddenError):
            authorise(nobody, verb, "inventory")


def test_shared_things_are_seen_by_everybody_who_is_bound_anywhere() -> None:
    assert authorise(bound(RoleName.VIEWER, "vision"), Verb.VIEW, "inventory").project == "vision"
    with pytest.raises(ForbiddenError):
        authorise(bound(RoleName.VIEWER, "vision"), Verb.VIEW, "user")


def test_reads_of_documents_for_people_demand_a_scope() -> None:
    for function in (declared_rows.current, declared_rows.valid_at, declared_rows.history):
        parameter = inspect.signature(function).parameters["scope"]
        assert parameter.default is inspect.Parameter.empty
