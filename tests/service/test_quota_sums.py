"""Limits of children within their parent's, and what a lowered limit is said to do before it is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.locale import text
from steelyard.model.errors import ConflictError
from steelyard.services.declared import apply as apply_documents
from steelyard.services.documents import parse_document
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.service.control.test_replay import house
from tests.support.house import ADMIN
from tests.support.stores import SMALL_HOUSE, apply, doc

GPU = [{"class": "gpu", "hard": 2}]


def quota(name: str, hard: int, over_commit: bool = False, **whose: str) -> dict[str, Any]:
    more = {"overCommit": True} if over_commit else {}
    return doc("Quota", name, **whose, limits=[{"class": "gpu", "hard": hard, **more}])


@pytest.mark.requirement("J7")
def test_children_above_their_parent_are_refused_with_the_numbers(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    with pytest.raises(ConflictError) as caught:
        apply(store, quota("alpha", 1, team="alpha"))
    assert caught.value.code == "quota-exceeds-parent"
    wanted = {"node": "team/alpha", "subject": "gpu", "limit": 1000, "children": 2000, "over": 1000}
    assert wanted.items() <= caught.value.params.items()
    assert "2" in text("quota-exceeds-parent", caught.value.params, "en")


@pytest.mark.requirement("J7")
def test_declared_over_commit_is_let_through_and_said(store: Store) -> None:
    apply(store, *SMALL_HOUSE)
    (result,) = apply(store, quota("alpha", 1, True, team="alpha"))
    (warning,) = result.warnings
    assert (warning.code, warning.params["children"], warning.params["limit"]) == (
        "quota-overcommitted", 2000, 1000,
    )  # fmt: skip


def test_a_child_without_a_limit_counts_with_what_is_below_it(store: Store) -> None:
    apply(store, *SMALL_HOUSE, quota("alpha", 3, team="alpha"))
    apply(store, doc("Project", "other", team="alpha"), doc("Namespace", "other-dev", project="other"))
    apply(store, quota("o", 1, namespace="other-dev"))
    with pytest.raises(ConflictError):
        apply(store, quota("o", 2, namespace="other-dev"))


def test_a_project_does_not_move_below_a_team_that_has_no_room_for_it(store: Store) -> None:
    apply(store, *SMALL_HOUSE, quota("bravo", 1, team="bravo"))
    with pytest.raises(ConflictError) as caught:
        apply(store, doc("Project", "vision", team="bravo"))
    assert caught.value.params["node"] == "team/bravo"


def test_what_was_too_much_before_does_not_stand_in_the_way_of_other_changes(store: Store) -> None:
    apply(store, *SMALL_HOUSE, quota("alpha", 1, True, team="alpha"))
    with pytest.raises(ConflictError):  # the same sum, declared no more
        apply(store, quota("alpha", 1, team="alpha"), quota("vision", 3, project="vision"))
    apply(store, doc("Team", "alpha", displayName="A"), quota("vision", 3, project="vision"))


@pytest.mark.requirement("J9")
def test_a_lowered_limit_says_beforehand_who_would_be_above_it_and_what_follows(tmp_path: Path) -> None:
    """S-37."""
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        for name in ("old", "new"):
            lived.submit(name, expect={"run": "600s"}, priorityClass="normal")
        urgent = lived.submit("urgent", expect={"run": "600s"}, priorityClass="high")
        lived.tick(20)
        lowered = [doc("Quota", "detect", project="detect", limits=[{"class": "gpu", "hard": 2}]),
                   doc("Queue", "main", cohort="all", owner="platform", limits=[
                       {"class": "gpu", "nominal": 1, "borrowingLimit": 0}])]  # fmt: skip
        documents = [parse_document(raw) for raw in lowered]
        results = apply_documents(lived.store, ADMIN, documents, dry_run=True)
        said = {w.params["node"]: w for r in results for w in r.warnings if w.code == "quota-below-use"}
        assert said.keys() == {"project/detect", "main", "all"}
        params = said["project/detect"].params
        assert (params["limit"], params["used"], params["over"]) == (2000, 3000, 1000)
        assert (params["workloads"], params["names"]) == (1, "new")
        assert (said["main"].params["over"], said["main"].params["names"]) == (2000, "new, old")
        for lang in ("en", "zh"):
            assert "new" in text("quota-below-use", params, lang)
        assert lived.phase(urgent) == "running"
        apply_documents(lived.store, ADMIN, documents)
        late = lived.submit("late", expect={"run": "600s"})
        lived.restart()  # no timer, nothing to lose: what is over is what the books say
        lived.tick(20)
        assert lived.phase(late) == "queued"
        assert len([one for one in lived.live.values() if one.phase == "running"]) == 3
        (again,) = apply_documents(lived.store, ADMIN, documents[:1], dry_run=True)
        assert again.warnings == ()
