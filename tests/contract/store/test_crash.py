"""A crash at each statement of the commit: no gap, no leaf without state, no state without leaf."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from steelyard.model.errors import UnavailableError
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from tests.contract.store.conftest import Open
from tests.contract.store.faults import Crash, Faults, trouble
from tests.support.ledger import accounts, born, changed, check, in_one_group

MOST = 120


def _group(store: Store, turn: int, *, with_bad: bool) -> list[Unit]:
    first, thing = born(store, f"first-{turn}")
    store.writer.write_now([first])
    first.charge("queue", "main", "gpu", 1)
    units = [changed(thing)]
    units += [born(store, f"{name}-{turn}", project=f"p{name}")[0] for name in ("a", "b")]
    if with_bad:
        units.append(born(store, f"a-{turn}")[0])
    units[-1].charge("queue", "main", "gpu", 1000)
    return units


@pytest.mark.parametrize("error", [Crash("here"), trouble()], ids=["crash", "trouble"])
@pytest.mark.parametrize("with_bad", [False, True], ids=["clean-group", "group-with-a-bad-unit"])
@pytest.mark.requirement("K8")
def test_a_failure_at_any_statement_leaves_all_or_nothing(
    open_store: Open, error: Exception, with_bad: bool
) -> None:
    for turn in range(MOST):
        store = open_store()
        units = _group(store, turn, with_bad=with_bad)
        faults = Faults(store, error)
        faults.at = turn + 1
        told = in_one_group(store, units)
        faults.at = -1
        there = accounts(store)
        for unit, refused in zip(units[1:3], told[1:3], strict=True):
            if not with_bad or unit is units[2]:  # else the bad one may have taken its name
                assert (unit.writes[0].row["name"] in there) == (refused is None)
        assert all(refused is None or isinstance(refused, Crash | UnavailableError) for refused in told[:3])
        check(store)
        store.writer.write(born(store, f"after-{turn}")[0])
        check(store)
        store.close()
        if not faults.fired:
            break
    else:
        raise AssertionError("more statements than expected")
    assert turn >= 8, "the fault was never at the later statements"


def test_a_reply_to_the_commit_that_is_lost_harms_nothing_that_follows(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.start()
    store.writer.write(born(store, "ann")[0])
    real = store.engine.dialect.do_commit

    def lost(connection: Any) -> None:
        monkeypatch.undo()
        real(connection)
        raise trouble()

    monkeypatch.setattr(store.engine.dialect, "do_commit", lost)
    with pytest.raises(UnavailableError):
        store.writer.write(born(store, "bob")[0])
    store.writer.write(born(store, "eve")[0])
    assert accounts(store) == {"ann", "bob", "eve"}
    assert check(store) == 3


def test_a_writer_that_failed_and_writes_again_is_not_broken_any_more(open_store: Open) -> None:
    store = open_store()
    store.start()
    faults = Faults(store, trouble())
    faults.at = 1
    with pytest.raises(UnavailableError, match="database-failed"):
        store.writer.write(born(store, "ann")[0])
    assert isinstance(store.writer.broken, OperationalError)
    store.writer.write(born(store, "bob")[0])
    assert not store.writer.broken
    assert check(store) == 1


CHILD = textwrap.dedent(
    """
    import os, signal, sys, time
    from sqlalchemy import event
    from steelyard.store.store import Store
    from tests.support.ledger import born, changed

    url, at = sys.argv[1], int(sys.argv[2])
    store = Store(url, lambda: time.time_ns() // 1000)
    first, thing = born(store, f"first-{at}")
    store.writer.write_now([first])
    seen = 0

    def count(connection, *rest):
        global seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(store.engine, "before_cursor_execute", count)
    event.listen(store.engine, "commit", count)
    store.writer.write_now([changed(thing), born(store, f"a-{at}")[0], born(store, f"b-{at}")[0]])
    print("written", flush=True)
    """
)


def test_a_process_that_is_killed_at_any_statement_leaves_all_or_nothing(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    for at in range(1, MOST):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, url, str(at)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        store = Store(url, lambda: 0)
        written = {name for name in accounts(store) if not name.startswith("first")}
        assert {f"a-{at}", f"b-{at}"} & written in (set(), {f"a-{at}", f"b-{at}"})
        assert (f"a-{at}" in written) == ("written" in done.stdout)
        check(store)
        store.close()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        raise AssertionError("more statements than expected")
    assert at >= 8
