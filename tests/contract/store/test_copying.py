"""Many new rows at once are told apart from few by their speed alone, on both databases."""

from __future__ import annotations

from typing import Any

from steelyard.model.errors import ConflictError, InvalidError
from steelyard.store import tables as t
from steelyard.store.copying import WORTH_IT
from steelyard.store.unit import Unit
from tests.contract.store.conftest import Open
from tests.support.ledger import accounts, born, check, in_one_group

MANY = 3 * WORTH_IT


def test_one_of_many_that_is_there_already_is_a_conflict_and_its_neighbours_commit(open_store: Open) -> None:
    store = open_store()
    made = [born(store, f"a{number % (MANY - 1)}") for number in range(MANY)]
    told = in_one_group(store, [unit for unit, _ in made])
    assert told[:-1] == [None] * (MANY - 1)
    assert isinstance(told[-1], ConflictError)
    assert told[-1].code == "object-exists"
    assert len(accounts(store)) == check(store) == MANY - 1


def test_what_no_column_can_take_fails_its_unit_alone(open_store: Open) -> None:
    store = open_store()
    made = [born(store, f"a{number}") for number in range(MANY)]
    bad: Unit = Unit(made[0][0].actor)
    rows: list[dict[str, Any]] = [{"name": f"c{number}", "value": number} for number in range(MANY)]
    for row in rows:
        bad.insert(t.counter, **(row if row["value"] else {**row, "value": 1 << 70}))
    told = in_one_group(store, [*(unit for unit, _ in made), bad])
    assert told[:-1] == [None] * MANY
    assert isinstance(told[-1], InvalidError)
    assert check(store) == MANY


def test_text_with_separators_and_bytes_come_back_as_they_were(open_store: Open) -> None:
    store = open_store()
    texts = [f"a{number}\t\\N\n\\{number} 名" for number in range(MANY)]
    unit = Unit(born(store, "ann")[0].actor)
    for text in texts:
        unit.insert(t.counter, name=text, value=1)
    store.writer.write_now([unit])
    with store.read() as view:
        found = set(view.execute(t.counter.select().with_only_columns(t.counter.c.name)).scalars())
    assert set(texts) <= found
