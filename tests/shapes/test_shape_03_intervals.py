"""Shape 3: everything that can be moved or renamed is an interval, and usage follows its time."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from steelyard.model.units import HOUR
from steelyard.services.organisation import load_history
from steelyard.store import tables as t
from steelyard.store.store import Store
from tests.support.stores import SMALL_HOUSE, Clock, apply, doc


@pytest.mark.requirement("I16")
def test_a_project_that_moves_mid_run_leaves_what_ran_before_with_its_old_team(
    store: Store, clock: Clock
) -> None:
    apply(store, *SMALL_HOUSE)
    clock.forward(HOUR)
    begin = clock()
    clock.forward(HOUR)
    apply(store, doc("Project", "vision", team="bravo"))
    moved = clock()
    clock.forward(HOUR)
    with store.read() as view:
        pieces = load_history(view).pieces("vision-dev", begin, clock())
    assert [(t0, t1, place.team if place else None) for t0, t1, place in pieces] == [
        (begin, moved, "alpha"),
        (moved, clock(), "bravo"),
    ]
    versions = [place.version for _, _, place in pieces if place]
    assert versions[0] < versions[1]
    assert pieces[0][2] is not None
    assert (pieces[0][2].environment, pieces[0][2].cost_centre) == ("dev", "C 1")


def test_an_interval_row_changes_by_its_closing_alone(store: Store, clock: Clock) -> None:
    tables = (t.declared, t.org_edge, t.quota_limit)
    apply(store, *SMALL_HOUSE)
    with store.read() as view:
        before = [[dict(row._mapping) for row in view.execute(select(table))] for table in tables]
    clock.forward(HOUR)
    apply(store, doc("Namespace", "vision-dev", project="speech"))
    apply(store, doc("Queue", "main", cohort="all", limits=[{"class": "gpu", "nominal": 5}]))
    with store.read() as view:
        after = [[dict(row._mapping) for row in view.execute(select(table))] for table in tables]
    for older, newer in zip(before, after, strict=True):
        kept = [{**row, "valid_to": None} for row in newer if row["valid_from"] < clock()]
        assert sorted(map(str, kept)) == sorted(map(str, older))
        assert len(newer) > len(older)


def test_a_clock_that_steps_back_makes_no_interval_that_ends_before_it_begins(
    store: Store, clock: Clock
) -> None:
    apply(store, doc("Team", "alpha"))
    clock.forward(-HOUR)
    apply(store, doc("Team", "alpha", displayName="A"))
    with store.read() as view:
        rows = view.execute(select(t.declared).order_by(t.declared.c.version)).all()
    assert rows[0].valid_from < rows[0].valid_to == rows[1].valid_from
