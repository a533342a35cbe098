"""Asking the loop of this server for what it has in mind."""

from __future__ import annotations

import threading

from steelyard.model.policy import Policy
from steelyard.scheduling.snapshot import Snapshot
from steelyard.services.present import Present


def test_a_server_without_a_loop_is_not_waited_for() -> None:
    present = Present()
    assert present.ask(patience=60) is None
    present.open(lambda: None)
    present.close()
    assert present.ask(patience=60) is None


def test_who_asks_wakes_the_loop_and_gets_what_it_made_afterwards() -> None:
    present, woken, made = Present(), threading.Event(), (Snapshot(), Policy(1))
    present.open(woken.set)
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(present.ask(patience=60)))
    asking.start()
    assert woken.wait(60)
    present.answer(lambda: made)
    asking.join(60)
    assert found == [made]


def test_a_pass_makes_nothing_for_nobody() -> None:
    present = Present()
    present.open(lambda: None)

    def never() -> tuple[Snapshot, Policy]:
        raise AssertionError("nobody has asked")

    present.answer(never)


def test_a_loop_that_does_not_answer_in_time_is_given_up() -> None:
    present = Present()
    present.open(lambda: None)
    assert present.ask(patience=0.01) is None


def test_a_lost_lease_answers_those_who_wait_at_once() -> None:
    present, woken = Present(), threading.Event()
    present.open(woken.set)
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(present.ask(patience=60)))
    asking.start()
    assert woken.wait(60)
    present.close()
    asking.join(60)
    assert found == [None]
