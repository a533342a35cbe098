"""Shape 13: a lease with an epoch: the holder is stopped, another takes over, the first one's late write is
refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from steelyard.control.lease import Lease
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from steelyard.store.installation import read_lease
from steelyard.store.store import Store
from tests.support.ledger import check
from tests.support.stores import Clock

TTL = SECOND
ROOT = Path(__file__).parents[2]


class Server:
    """A process that holds the lease when it can."""

    def __init__(self, url: str, name: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lease_holder", url, name, str(TTL)],
            env=environment, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def tell(self, command: str) -> None:
        """Give a command."""
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def until(self, *words: str) -> tuple[str, float]:
        """Read its lines up to one that begins so; the line and when it came."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + 20
        for line in self.process.stdout:
            assert time.monotonic() < deadline, f"{self.name} did not say {words}"
            if line.split()[: len(words)] == list(words):
                return line.strip(), time.monotonic()
        raise AssertionError(f"{self.name} ended before it said {words}")

    def wait_stopped(self) -> None:
        """Until the kernel says that it is stopped."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def wake(self) -> None:
        """Let it go on."""
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        """Let it end by itself, stopped or not."""
        self.wake()
        self.process.communicate(timeout=20)


@pytest.fixture
def servers(postgresql_database: str) -> Iterator[tuple[Server, Server]]:
    """Two servers on one database; the first holds the lease."""
    first = Server(postgresql_database, "sv_a")
    first.until("holds")
    second = Server(postgresql_database, "sv_b")
    yield first, second
    first.end()
    second.end()


def _leaves(url: str) -> list[tuple[str, int]]:
    store = Store(url, lambda: 0)
    check(store)
    with store.read() as view:
        rows = view.execute(
            select(t.leaf.c.body).where(t.leaf.c.action == "test.work").order_by(t.leaf.c.seq)
        )
        details = [msgspec.json.decode(body)["detail"] for (body,) in rows]
    store.close()
    return [(detail["by"], detail["epoch"]) for detail in details]


def test_the_late_write_of_a_holder_that_was_stopped_is_refused(
    servers: tuple[Server, Server], postgresql_database: str
) -> None:
    first, second = servers
    first.until("wrote", "1")
    first.tell("between")
    first.wait_stopped()
    stopped = time.monotonic()
    _, taken = second.until("holds", "2")
    assert taken - stopped < TTL / SECOND + 1.0
    second.until("wrote", "2")
    first.wake()
    assert first.until("refused")[0] == "refused lease-lost 1"
    first.until("lost", "1")
    second.until("wrote", "2")
    written = _leaves(postgresql_database)
    assert written == sorted(written), "the first one wrote after the second had begun"


def test_a_holder_that_is_stopped_in_the_middle_of_a_transaction_does_not_block_the_others(
    servers: tuple[Server, Server], postgresql_database: str
) -> None:
    first, second = servers
    first.until("wrote", "1")
    first.tell("within")
    first.wait_stopped()
    stopped = time.monotonic()
    _, taken = second.until("holds", "2")
    assert taken - stopped < 10
    second.until("wrote", "2")
    first.wake()
    assert first.until("refused")[0].split()[1] in ("database-failed", "lease-lost")
    epochs = [epoch for _, epoch in _leaves(postgresql_database)]
    assert epochs == sorted(epochs), "a write of an older epoch came later"


# --- in one process ------------------------------------------------------------------------------------
@pytest.fixture
def pair(postgresql_database: str, clock: Clock) -> Iterator[tuple[Store, Store]]:
    """Two servers' stores."""
    made = Store(postgresql_database, clock), Store(postgresql_database, clock)
    for store in made:
        store.start()
    yield made
    for store in made:
        store.close()


def test_nobody_takes_a_lease_that_is_renewed(pair: tuple[Store, Store], clock: Clock) -> None:
    first, second = Lease(pair[0], "a", TTL), Lease(pair[1], "b", TTL)
    assert first.hold() == 1
    assert second.hold() is None
    for _ in range(5):
        clock.forward(TTL // 2)
        first._renew_at = 0.0
        assert first.hold() == 1
        assert second.hold() is None


def test_a_lease_that_ran_out_is_taken_with_the_next_epoch_and_the_first_one_notices(
    pair: tuple[Store, Store], clock: Clock
) -> None:
    first, second = Lease(pair[0], "a", TTL), Lease(pair[1], "b", TTL)
    assert first.hold() == 1
    clock.forward(TTL + 1)
    assert second.hold() == 2
    first._renew_at = 0.0
    assert first.hold() is None
    assert (pair[1].writer.state.epoch, check(pair[0])) == (2, 2)


def test_a_lease_that_is_given_back_is_free_at_once(pair: tuple[Store, Store]) -> None:
    first, second = Lease(pair[0], "a", TTL), Lease(pair[1], "b", TTL)
    first.hold()
    first.give_back()
    assert second.hold() == 2


def test_of_two_that_take_it_at_once_one_has_it(pair: tuple[Store, Store], clock: Clock) -> None:
    first, second = Lease(pair[0], "a", TTL), Lease(pair[1], "b", TTL)
    with pair[0].read() as view:
        assert read_lease(view, "control") is None
    second._take(clock(), None)
    first._take(clock(), None)
    assert (first._epoch, second._epoch) == (None, 1)
    check(pair[0])


def test_an_embedded_server_takes_the_lease_of_a_dead_one_at_once(tmp_path: Path, clock: Clock) -> None:
    store = Store(f"sqlite:///{tmp_path / 'x.db'}", clock)
    store.start()
    assert Lease(store, "dead", TTL).hold() == 1
    assert Lease(store, "alive", TTL).hold() == 2
    store.close()
