"""Many threads on one store, and two stores (two servers) on one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.evidence.leaf import ActorRef, LeafDraft
from steelyard.model.errors import ConflictError
from steelyard.store import tables as t
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.contract.store.conftest import Open
from tests.support.ledger import Thing, accounts, born, changed, check

THREADS, EACH = 64, 12


@pytest.fixture
def pair(open_store: Open) -> tuple[Store, Store]:
    """Two servers' stores on one database, both writing."""
    first, second = open_store(), open_store()
    first.start()
    second.start()
    return first, second


def test_64_threads_leave_no_gap(open_store: Open, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store()
    store.start()

    def work(number: int) -> None:
        for turn in range(EACH):
            store.writer.write(
                born(store, f"{number}-{turn}", actor=f"us_{number}", project=f"p{number % 4}")[0]
            )

    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    took = time.perf_counter() - began
    assert check(store) == THREADS * EACH
    with capsys.disabled():
        rate, commits = THREADS * EACH / took, store.writer.commits
        print(f" [{store.engine.dialect.name}: {rate:.0f} leaves/s in {commits} commits] ", end="")


def test_two_stores_that_write_at_once_leave_no_gap_and_the_right_tree(pair: tuple[Store, Store]) -> None:
    def work(number: int) -> None:
        store = pair[number % 2]
        for turn in range(25):
            unit, thing = born(store, f"{number}-{turn}", actor=f"us_{number % 3}")
            store.writer.write(unit)
            store.writer.write(changed(thing))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert check(pair[0]) == 8 * 25 * 2
    for store in pair:
        store.writer.write(born(store, f"last-{id(store)}")[0])
    assert check(pair[1]) == 8 * 25 * 2 + 2
    assert pair[1].writer.state.size == 8 * 25 * 2 + 2


def test_what_a_store_kept_of_the_streams_is_read_anew_when_another_wrote(pair: tuple[Store, Store]) -> None:
    for turn in range(6):
        pair[turn % 2].writer.write(born(pair[turn % 2], f"a{turn}")[0])
    assert check(pair[0]) == 6


def test_of_two_stores_that_change_one_object_one_is_told_of_the_conflict(pair: tuple[Store, Store]) -> None:
    unit, thing = born(pair[0], "ann")
    pair[0].writer.write(unit)
    other = Thing(thing.id, thing.name, thing.version, thing.head)
    barrier = threading.Barrier(2)

    def work(store: Store, mine: Thing) -> str:
        barrier.wait()
        try:
            store.writer.write(changed(mine))
        except ConflictError as error:
            return error.code
        return "won"

    with ThreadPoolExecutor(2) as pool:
        became = list(pool.map(work, pair, (thing, other)))
    assert sorted(became) == ["object-changed", "won"]
    assert check(pair[0]) == 2


def test_two_stores_that_make_the_same_name_one_is_refused_and_its_group_goes_on(
    pair: tuple[Store, Store],
) -> None:
    made = [(store, born(store, name)[0]) for name in ("ann", "bob", "eve") for store in pair]
    futures = [store.writer.submit(unit) for store, unit in made]
    errors = [future.exception(30) for future in futures]
    assert sum(error is None for error in errors) == 3
    assert all(isinstance(error, ConflictError) for error in errors if error is not None)
    assert accounts(pair[0]) == {"ann", "bob", "eve"}
    assert check(pair[0]) == 3


# --- the fence between two servers --------------------------------------------------------------------
def _take_over(epoch: int) -> Unit:
    unit = Unit(ActorRef("control", "control"), new_epoch=epoch)
    unit.leaf(LeafDraft("lease.take", "log", "log", extra={"epoch": epoch}))
    return unit


def _with_leaf(thing: Thing) -> Unit:
    return changed(thing, fence=1)


def _without_leaf(_thing: Thing) -> Unit:
    unit = Unit(ActorRef("control", "control"), fence=1)
    unit.upsert(t.setting, ("name",), name="late", value="x")
    return unit


@pytest.mark.parametrize("late", [_with_leaf, _without_leaf], ids=["with-leaf", "without-leaf"])
def test_after_a_take_over_the_old_holders_late_write_is_refused(
    pair: tuple[Store, Store], late: Callable[[Thing], Unit]
) -> None:
    old, new = pair
    unit, thing = born(old, "ann")
    old.writer.write(unit)
    old.writer.write(_take_over(1))
    new.writer.write(_take_over(2))
    assert old.writer.state.epoch == 1  # it has not heard of it
    with pytest.raises(ConflictError, match="lease-lost"):
        old.writer.write(late(thing))
    old.writer.write(born(old, "bob")[0])
    assert accounts(new) == {"ann", "bob"}
    with new.read() as view:
        assert view.execute(t.setting.select()).all() == []
    assert check(new) == 4
