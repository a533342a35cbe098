"""Groups of units on both databases: one commit, and a bad unit fails alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select

from steelyard.evidence.leaf import ActorRef, LeafDraft
from steelyard.model.errors import ConflictError, InvalidError, SteelyardError
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.contract.store.conftest import Open
from tests.support.ledger import Thing, accounts, actions, born, changed, check, in_one_group
from tests.support.stores import Clock


def test_units_that_wait_share_one_commit(open_store: Open) -> None:
    store = open_store()
    made = [born(store, f"a{number}") for number in range(50)]
    assert in_one_group(store, [unit for unit, _ in made]) == [None] * 50
    assert store.writer.commits == 1
    assert check(store) == 50


def test_every_unit_knows_the_seq_of_its_first_leaf(open_store: Open) -> None:
    store = open_store()
    made = [born(store, f"a{number}") for number in range(5)]
    in_one_group(store, [unit for unit, _ in made])
    assert [unit.first_seq for unit, _ in made] == [0, 1, 2, 3, 4]
    assert [thing.head.seq for _, thing in made] == [0, 1, 2, 3, 4]


def test_an_object_that_is_there_already_is_a_conflict_and_its_neighbours_commit(open_store: Open) -> None:
    store = open_store()
    made = [born(store, name) for name in ("ann", "bob", "ann", "eve")]
    told = in_one_group(store, [unit for unit, _ in made])
    assert [type(error) for error in told] == [type(None), type(None), ConflictError, type(None)]
    assert isinstance(told[2], ConflictError)
    assert told[2].code == "object-exists"
    assert accounts(store) == {"ann", "bob", "eve"}
    assert check(store) == 3


def test_after_a_replay_heads_and_first_seqs_are_those_of_what_was_committed(open_store: Open) -> None:
    store = open_store()
    made = [born(store, name) for name in ("ann", "ann", "bob", "eve")]
    in_one_group(store, [unit for unit, _ in made])
    assert [made[index][0].first_seq for index in (0, 2, 3)] == [0, 1, 2]
    assert [thing.heads for _, thing in (made[0], made[2], made[3])] == [
        [thing.head] for _, thing in (made[0], made[2], made[3])
    ]
    assert made[1][1].heads == []
    store.writer.write(changed(made[2][1]))
    assert check(store) == 4


def test_callbacks_of_a_refused_unit_are_not_called_and_those_of_its_neighbours_once(
    open_store: Open,
) -> None:
    store = open_store()
    called: list[str] = []
    units = []
    for name in ("ann", "bob", "ann"):
        unit, _ = born(store, name)
        unit.on_commit.append(lambda name=name: called.append(name))  # type: ignore[misc]
        units.append(unit)
    in_one_group(store, units)
    assert called == ["ann", "bob"]


def test_two_changes_built_on_one_version_in_a_group_first_come_wins(open_store: Open) -> None:
    store = open_store()
    unit, thing = born(store, "ann")
    store.writer.write_now([unit])
    other = Thing(thing.id, thing.name, thing.version, thing.head)
    told = in_one_group(store, [changed(thing), changed(other)])
    assert told[0] is None
    assert isinstance(told[1], ConflictError)
    assert told[1].code == "object-changed"
    assert check(store) == 2


def test_a_stale_version_alone_is_a_conflict(open_store: Open) -> None:
    store = open_store()
    unit, thing = born(store, "ann")
    store.writer.write_now([unit, changed(thing, version=1)][:1])
    store.writer.write_now([changed(thing)])
    with pytest.raises(ConflictError, match="object-changed"):
        store.writer.write_now([changed(thing, version=1)])
    assert check(store) == 2


def _text_with_nul(unit: Unit) -> None:
    unit.insert(t.setting, name="a\x00b\ud800", value="x")


def _number_too_large(unit: Unit) -> None:
    unit.insert(t.counter, name="n", value=2**70)


def _not_a_column_value(unit: Unit) -> None:
    unit.insert(t.setting, name="n", value={"a": {1, 2}})


def _missing_value(unit: Unit) -> None:
    unit.insert(t.setting, name="n", value=None)


def _leaf_without_canonical_form(unit: Unit) -> None:
    unit.leaf(LeafDraft("test", "log", "log", extra={"half": 0.5}))


def _row_that_is_gone(unit: Unit) -> None:
    unit.update(t.setting, {"name": "nowhere"}, value="x")


BAD: list[Callable[[Unit], None]] = [
    _text_with_nul, _number_too_large, _not_a_column_value, _missing_value, _leaf_without_canonical_form,
    _row_that_is_gone,
]  # fmt: skip


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__.strip("_"))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among-others"])
def test_what_can_not_be_stored_fails_alone_with_a_code(
    open_store: Open, spoil: Callable[[Unit], None], alone: bool
) -> None:
    store = open_store()
    bad = Unit(ActorRef("us_b"))
    spoil(bad)
    good = [] if alone else [born(store, name)[0] for name in ("ann", "bob")]
    told = in_one_group(store, [*good[:1], bad, *good[1:]])
    refused = [error for error in told if error is not None]
    assert len(refused) == 1
    assert isinstance(refused[0], InvalidError | ConflictError)
    assert check(store) == len(good)
    store.writer.write(born(store, "eve")[0])


def test_usage_counters_are_added_up_and_a_refused_unit_adds_nothing(open_store: Open) -> None:
    store = open_store()
    units = []
    for name in ("ann", "bob", "ann"):
        unit, _ = born(store, name)
        unit.charge("queue", "main", "gpu", 1000)
        units.append(unit)
    in_one_group(store, units)
    with store.read() as view:
        assert view.execute(select(t.quota_usage.c.used)).scalars().all() == [2000]


def test_a_listener_that_fails_does_not_undo_what_was_committed(open_store: Open) -> None:
    store = open_store()
    unit, _ = born(store, "ann")
    unit.on_commit.append(lambda: 1 / 0)  # type: ignore[arg-type]
    store.writer.on_publish(lambda _done: 1 / 0)  # type: ignore[arg-type]
    after, _ = born(store, "bob")
    assert in_one_group(store, [unit, after]) == [None, None]
    assert check(store) == 2


# --- the fence -------------------------------------------------------------------------------------
def _lease(store: Store, epoch: int) -> Unit:
    unit = Unit(ActorRef("control", "control"), new_epoch=epoch)
    unit.leaf(LeafDraft("lease.take", "log", "log", extra={"epoch": epoch}))
    return unit


def test_a_unit_of_an_older_epoch_is_refused_and_those_of_people_go_on(open_store: Open) -> None:
    store = open_store()
    unit, thing = born(store, "ann")
    store.writer.write_now([unit, _lease(store, 1), _lease(store, 2)])
    late = changed(thing, fence=1)
    told = in_one_group(store, [born(store, "bob")[0], late, born(store, "eve")[0]])
    assert (told[0], told[2]) == (None, None)
    assert isinstance(told[1], ConflictError)
    assert told[1].code == "lease-lost"
    assert accounts(store) == {"ann", "bob", "eve"}
    check(store)


def test_a_take_over_in_the_same_group_refuses_what_comes_after_it(open_store: Open) -> None:
    store = open_store()
    unit, thing = born(store, "ann")
    store.writer.write_now([unit, _lease(store, 1)])
    other = Thing(thing.id, thing.name, thing.version + 1)
    told = in_one_group(store, [changed(thing, fence=1), _lease(store, 2), changed(other, fence=1)])
    assert told[:2] == [None, None]
    assert isinstance(told[2], ConflictError)
    assert check(store) == 4


def test_an_epoch_never_goes_back(open_store: Open) -> None:
    store = open_store()
    store.writer.write_now([_lease(store, 5)])
    for epoch in (5, 4):
        with pytest.raises(ConflictError, match="lease-lost"):
            store.writer.write_now([_lease(store, epoch)])
    assert store.writer.state.epoch == 5
    check(store)


# --- the clock -------------------------------------------------------------------------------------
def test_a_clock_that_steps_back_is_a_leaf_once_and_time_in_the_log_stands_still(
    open_store: Open, clock: Clock
) -> None:
    store = open_store()
    store.writer.start()
    store.writer.write(born(store, "ann")[0])
    before = store.writer.last_ts
    clock.forward(-3600 * SECOND)
    after = [born(store, name)[0] for name in ("bob", "eve")]
    for unit in after:
        store.writer.write(unit)
    assert actions(store) == ["user.create", "blind.clock-stepped", "user.create", "user.create"]
    assert [unit.first_seq for unit in after] == [2, 3]
    assert store.writer.last_ts == before
    check(store)
    clock.forward(1800 * SECOND)
    store.writer.write(born(store, "joe")[0])
    clock.forward(-2 * SECOND)
    store.writer.write(born(store, "sue")[0])
    assert actions(store)[4:] == ["user.create", "blind.clock-stepped", "user.create"]
    check(store)


def test_a_clock_that_stepped_back_is_told_once_in_a_group_that_is_replayed(
    open_store: Open, clock: Clock
) -> None:
    store = open_store()
    store.writer.write_now([born(store, "ann")[0]])
    clock.forward(-60 * SECOND)
    made = [born(store, name)[0] for name in ("ann", "bob", "eve")]
    told = in_one_group(store, made)
    assert isinstance(told[0], SteelyardError)
    assert actions(store) == ["user.create", "blind.clock-stepped", "user.create", "user.create"]
    assert [unit.first_seq for unit in made[1:]] == [2, 3]
    check(store)


def test_less_than_a_second_back_is_no_step(open_store: Open, clock: Clock) -> None:
    store = open_store()
    store.writer.write_now([born(store, "ann")[0]])
    clock.forward(-SECOND // 2)
    store.writer.write_now([born(store, "bob")[0]])
    assert actions(store) == ["user.create", "user.create"]
    check(store)
