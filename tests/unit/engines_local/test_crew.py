"""Shims that wait for their next member: what is handed over, what is thrown away, when they end."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import threading
from pathlib import Path

from steelyard.engines.local import crew
from steelyard.engines.local.crew import Crew, Work

WATCHED = frozenset({signal.SIGUSR1})
WORK = Work({"attempt": "at_1"}, {"member": "mb_1"})


class Hall:
    """A crew with one shim, which is a thread here; what it was told of is in `over`."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.crew = Crew(self.selector)
        ours, self.shim = crew.channel()
        self.over: list[str] = []
        self.crew.add(ours, os.getpid(), 7, lambda: self.over.append("first"))

    def turn(self) -> None:
        """What the runner's loop does when something is there."""
        for key, mask in self.selector.select(10):
            key.data(mask)

    def free(self) -> threading.Thread:
        """The shim is done and waits for its next member; what it gets stands in `taken`."""
        self.taken: list[tuple[Work, int] | None] = []
        waiting = threading.Thread(target=lambda: self.taken.append(crew.next_work(self.shim, WATCHED)))
        waiting.start()
        self.turn()
        return waiting


def test_a_shim_that_is_free_takes_the_next_member_with_its_lock_held(tmp_path: Path) -> None:
    hall = Hall()
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = hall.free()
    assert hall.over == ["first"]
    assert hall.crew.give(WORK, lock, lambda: hall.over.append("second")) == (os.getpid(), 7)
    os.close(lock)
    waiting.join(10)
    (taken,) = hall.taken
    assert taken is not None
    assert taken[0] == WORK
    other = os.open(tmp_path / "lock", os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held = True
    else:
        held = False
    assert held
    os.close(taken[1])
    os.close(other)
    hall.free().join(10)
    assert hall.over == ["first", "second"]


def test_a_busy_shim_is_given_nothing(tmp_path: Path) -> None:
    hall = Hall()
    assert hall.crew.give(WORK, 0, lambda: None) is None


def test_a_claim_too_long_for_a_message_is_left_to_a_new_shim() -> None:
    hall = Hall()
    waiting = hall.free()
    long = WORK._replace(attempt={"attempt": "x" * 100_000})
    assert hall.crew.give(long, 0, lambda: None) is None
    waiting.join(10)


def test_a_shim_for_which_nothing_comes_ends() -> None:
    hall = Hall()
    waiting = hall.free()
    waiting.join(10)
    assert hall.taken == [None]


def test_a_shim_whose_runner_is_gone_ends() -> None:
    ours, theirs = crew.channel()
    ours.close()
    assert crew.next_work(theirs, WATCHED) is None


def test_the_end_of_a_busy_shim_is_not_told_as_the_end_of_its_member() -> None:
    hall = Hall()
    hall.shim.close()
    hall.turn()
    assert hall.over == []
    assert hall.crew.give(WORK, 0, lambda: None) is None


def test_signals_meant_for_the_member_before_are_thrown_away(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        hall = Hall()
        lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        hall.shim.settimeout(10)
        hall.shim.send(b"f")
        hall.turn()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # other threads do not block it
        assert hall.crew.give(WORK, lock, lambda: None) is not None
        os.close(lock)
        taken = crew.next_work(hall.shim, WATCHED)
        assert taken is not None
        os.close(taken[1])
        assert signal.sigtimedwait(WATCHED, 0) is None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
