"""Whose a process is, and who takes much: of a table of processes, without any."""

from __future__ import annotations

import os

import pytest

from steelyard.devices.settings import HogRules
from steelyard.engines.local import procfs
from steelyard.engines.local.procfs import Process
from steelyard.engines.local.strangers import Hogs, Owners, look, on_device
from steelyard.model.health import DeviceHolder

HERTZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SECOND = 1_000_000


def process(pid: int, parent: int = 1, cpu: int = 0, mib: int = 1, start: int = 7) -> Process:
    return Process(pid, "x", "R", parent, pid, pid, cpu, 0, start, mib * (1 << 20) // PAGE)


def table(*processes: Process, **known: object) -> Owners:
    return Owners({one.pid: one for one in processes}, **known)  # type: ignore[arg-type]


def burned(hogs: Hogs, *seconds_of_cpu: float, **known: object) -> list[list[int]]:
    """One process that has used so much CPU at each look, a second apart; who is told after each."""
    found = []
    for number, used in enumerate(seconds_of_cpu):
        hogs.look(table(process(9, cpu=int(used * HERTZ)), **known), number * SECOND)
        found.append([holder.cpu or 0 for holder in hogs.cpu])
    return found


def test_a_hog_is_told_after_as_many_looks_as_the_rules_ask_for_with_its_amount() -> None:
    assert burned(Hogs(HogRules(looks=3), 1000), 0, 1, 2, 3) == [[], [], [], [1000]]


def test_one_that_pauses_begins_anew() -> None:
    assert burned(Hogs(HogRules(looks=3), 1000), 0, 1, 2, 2, 3, 4, 5)[-3:] == [[], [], [1000]]


def test_a_little_is_no_hog() -> None:
    assert burned(Hogs(HogRules(looks=3), 1000), 0, 0.4, 0.8, 1.2, 1.6)[-1] == []


def test_memory_counts_by_its_share_of_the_machine() -> None:
    hogs = Hogs(HogRules(memory=50, looks=2), 1000)
    for number in range(2):
        hogs.look(table(process(9, mib=50), process(8, mib=49)), number * SECOND)
    assert [(holder.pid, holder.memory) for holder in hogs.memory] == [(9, 50)]


def test_a_number_that_another_process_has_now_is_another_process() -> None:
    hogs = Hogs(HogRules(looks=1), 1000)
    hogs.look(table(process(9, cpu=0)), 0)
    hogs.look(table(process(9, cpu=5 * HERTZ, start=8)), SECOND)
    assert hogs.cpu == ()


@pytest.mark.parametrize("known", [{"members": {9: "mb_1"}}, {"ours": {9}}])
def test_what_is_ours_is_no_hog(known: dict[str, object]) -> None:
    assert burned(Hogs(HogRules(looks=1), 1000), 0, 1, 2, **known)[-1] == []


def test_threads_of_the_kernel_are_no_hogs() -> None:
    hogs = Hogs(HogRules(looks=1), 1000)
    for number in range(3):
        hogs.look(table(process(9, parent=2, cpu=number * HERTZ)), number * SECOND)
    assert hogs.cpu == ()


# ---- on a device -------------------------------------------------------------------------------------


def on(
    told: list[DeviceHolder], by_file: list[int], owners: Owners, given: frozenset[str] | None
) -> list[int]:
    return [holder.pid or 0 for holder in on_device({"card"}, told, by_file, owners, lambda _: given)]


def test_a_member_is_no_stranger_on_what_its_claim_names() -> None:
    owners = table(process(9), members={9: "mb_1"})
    assert on([DeviceHolder(9, "x")], [], owners, frozenset({"card"})) == []
    assert on([DeviceHolder(9, "x")], [], owners, frozenset({"other"})) == [9]
    assert on([DeviceHolder(9, "x")], [], owners, None) == []  # a claim of an earlier version


def test_a_process_is_told_once_whoever_tells_of_it() -> None:
    assert on([DeviceHolder(9, "x")], [9, 8], table(process(9), process(8)), None) == [8, 9]


def test_what_is_not_there_any_more_is_nobody() -> None:
    assert on([DeviceHolder(9, "x"), DeviceHolder(None, "y")], [7], table(), None) == []


def test_this_process_and_what_it_started_are_its_own() -> None:
    found = look([], None)
    me = procfs.read_process(os.getpid())
    assert me is not None
    assert me.pid in found.ours
    assert found.is_stranger(me.parent)
