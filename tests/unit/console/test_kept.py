"""What took long is kept a while, by key; what was quick is made anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from steelyard.console.kept import LONGEST_S, MOST, TIMES, Kept


class Work:
    """Takes some seconds of its own clock and counts itself."""

    def __init__(self, seconds: float) -> None:
        self.at, self.seconds, self.done = 0.0, seconds, 0

    def clock(self) -> float:
        return self.at

    def __call__(self) -> int:
        self.at += self.seconds
        self.done += 1
        return self.done


def kept(work: Work) -> tuple[Kept[int], Callable[[str], int]]:
    made: Kept[int] = Kept(work.clock)
    return made, lambda key: made.get(key, work)


def test_a_quick_answer_is_made_anew_each_time() -> None:
    _, get = kept(Work(0.1))
    assert [get("a"), get("a")] == [1, 2]


def test_a_slow_answer_is_kept_for_twenty_times_as_long() -> None:
    work = Work(1.0)
    _, get = kept(work)
    assert get("a") == 1
    work.at += TIMES - 0.1
    assert get("a") == 1
    work.at += 0.2
    assert get("a") == 2


def test_what_must_not_be_old_is_kept_for_less() -> None:
    work = Work(100.0)
    made: Kept[int] = Kept(work.clock, longest=5.0)
    assert made.get("a", work) == 1
    work.at += 4.9
    assert made.get("a", work) == 1
    work.at += 0.2
    assert made.get("a", work) == 2


def test_nothing_is_kept_for_longer_than_half_a_minute() -> None:
    work = Work(100.0)
    _, get = kept(work)
    get("a")
    work.at += LONGEST_S
    assert get("a") == 2


def test_another_key_has_another_answer_and_old_ones_make_room() -> None:
    work = Work(1.0)
    made, get = kept(work)
    assert [get(str(n)) for n in range(MOST + 1)] == list(range(1, MOST + 2))
    assert len(made._answers) == MOST
    assert get(str(MOST)) == MOST + 1


def test_who_asks_for_the_same_at_once_waits_for_the_one_answer() -> None:
    work, began, go = Work(1.0), threading.Event(), threading.Event()

    def slowly() -> int:
        began.set()
        assert go.wait(30)
        return work()

    made: Kept[int] = Kept(work.clock)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(made.get, "a", slowly)]
        assert began.wait(30)
        asked += [pool.submit(made.get, "a", slowly) for _ in range(2)]
        go.set()
        assert [each.result(30) for each in asked] == [1, 1, 1]
