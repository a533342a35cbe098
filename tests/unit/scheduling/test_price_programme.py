"""What sizes earn follows from the mix: dual values, so that no filling of a device earns more than it."""

from __future__ import annotations

from itertools import combinations_with_replacement

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.openb import tasks
from steelyard.scheduling.prices import DEVICE
from steelyard.services.price_programme import Task, earnings, prices_of

sizes = st.lists(st.sampled_from([50, 120, 160, 230, 320, 470, 550, 650, 810, 1000]), min_size=1, unique=True)


def test_sizes_of_a_production_mix_earn_what_can_stand_beside_them() -> None:
    mix = [Task(task.gpu, task.cpu, count) for task, count in tasks("default").items()]
    prices = prices_of(mix)
    assert prices is not None
    earns = {size: earned for size, earned, _ in prices.fractions}
    shares = {810: 1, 650: 2 / 3, 550: 7 / 12, 470: 1 / 2, 320: 1 / 3, 230: 1 / 4, 160: 0, 50: 0}
    assert {size: earns[size] for size in shares} == {s: round(DEVICE * part) for s, part in shares.items()}
    assert prices.wholes == ((1, 11_400), (2, 16_200), (4, 32_200), (8, 88_000))


@given(sizes=sizes, data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_filling_of_a_device_earns_more_than_the_device(sizes: list[int], data: st.DataObject) -> None:
    counts = {size: data.draw(st.integers(1, 200)) for size in sizes}
    earned = earnings(counts)
    assert max(earned.values()) > 0
    for many in range(1, 5):
        for filling in combinations_with_replacement(sizes, many):
            if sum(filling) <= 1000:
                assert sum(earned[size] for size in filling) <= DEVICE + many


def test_a_mix_without_devices_has_no_prices() -> None:
    assert prices_of([Task(0, 4_000)]) is None


def test_many_sizes_are_rounded_up_to_steps() -> None:
    prices = prices_of([Task(size, 1_000) for size in range(100, 400)])
    assert prices is not None
    assert len(prices.fractions) <= 64
    assert all(size % 10 == 0 for size, _, _ in prices.fractions)
