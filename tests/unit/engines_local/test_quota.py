"""What a work folder holds: what is counted, in how small pieces, and how soon it is looked at again."""

from __future__ import annotations

import os
from pathlib import Path

from steelyard.engines.local import quota
from steelyard.engines.local.quota import Gauge, measure

MIB = 1 << 20


class Clock:
    """Stands still, or goes on by `tick` with each look at it."""

    def __init__(self, tick: float = 0.0) -> None:
        self.at, self.tick = 100.0, tick

    def __call__(self) -> float:
        self.at += self.tick
        return self.at


def used(folder: Path) -> int:
    """All bytes, without those of the folders themselves."""
    return list(measure(str(folder)))[-1]


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))


def test_files_in_all_folders_are_counted(tmp_path: Path) -> None:
    before = used(tmp_path)
    write(tmp_path / "a", MIB)
    write(tmp_path / "b/c/d", 2 * MIB)
    assert 3 * MIB <= used(tmp_path) - before < 3 * MIB + (1 << 16)


def test_a_file_with_several_names_counts_once_and_a_hole_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "a", MIB)
    once = used(tmp_path)
    for name in ("b", "c"):
        os.link(tmp_path / "a", tmp_path / name)
    with open(tmp_path / "hole", "wb") as file:
        file.truncate(1 << 30)
    assert used(tmp_path) - once < (1 << 16)


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    write(tmp_path / "outside/big", 4 * MIB)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path / "outside")
    (tmp_path / "work/loop").symlink_to(".")
    assert used(tmp_path / "work") < MIB


def test_a_folder_that_its_owner_closed_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "closed/a", MIB)
    (tmp_path / "closed").chmod(0)
    assert used(tmp_path) >= MIB


def test_rights_of_folders_stay_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "fixed/a", MIB)
    (tmp_path / "fixed").chmod(0o555)
    assert used(tmp_path) >= MIB
    assert (tmp_path / "fixed").stat().st_mode & 0o777 == 0o555


def test_what_vanishes_meanwhile_does_no_harm(tmp_path: Path) -> None:
    for name in ("a/b", "c/d"):
        write(tmp_path / name, MIB)
    look = measure(str(tmp_path))
    next(look)
    for name in ("a/b", "c/d"):
        (tmp_path / name).unlink()
        (tmp_path / name).parent.rmdir()
    assert list(look)
    assert list(measure(str(tmp_path / "never"))) == []


def test_over_the_limit_is_told_in_whole_mebibytes(tmp_path: Path) -> None:
    write(tmp_path / "a", 3 * MIB)
    assert Gauge(str(tmp_path), 4, Clock()).step() is None
    assert Gauge(str(tmp_path), 2, Clock()).step() in (3, 4)


def test_a_look_is_done_in_pieces_of_a_few_milliseconds_one_a_second(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"d{number}").mkdir()
    clock = Clock(quota.PIECE_SECONDS / 10)
    gauge, pieces = Gauge(str(tmp_path), 1000, clock), 0
    while gauge._last is None:
        began = clock.at
        assert gauge.step() is None
        pieces += 1
        assert clock.at - began < 2 * quota.PIECE_SECONDS
        clock.at = max(clock.at, gauge.due)
        assert pieces < 1000
    assert pieces > 5
    assert gauge.step() is None
    assert gauge.due - clock.at <= quota.LONGEST


def test_the_faster_it_grows_the_sooner_it_is_looked_at_again(tmp_path: Path) -> None:
    clock = Clock()
    gauge = Gauge(str(tmp_path), 1000, clock)
    gauge.step()
    clock.at = gauge.due
    gauge.step()
    assert gauge.due - clock.at == quota.LONGEST  # nothing grows
    clock.at = gauge.due
    write(tmp_path / "a", 64 * MIB)
    gauge._limit = 128 * MIB
    gauge.step()
    assert quota.EVERY <= gauge.due - clock.at < quota.LONGEST
