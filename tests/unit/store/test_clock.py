"""The server's clock: it never steps back, never stands still, and finds its way to the wall clock again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.store.clock import SteadyClock

START = 1_800_000_000_000_000
MOVES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(-(10**10), 10**10)), max_size=40)


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.passed, self.set_by = 0, 0

    def wall(self) -> int:
        return START + self.passed + self.set_by

    def monotonic(self) -> int:
        return self.passed


@given(MOVES)
def test_it_never_steps_back_and_goes_on_at_least_at_half_pace(moves: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, machine.monotonic)
    before = clock()
    for passes, change in moves:
        machine.passed += passes
        machine.set_by += change
        now = clock()
        assert now >= before + passes // 2 - 1
        assert now >= machine.wall()
        before = now


def test_it_is_the_wall_clock_as_long_as_that_is_not_set_back() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, machine.monotonic)
    for _ in range(5):
        machine.passed += 1_234_567
        assert clock() == machine.wall()


def test_it_comes_back_to_the_wall_clock_after_twice_the_time() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, machine.monotonic)
    machine.set_by = -1000
    machine.passed += 1990
    assert clock() > machine.wall()
    machine.passed += 10
    assert clock() == machine.wall()
    machine.passed += 77
    assert clock() == machine.wall()


def test_it_starts_no_earlier_than_it_is_told() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, machine.monotonic)
    clock.not_before(START + 5000)
    assert clock() == START + 5000
    machine.passed += 1000
    assert clock() == START + 5500
