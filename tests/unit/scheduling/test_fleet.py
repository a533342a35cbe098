"""Mappings that follow changes are at any time what they would be if made from nothing."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import AllocationPlan, MemberPlan
from steelyard.scheduling import Charge, FreeDevices, NodeView, RunningView
from steelyard.scheduling.entries import Draft, Entries
from steelyard.scheduling.fleet import Fleet
from steelyard.scheduling.layered import LEAST_CHANGES, Layered
from steelyard.scheduling.runs import ENDS, FLAVOR, NODE, STAYS, STOPS, Runs
from tests.unit.scheduling.build import node

STEPS = st.lists(st.dictionaries(st.integers(1, 12), st.none() | st.integers(0, 5), max_size=4), max_size=12)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_mapping_of_layers_reads_as_a_dict_that_was_changed_alike(
    steps: list[dict[int, int | None]],
) -> None:
    plain: dict[int, int] = {}
    layered = Layered[int, int]({})
    for step in steps:
        changed = {key: value for key, value in step.items() if value is not None}
        gone = [key for key, value in step.items() if value is None]
        before, known = layered, dict(layered)
        layered = layered.with_(changed, gone)
        plain = {key: value for key, value in plain.items() if key not in gone} | changed
        assert dict(layered) == plain
        assert len(layered) == len(plain)
        assert all((key in layered) == (key in plain) for key in range(14))
        assert all(layered.get(key) == plain.get(key) for key in range(14))
        assert dict(before) == known


def test_layers_are_folded_when_they_grow() -> None:
    layered = Layered[int, int]({})
    for key in range(3 * LEAST_CHANGES):
        layered = layered.with_({key: key}, [key - 1] if key % 3 == 0 else [])
    assert len(layered) == len(dict(layered)) == 3 * LEAST_CHANGES - (LEAST_CHANGES - 1)
    assert len(layered._over) <= LEAST_CHANGES


def view(number: int, free: int) -> NodeView:
    """A node of five devices; above four it has another flavor as well, and is cordoned with three free."""
    made = node(number, gpus=free, schedulable=free != 3)
    more = {"h100": FreeDevices((number * 100 + 50,))} if free > 4 else {}
    whole = made.accelerators.get("a100", FreeDevices())
    return NodeView(
        number, f"n{number}", "c1", free != 3, {}, {"a100": whole, **more}, made.slots, {"a100": 5000}
    )


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_what_is_free_where_follows_the_nodes(steps: list[dict[int, int | None]]) -> None:
    fleet = Fleet({number: view(number, 5) for number in range(1, 6)})
    for flavor in ("a100", "h100", "cpu-c1"):
        fleet.room(flavor)
    for step in steps:
        changed = {key: view(key, free) for key, free in step.items() if free is not None}
        fleet = fleet.with_(changed, [key for key, free in step.items() if free is None])
        fresh = Fleet(dict(fleet))
        for flavor in ("a100", "h100", "cpu-c1"):
            assert list(fleet.order(flavor)) == list(fresh.order(flavor))
            mine, anew = fleet.room(flavor), fresh.room(flavor)
            assert (mine.free, mine.whole.tolist(), mine.most.tolist()) == (
                anew.free, anew.whole.tolist(), anew.most.tolist()
            )  # fmt: skip


def test_what_only_gives_and_takes_devices_keeps_the_frame_and_moves_the_sums() -> None:
    first = Fleet({number: view(number, 4) for number in range(1, 4)})
    first.room("a100")
    fleet = first.with_({2: view(2, 1)}, []).with_({2: view(2, 2), 3: view(3, 0)}, [])
    assert fleet.frame is first.frame
    assert (fleet.room("a100").free, fleet.room("a100").whole.tolist()) == (6000, [4, 2, 0])
    assert first.room("a100").free == 12_000


def run(number: int, kind: int) -> RunningView:
    """One that has a device; what kind says is its priority, where it is and whether it stops or ends."""
    allocation = AllocationPlan(kind, kind, f"f{kind % 2}", DeviceClass.GPU, 1000)
    member = MemberPlan("main", 0, "c1", kind, (allocation,))
    charge = Charge("queue", f"q{kind % 3}", "gpu", 1000)
    return RunningView(
        number, number, "s", f"q{kind % 3}", "p", kind % 2, kind, (member,), (charge,),
        stopping=kind == 4, ends_by=kind if kind % 2 else None,
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sets(st.integers(0, 11)))
def test_lists_of_runs_follow_them_whenever_they_are_asked_for(
    steps: list[dict[int, int | None]], asked: set[int]
) -> None:
    runs = Runs({number: run(number, 1) for number in range(1, 4)})
    places = [("queue", f"q{n}") for n in range(3)] + [(FLAVOR, f"f{n}") for n in range(2)]
    places += [(NODE, str(n)) for n in range(6)] + [STOPS, ENDS, STAYS]
    for number, step in enumerate(steps):
        changed = {key: run(key, kind) for key, kind in step.items() if kind is not None}
        runs = runs.with_(changed, [key for key, kind in step.items() if kind is None])
        if number in asked:
            fresh = Runs(dict(runs))
            assert all(list(runs.at(*place)) == list(fresh.at(*place)) for place in places)
            assert runs.queues() == fresh.queues()
            for queue in ("q0", "q1", "q2"):
                assert total(runs.charged_below(queue, 1)) == total(fresh.charged_below(queue, 1))


def total(charged: Mapping[str, int]) -> dict[str, int]:
    return {subject: amount for subject, amount in charged.items() if amount}


@given(
    st.sets(st.integers(0, 40)),
    st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=12), max_size=6),
)
def test_entries_stay_sorted_over_their_versions(
    first: set[int], steps: list[list[tuple[bool, int]]]
) -> None:
    known = set(first)
    entries: Entries[int] = Entries([((number, 0, 0), number) for number in sorted(known)], 2)
    for step in steps:
        before, kept, draft = entries, list(entries), Draft(entries, 2)
        for comes, number in step:
            if comes and number not in known:
                known.add(number)
                draft.add((number, 0, 0), number)
            elif not comes:
                known.discard(number)
                draft.take_out((number, 0, 0))
        entries = draft.made()
        assert list(before) == kept
        assert [number for _, number in entries] == sorted(known)
        assert len(entries) == len(known)
        assert [entries[at][1] for at in range(len(known))] == sorted(known)
        assert entries[1:4] == list(entries)[1:4]
