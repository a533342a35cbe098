"""Apply, diff, export, read and retire of declared objects, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, OnExceed
from steelyard.model.units import DAY
from steelyard.scheduling.quota import potential
from steelyard.services import declared
from steelyard.services.documents import parse_documents
from steelyard.services.policy import load_policy, load_trees, quota_trees
from steelyard.store.declared import counters
from steelyard.store.leaves import bodies, log_size
from steelyard.store.store import Store
from tests.support.stores import SMALL_HOUSE, Clock, apply, doc


def person(*bindings: tuple[RoleName, str | None]) -> Principal:
    return Principal(
        "us_1", "user", "ann", tuple(Binding("ann", role, project, 1) for role, project in bindings)
    )


def versions(store: Store) -> dict[str, int]:
    with store.read() as view:
        return counters(view)


def test_an_apply_makes_everything_at_once_in_apply_order(store: Store) -> None:
    results = apply(store, *reversed(SMALL_HOUSE))
    assert [r.kind for r in results][:3] == ["Cluster", "Pool", "Team"]
    assert {r.action for r in results} == {"created"}
    assert {r.version for r in results} == {1}
    with store.read() as view:
        assert log_size(view) == len(SMALL_HOUSE)


def test_applying_again_changes_nothing_and_writes_no_leaf(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    before = versions(store)
    results = apply(store, *SMALL_HOUSE)
    assert {r.action for r in results} == {"unchanged"}
    assert versions(store) == before
    with store.read() as view:
        assert log_size(view) == len(SMALL_HOUSE)


def test_applying_the_export_changes_nothing(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    exported = declared.export(store, SYSTEM)
    assert len(exported) == len(SMALL_HOUSE)
    assert {r.action for r in apply(store, *exported)} == {"unchanged"}


def test_a_change_says_what_changed_and_a_dry_run_changes_nothing(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    change = doc("Queue", "main", cohort="all", limits=[{"class": "gpu", "nominal": 6}])
    for dry_run in (True, False):
        (result,) = apply(store, change, dry_run=dry_run)
        assert (result.action, result.version) == ("changed", 2)
        assert [(c.path, c.before, c.after) for c in result.diff] == [
            ("spec.limits[0].borrowingLimit", "500m", None),
            ("spec.limits[0].nominal", 4, 6),
        ]
    assert apply(store, change)[0].action == "unchanged"


def test_a_leaf_stands_for_every_object_that_changed(store: Store) -> None:
    apply(store, doc("Team", "alpha"))
    apply(store, doc("Team", "alpha", displayName="Alpha"), doc("Team", "bravo"))
    with store.read() as view:
        leaves = list(bodies(view, 0, log_size(view)))
    assert len(leaves) == 3
    changed = next(body for body in leaves if b"object.changed" in body)
    assert b'"version_after":2,"version_before":1' in changed
    assert b"spec.displayName" in changed
    assert b'"n":1,"name":"object/team/alpha"' in changed


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (doc("Project", "x", team="none"), "reference-missing"),
        (doc("Namespace", "x", project="none"), "reference-missing"),
        (doc("Pool", "x", cluster="none"), "reference-missing"),
        (doc("Queue", "x", cohort="none"), "reference-missing"),
        (doc("Queue", "all"), "name-taken"),
        (doc("Binding", "x", user="nobody", role="viewer"), "reference-missing"),
        (doc("Quota", "x", team="none", limits=[{"class": "gpu", "hard": 1}]), "reference-missing"),
        (doc("Quota", "x", project="vision", limits=[{"class": "gpu", "hard": 1}]), "quota-doubled"),
        (doc("Quota", "x", team="alpha", limits=[{"flavor": "none", "hard": 1}]), "reference-missing"),
        (doc("Routing", "default", routes=[{"queue": "x", "priorityClass": "normal"}]), "reference-missing"),
        (doc("Cohort", "all", parent="all"), "cohort-cycle"),
        (doc("Pool", "more", cluster="here", flavors=[{"name": "plain", "class": "cpu"}]), "flavor-doubled"),
        (doc("Cluster", "here", engine="simulated", simulation={"nodes": [{"prefix": "n"}]}), "field-fixed"),
    ],
)
def test_what_does_not_fit_together_is_refused_whole(
    store: Store, document: dict[str, object], code: str
) -> None:
    apply(store, *SMALL_HOUSE)
    before = versions(store)
    with pytest.raises(InvalidError) as caught:
        apply(store, doc("Team", "charlie"), document)
    assert caught.value.code == code
    assert versions(store) == before
    with pytest.raises(NotFoundError):
        declared.get_object(store, SYSTEM, "Team", "charlie")


def test_only_an_administrator_applies(store: Store) -> None:
    documents = parse_documents([doc("Team", "alpha")])
    for bindings in ([], [(RoleName.MEMBER, "vision")], [(RoleName.AUDITOR, None)]):
        with pytest.raises(ForbiddenError) as caught:
            declared.apply(store, person(*bindings), documents)
        assert caught.value.params == {"verb": "manage", "noun": "team", "project": None}
    declared.apply(store, person((RoleName.ADMINISTRATOR, None)), documents)


def test_history_keeps_every_version_and_a_read_at_an_instant_finds_its_own(
    store: Store, clock: Clock
) -> None:
    start = clock()
    apply(store, doc("Team", "alpha", displayName="one"))
    clock.forward(DAY)
    apply(store, doc("Team", "alpha", displayName="two"))
    clock.forward(DAY)
    declared.retire(store, SYSTEM, "Team", "alpha")
    assert [(h.version, h.spec["displayName"]) for h in declared.history(store, SYSTEM, "team", "alpha")] == [
        (2, "two"),
        (1, "one"),
    ]
    for at, names in ((start, ["one"]), (start + DAY, ["two"]), (start + 2 * DAY, [])):
        found = declared.list_objects(store, SYSTEM, "Team", at)
        assert [item.spec["displayName"] for item in found] == names
    with pytest.raises(NotFoundError):
        declared.get_object(store, SYSTEM, "Team", "alpha")
    (back,) = apply(store, doc("Team", "alpha"))
    assert (back.action, back.version) == ("created", 3)


def test_what_is_in_use_is_not_retired(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    for kind, name in (("Team", "alpha"), ("Cohort", "all"), ("Queue", "main"), ("PriorityClass", "high")):
        with pytest.raises(ConflictError) as caught:
            declared.retire(store, SYSTEM, kind, name)
        assert caught.value.code == "object-in-use"
    with pytest.raises(ConflictError, match="version-mismatch"):
        declared.retire(store, SYSTEM, "Quota", "vision", if_match=7)
    assert declared.retire(store, SYSTEM, "Quota", "vision", if_match=1, dry_run=True).action == "retired"
    assert declared.retire(store, SYSTEM, "Quota", "vision", if_match=1).action == "retired"
    with store.read() as view:
        assert load_trees(view)[ORG_TREE][1] == {}


def test_applies_at_the_same_time_all_take_effect(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: apply(store, doc("Team", f"t{i}")), range(5)))
    assert [r[0].action for r in results] == ["created"] * 5
    assert len(declared.list_objects(store, SYSTEM, "Team")) == 7


@pytest.mark.requirement("J6")
def test_trees_carry_queues_and_the_organisation_with_their_limits(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with store.read() as view:
        trees, built = load_trees(view), quota_trees(view)
    nodes, limits = trees[QUEUE_TREE]
    assert nodes["main"].parent == "all"
    assert (limits["main", "gpu"].nominal, limits["main", "gpu"].borrowing_limit) == (4000, 500)
    nodes, limits = trees[ORG_TREE]
    assert nodes["namespace/vision-dev"].parent == "project/vision"
    assert nodes["project/vision"].parent == "team/alpha"
    assert limits["project/vision", "gpu"].on_exceed is OnExceed.REFUSE
    assert potential(built[ORG_TREE], "namespace/vision-dev", "gpu") == 2000
    assert potential(built[QUEUE_TREE], "main", "gpu") == 4500


def test_what_is_loaded_follows_a_change(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with store.read() as view:
        before = load_policy(view)
    apply(store, doc("PriorityClass", "low", value=1))
    with store.read() as view:
        after = load_policy(view)
    assert after.version == before.version + 1
    assert "low" not in before.priorities
    assert after.priorities["low"] == 1


def test_a_project_sees_its_own_and_what_stands_around_it(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    member = person((RoleName.MEMBER, "vision"))
    seen = {(d.kind, d.name) for d in declared.list_objects(store, member)}
    assert {
        ("Project", "vision"),
        ("Team", "alpha"),
        ("Namespace", "vision-dev"),
        ("Quota", "vision"),
    } <= seen
    assert {("Queue", "main"), ("Cohort", "all"), ("PriorityClass", "high")} <= seen
    assert not seen & {("Project", "speech"), ("Team", "bravo"), ("Namespace", "speech-dev")}
    assert ("Routing", "default") not in seen
    for kind, name in (("Project", "speech"), ("Project", "nothing"), ("Routing", "default")):
        with pytest.raises(NotFoundError):
            declared.history(store, member, kind, name)
    nobody = replace(member, bindings=())
    assert declared.list_objects(store, nobody) == []


def test_one_machine_is_one_cluster(store: Store) -> None:
    apply(store, doc("Cluster", "here", engine="local"))
    with pytest.raises(InvalidError, match="machine-declared-twice"):
        apply(store, doc("Cluster", "here-too", engine="local"))
    apply(store, doc("Cluster", "here", engine="local", owner="platform"))
    apply(
        store, doc("Cluster", "far", engine="simulated", simulation={"nodes": [{"count": 1, "prefix": "n"}]})
    )
