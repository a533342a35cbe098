"""Shape 12: the unit of work is a value and the only way to write; one writer flushes it in a fixed order.

How groups fail, and what a crash leaves, is in tests/contract/store.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

import steelyard
from steelyard.engines.port import AttemptStart, Engine, StartReply
from steelyard.evidence.leaf import ActorRef, LeafDraft
from steelyard.model.errors import ConflictError
from steelyard.model.ids import parse
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from steelyard.store.unit import TABLE_ORDER, Unit
from tests.support.house import House
from tests.support.ledger import accounts, actions, born, check, in_one_group
from tests.support.stores import Clock

SOURCE = Path(steelyard.__file__).parent


@pytest.fixture
def quiet(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """A store whose writer was not started yet."""
    opened = Store(sqlite_url(tmp_path), clock)
    yield opened
    opened.close()


def _unit() -> Unit:
    unit = Unit(ActorRef("us_a"))
    row = unit.insert(t.user, id=7, name="ann", version=1, created_at=1)
    unit.leaf(LeafDraft("user.create", "user", "7", version_after=1), row)
    return unit


def test_a_unit_is_a_value_that_is_made_without_a_store() -> None:
    assert _unit() == _unit()


def test_nobody_but_the_store_opens_a_writing_transaction_or_speaks_sql() -> None:
    found = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = {alias.name for alias in node.names}
                speaks = node.module.split(".")[0] == "sqlalchemy" or (
                    node.module == "steelyard.store.database" and "writing" in names
                )
                if speaks and room != "store":
                    found.append(str(path.relative_to(SOURCE)))
    assert found == []


def test_a_flush_updates_the_logs_row_first_and_then_the_tables_in_their_order(quiet: Store) -> None:
    seen: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_rest: object) -> None:
        words = statement.replace("INSERT INTO", "INTO").split()
        if words[0] in ("INTO", "UPDATE", "DELETE"):
            seen.append(words[2] if words[0] == "DELETE" else words[1])

    event.listen(quiet.engine, "before_cursor_execute", note)
    first, second = Unit(ActorRef("us_a")), Unit(ActorRef("us_b"))
    first.insert(t.setting, name="a", value="1")
    first.insert(t.counter, name="a", value=1)
    second.insert(t.counter, name="b", value=1)
    second.insert(t.setting, name="b", value="1")
    second.leaf(LeafDraft("test.set", "setting", "b"))
    assert in_one_group(quiet, [first, second]) == [None, None]
    assert seen[:2] == ["log", "leaf"]
    rows = [name for name in seen[2:] if name not in ("stream_head", "quota_usage")]
    assert rows == sorted({"counter", "setting"}, key=lambda name: TABLE_ORDER[name])


def test_two_actors_share_a_commit_and_have_a_leaf_each(quiet: Store) -> None:
    made = [born(quiet, name, actor=f"us_{name}")[0] for name in ("ann", "bob")]
    in_one_group(quiet, made)
    assert quiet.writer.commits == 1
    assert actions(quiet) == ["user.create", "user.create"]
    check(quiet)


def test_what_is_told_after_a_commit_is_there_to_be_read(quiet: Store) -> None:
    seen: list[set[str]] = []
    unit, _ = born(quiet, "ann")
    unit.on_commit.append(lambda: seen.append(accounts(quiet)))
    quiet.start()
    quiet.writer.write(unit)
    assert seen == [{"ann"}]


def test_what_was_refused_leaves_no_trace_in_memory(quiet: Store) -> None:
    quiet.start()
    quiet.writer.write(born(quiet, "ann")[0])
    before = quiet.writer.state
    with pytest.raises(ConflictError):
        quiet.writer.write(born(quiet, "ann")[0])
    assert quiet.writer.state == before


class Watched:
    """An engine that looks into the store when it is told to start something."""

    def __init__(self, engine: Engine, phases: list[str], houses: list[House]) -> None:
        self._engine, self._phases, self._houses = engine, phases, houses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def start(self, attempts: Sequence[AttemptStart]) -> tuple[StartReply, ...]:
        """As the engine does."""
        for attempt in attempts:
            with self._houses[0].store.read() as view:
                number = parse("attempt", attempt.attempt_id)
                query = t.attempt.select().where(t.attempt.c.id == number)
                self._phases.append(view.execute(query).one().phase)
        return self._engine.start(attempts)


def test_engines_act_only_on_what_is_committed(tmp_path: Path) -> None:
    phases: list[str] = []
    houses: list[House] = []

    def watch(engine: Engine) -> Any:
        return Watched(engine, phases, houses)

    made = House(sqlite_url(tmp_path), tmp_path, wrap=watch)
    houses.append(made)
    made.submit("train")
    made.run_dry()
    assert phases == ["starting"]
    made.close()
