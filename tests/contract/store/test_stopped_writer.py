"""A server that is stopped in the middle of a batch of commands keeps nobody waiting for long."""

from __future__ import annotations

import time

import psycopg
import pytest

from steelyard.store.store import Store
from tests.support.ledger import accounts, born


@pytest.mark.requirement("K8")
def test_who_holds_the_log_and_says_nothing_more_is_ended(postgresql_database: str) -> None:
    store = Store(postgresql_database, lambda: time.time_ns() // 1000)
    store.start()
    stopped = psycopg.connect(postgresql_database)
    batch = stopped.pipeline()
    batch.__enter__()
    stopped.execute("UPDATE log SET size = size WHERE id = 1")
    stopped.pgconn.send_flush_request()
    stopped.pgconn.flush()  # and nothing more: no timeout of the database's own counts here
    began = time.monotonic()
    store.writer.write(born(store, "ann")[0], timeout=30.0)
    assert time.monotonic() - began < 12.0
    assert accounts(store) == {"ann"}
    stopped.pgconn.finish()
    store.close()


def test_who_writes_slowly_but_goes_on_is_waited_for(postgresql_database: str) -> None:
    store = Store(postgresql_database, lambda: time.time_ns() // 1000)
    store.start()
    with psycopg.connect(postgresql_database) as slow:
        slow.execute("UPDATE log SET size = size WHERE id = 1")
        waiting = store.writer.submit(born(store, "ann")[0])
        for _ in range(3):
            time.sleep(1.7)
            slow.execute("SELECT 1")
        slow.commit()
        waiting.result(30.0)
    assert accounts(store) == {"ann"}
    store.close()
