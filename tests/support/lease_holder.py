"""A server as a process of its own, reduced to its lease: it takes it, writes under it, and stops on demand.

    python -m tests.support.lease_holder URL NAME TTL_MICROS

Prints a line for whatever happens. Commands on standard input: `between` stops it (SIGSTOP) after it has
made sure of its lease and before it writes; `within` stops it in the middle of the transaction.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from typing import Any

from sqlalchemy import event

from steelyard.control.lease import Lease
from steelyard.evidence.leaf import ActorRef, LeafDraft
from steelyard.model.errors import SteelyardError
from steelyard.store.store import Store
from steelyard.store.unit import Unit


def say(*words: object) -> None:
    """A line for the test."""
    print(*words, flush=True)


def write(store: Store, epoch: int, name: str) -> None:
    """One write of the control plane under the lease."""
    unit = Unit(ActorRef("control", "control"), fence=epoch)
    unit.leaf(LeafDraft("test.work", "log", "log", extra={"by": name, "epoch": epoch}))
    try:
        store.writer.write(unit)
    except SteelyardError as error:
        say("refused", error.code, epoch)
    else:
        say("wrote", epoch)


def stop_here() -> None:
    """Stop the process before this thread does anything more (a signal to the process may come later)."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_within(store: Store) -> None:
    """Stop before the leaf is inserted, when the log's row is locked already."""

    stopped: list[str] = []

    def stop(_connection: Any, _cursor: Any, statement: str, *_rest: object) -> None:
        if not stopped and statement.startswith("INSERT INTO leaf"):
            stopped.append(statement)
            stop_here()

    event.listen(store.engine, "before_cursor_execute", stop)


def main(url: str, name: str, ttl: str) -> None:
    """Runs until standard input is closed."""
    store = Store(url, lambda: time.time_ns() // 1000)
    store.start()
    lease = Lease(store, name, int(ttl))
    held: int | None = None
    while True:
        epoch = lease.hold()
        if epoch != held:
            say("holds" if epoch else "lost", epoch if epoch else held)
        held = epoch
        ready, _, _ = select.select([sys.stdin], [], [], 0.02)
        command = sys.stdin.readline().strip() if ready else ""
        if ready and not command:
            return
        if command == "within":
            stop_within(store)
        if epoch is not None:
            if command == "between":
                stop_here()
            write(store, epoch, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
