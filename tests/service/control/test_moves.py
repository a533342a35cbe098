"""What moves, ends early or fails on the way, on a virtual clock. Closing a house checks its books."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import ConflictError
from steelyard.model.lifecycle import RULES, Phase
from steelyard.model.units import HOUR, MINUTE, SECOND
from steelyard.services.audit import leaves
from steelyard.services.usage import report
from steelyard.store.clock import SteadyClock
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House, VirtualClock

TIMING = "release: 10ms}\n"
FOUR = {"gpu": 4, "cpu": "1", "memory": "1Gi"}
MakeHouse = Callable[..., House]


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[MakeHouse]:
    """Makes a house whose cluster `sim` suffers what is given, and closes it."""
    made: list[House] = []

    def make(*suffer: str, timing: str = "", **options: Any) -> House:
        rules = "".join(f"    - {{{rule}}}\n" for rule in suffer)
        text = DOCUMENTS.replace(TIMING, f"{TIMING}    suffer:\n{rules}" if suffer else TIMING, 1)
        if timing:
            text = text.replace("image: 10ms", timing, 1)
        made.append(House(sqlite_url(tmp_path), tmp_path, text, **options))
        return made[-1]

    yield make
    for house in made:
        house.close()


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    """A house where nothing goes wrong."""
    return make_house()


def attempts(house: House, workload: str) -> list[tuple[Any, ...]]:
    """(number, outcome, receipt's state) of each attempt."""
    found = []
    for attempt in house.show(workload)["attempts"]:
        receipt = attempt["receipt"]
        found.append((attempt["number"], attempt["outcome"], None if receipt is None else receipt["state"]))
    return found


def reach(house: House, workload: str, phase: str, **options: Any) -> None:
    house.run_until(lambda: house.phase(workload) == phase, **options)


def gpu(house: House) -> dict[str, int]:
    """held, quarantined and free milli-GPUs."""
    assert house.loop.desk is not None
    devices = [d for d in house.loop.desk.context.state.devices.values() if d.device_class == "gpu"]
    return {
        "held": sum(d.held for d in devices),
        "quarantined": sum(d.quarantined for d in devices),
        "free": sum(d.free for d in devices),
    }


# --- a project moves -------------------------------------------------------------------------------


@pytest.mark.requirement("I16", "G5")
def test_a_project_that_moves_while_its_work_runs_leaves_to_each_team_what_it_used(house: House) -> None:
    workload = house.submit("train", requests=FOUR, expect={"run": "100s"})
    reach(house, workload, "running")
    placed = house.show(workload)["attempts"][0]["times"]["placed"]
    house.clock.advance(40 * SECOND)
    before = house.clock.at
    house.apply("kind: Project\nmetadata: {name: detect}\nspec: {team: language}\n")
    after = house.clock.at
    house.run_until(lambda: house.phase(workload) == "finished", step=SECOND)
    confirmed = house.show(workload)["attempts"][0]["times"]["release_confirmed"]
    rows = report(house.store, ADMIN, None, None, ("team", "project", "class"))["rows"]
    held = {row["team"]: int(row["held"]) for row in rows if row["class"] == "gpu"}
    assert set(held) == {"vision", "language"}
    assert sum(held.values()) == 4000 * (confirmed - placed)
    assert before - placed < held["vision"] / 4000 <= after - placed
    assert {row["project"] for row in rows} == {"detect"}


def test_what_a_moved_project_is_charged_follows_it(house: House) -> None:
    workload = house.submit("train", requests=FOUR, expect={"run": "20s"})
    reach(house, workload, "running")
    house.apply("kind: Project\nmetadata: {name: detect}\nspec: {team: language}\n")
    house.tick(2)
    assert house.loop.desk is not None
    usage = house.loop.desk.context.state.usage["organisation"]
    assert usage.get(("team/vision", "gpu"), 0) == 0
    assert [used for (node, what), used in usage.items() if "language" in node and what == "gpu"] == [4000]
    house.run_dry()


# --- cancelled in every phase ----------------------------------------------------------------------


def held(house: House) -> str:
    return house.submit("mine", hold=True)


def queued(house: House) -> str:
    house.submit("fills", requests=FOUR, expect={"run": "5s"})
    house.submit("fills-too", requests=FOUR, expect={"run": "5s"})
    house.tick(2)
    return house.submit("mine", requests=FOUR)


def reserved(house: House) -> str:
    for name in ("low", "low-too"):
        low = house.submit(name, requests=FOUR, expect={"run": "20s", "ignore-term": "true"}, grace="2s")
        reach(house, low, "running")
    return house.submit("mine", priorityClass="high", requests=FOUR)


def starting(house: House) -> str:
    return house.submit("mine", requests=FOUR)


def running(house: House) -> str:
    return house.submit("mine", requests=FOUR, expect={"run": "forever"})


@pytest.mark.requirement("F9", "F10")
@pytest.mark.parametrize(
    ("make", "phase", "outcome"),
    [
        (held, "held", "withdrawn"),
        (queued, "queued", "withdrawn"),
        (reserved, "reserved", "withdrawn"),
        (starting, "starting", "cancelled"),
        (running, "running", "cancelled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_cancel_ends_a_workload_in_any_phase(
    make_house: MakeHouse, make: Callable[[House], str], phase: str, outcome: str
) -> None:
    house = make_house(timing="image: 1s")
    workload = make(house)
    reach(house, workload, phase)
    house.cancel(workload)
    house.run_dry()
    page = house.show(workload)
    assert (page["phase"], page["outcome"]) == ("finished", outcome)
    assert (page["verdict"]["stage"], page["verdict"]["group"]) == ("cancelled", "none")
    assert len(page["attempts"]) == 1
    assert gpu(house) == {"held": 0, "quarantined": 0, "free": 8000}


def test_a_preempted_workload_that_is_cancelled_while_it_stops_does_not_come_back(house: House) -> None:
    names = ("low", "low-too")
    lows = [
        house.submit(name, requests=FOUR, expect={"run": "forever", "ignore-term": "true"}, grace="3s")
        for name in names
    ]
    house.run_until(lambda: all(house.phase(low) == "running" for low in lows))
    high = house.submit("high", priorityClass="high", requests=FOUR, expect={"run": "1s"})
    house.run_until(lambda: "stopping" in {house.phase(low) for low in lows})
    victim = next(low for low in lows if house.phase(low) == "stopping")
    other = next(low for low in lows if low != victim)
    house.cancel(victim)
    reach(house, victim, "finished")
    assert attempts(house, victim) == [(1, "cancelled", "confirmed")]
    reach(house, high, "finished")
    house.cancel(other)
    house.run_dry()


def test_a_cancel_that_comes_when_all_has_ended_changes_nothing_of_how_it_ended(
    make_house: MakeHouse,
) -> None:
    house = make_house("fault: stuck-release, match: {name: mine}, for: 20s")
    workload = house.submit("mine", requests=FOUR, expect={"run": "1s"})
    reach(house, workload, "releasing")
    house.cancel(workload)
    house.run_dry()
    assert attempts(house, workload) == [(1, "succeeded", "confirmed")]
    with pytest.raises(ConflictError):
        house.cancel(workload)


# --- limits ----------------------------------------------------------------------------------------


@pytest.mark.requirement("F10", "D6")
def test_a_time_limit_ends_a_workload_as_timed_out(house: House) -> None:
    workload = house.submit("long", timeLimit="5s", requests=FOUR, expect={"run": "1h"})
    house.run_dry()
    page = house.show(workload)
    assert (page["outcome"], page["verdict"]["code"]) == ("timed-out", "time-limit")
    times = page["attempts"][0]["times"]
    assert 5 * SECOND <= times["ended"] - times["started"] < 6 * SECOND
    assert attempts(house, workload) == [(1, "timed-out", "confirmed")]


@pytest.mark.requirement("D12", "F1")
def test_a_start_that_takes_longer_than_its_timer_is_ended_with_its_stage(make_house: MakeHouse) -> None:
    house = make_house(timing="image: 3h")
    workload = house.submit("stuck", requests=FOUR, maxAttempts=1)
    reach(house, workload, "starting")
    placed = house.show(workload)["attempts"][0]["times"]["placed"]
    house.run_until(lambda: house.phase(workload) == "finished", step=MINUTE)
    page = house.show(workload)
    assert (page["outcome"], page["verdict"]["code"]) == ("failed", "start-timeout")
    limit = RULES[Phase.STARTING].timer or 0
    assert limit <= page["attempts"][0]["times"]["stopping"] - placed <= limit + 2 * MINUTE


# --- failures --------------------------------------------------------------------------------------


@pytest.mark.requirement("F1", "G7")
def test_a_member_that_fails_ends_the_rest_of_its_gang(make_house: MakeHouse) -> None:
    house = make_house("fault: image-failure, match: {name: gang}, count: 1, after: 5ms")
    workload = house.submit("gang", count=4, expect={"run": "forever"})
    house.run_dry()
    page = house.show(workload)
    assert (page["outcome"], page["verdict"]["code"], page["verdict"]["stage"]) == (
        "failed", "image-not-found", "image",
    )  # fmt: skip
    members = page["attempts"][0]["members"]
    assert len(members) == 4
    assert {member["phase"] for member in members} == {"ended"}
    assert attempts(house, workload) == [(1, "failed", "confirmed")]
    assert gpu(house)["held"] == 0


@pytest.mark.requirement("D15", "F5", "F9")
def test_a_failure_of_the_infrastructure_is_tried_again_after_a_growing_pause(make_house: MakeHouse) -> None:
    house = make_house("fault: start-failure, match: {name: unlucky}, count: 2")
    workload = house.submit("unlucky", requests=FOUR)
    house.run_dry()
    page = house.show(workload)
    assert [a[:2] for a in attempts(house, workload)] == [(1, "failed"), (2, "failed"), (3, "succeeded")]
    times = [attempt["times"] for attempt in page["attempts"]]
    pauses = [b["placed"] - a["release_confirmed"] for a, b in pairwise(times)]
    assert [pause // SECOND for pause in pauses] == [1, 2]
    assert {w["reason"] for a in page["attempts"][1:] for w in a["waits"]} <= {"policy-window", "evaluation"}
    assert page["submitted_at"] == times[0]["submitted"]


def test_attempts_end_with_the_last_one_allowed(make_house: MakeHouse) -> None:
    house = make_house("fault: start-failure, match: {name: unlucky}")
    workload = house.submit("unlucky", requests=FOUR, maxAttempts=2)
    house.run_dry()
    assert attempts(house, workload) == [(1, "failed", "confirmed"), (2, "failed", "confirmed")]
    assert house.show(workload)["verdict"]["code"] == "start-failed"


@pytest.mark.requirement("F5")
def test_what_the_submitter_has_to_mend_is_not_tried_again(make_house: MakeHouse) -> None:
    house = make_house("fault: environment-failure, match: {name: mine}")
    workload = house.submit("mine", requests=FOUR)
    house.run_dry()
    assert attempts(house, workload) == [(1, "failed", "confirmed")]


# --- release and loss ------------------------------------------------------------------------------


@pytest.mark.requirement("G2", "G7", "G8")
def test_a_release_that_is_never_confirmed_is_quarantined_and_not_offered_again(
    make_house: MakeHouse,
) -> None:
    house = make_house("fault: stuck-release, match: {name: sticky}")
    workload = house.submit("sticky", requests=FOUR, expect={"run": "1s"})
    reach(house, workload, "releasing")
    ended = house.show(workload)["attempts"][0]["times"]["ended"]
    assert gpu(house) == {"held": 4000, "quarantined": 0, "free": 4000}
    house.run_until(lambda: house.phase(workload) == "finished", step=SECOND)
    page = house.show(workload)
    timer = RULES[Phase.RELEASING].timer or 0
    assert timer <= page["attempts"][0]["times"]["release_confirmed"] - ended <= timer + 2 * SECOND
    receipt = page["attempts"][0]["receipt"]
    assert (page["outcome"], receipt["state"], receipt["signals"]["probe"]) == (
        "succeeded", "quarantined", "occupied",
    )  # fmt: skip
    assert receipt["residue"]
    assert gpu(house) == {"held": 0, "quarantined": 4000, "free": 4000}
    rest = house.submit("rest", requests=FOUR, expect={"run": "1s"})
    more = house.submit("more", requests=FOUR, expect={"run": "1s"})
    reach(house, more, "finished")
    devices = {
        device["device"]
        for one in (rest, more)
        for member in house.show(one)["attempts"][0]["members"]
        for device in member["devices"]
        if device["class"] == "gpu"
    }
    sticky = {
        d["device"] for m in page["attempts"][0]["members"] for d in m["devices"] if d["class"] == "gpu"
    }
    assert len(devices) == 4
    assert devices.isdisjoint(sticky)


def test_quarantined_devices_stay_so_when_the_loop_starts_anew(make_house: MakeHouse) -> None:
    house = make_house("fault: stuck-release, match: {name: sticky}")
    workload = house.submit("sticky", requests=FOUR, expect={"run": "1s"})
    house.run_until(lambda: house.phase(workload) == "finished", step=SECOND)
    house.restart()
    house.tick(2)
    assert gpu(house) == {"held": 0, "quarantined": 4000, "free": 4000}


@pytest.mark.requirement("F5", "F11", "D15")
def test_a_lost_node_loses_its_work_which_starts_again_elsewhere(make_house: MakeHouse) -> None:
    house = make_house("fault: node-lost, match: {name: roams, attempt: 1}, after: 1s, gone: true, count: 1")
    workload = house.submit("roams", requests=FOUR, expect={"run": "5s"})
    house.run_dry()
    page = house.show(workload)
    assert [a[:2] for a in attempts(house, workload)] == [(1, "lost"), (2, "succeeded")]
    nodes = [attempt["members"][0]["node"] for attempt in page["attempts"]]
    assert nodes[0] != nodes[1]
    assert page["attempts"][0]["verdict"]["group"] == "infrastructure"


def test_a_node_that_can_not_be_seen_keeps_its_work_until_it_is_seen_again(make_house: MakeHouse) -> None:
    house = make_house("fault: node-lost, match: {name: stays}, after: 1s, for: 10s, count: 1")
    workload = house.submit("stays", requests=FOUR, expect={"run": "30s"})
    house.run_dry()
    assert attempts(house, workload) == [(1, "succeeded", "confirmed")]


# --- clocks ----------------------------------------------------------------------------------------


class SetBack(VirtualClock):
    """A server's clock over a wall clock that can be set back while time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.back = 0
        self.steady = SteadyClock(self.wall, lambda: self.at)

    def wall(self) -> int:
        """What the machine says."""
        return self.at - self.back

    def __call__(self) -> int:
        self.at += 1
        return self.steady()


@pytest.mark.requirement("D13", "K8")
@pytest.mark.parametrize("back", [3 * SECOND, HOUR, 400 * 24 * HOUR])
def test_a_clock_that_is_set_back_loses_nothing_and_no_time_runs_backwards(
    make_house: MakeHouse, back: int
) -> None:
    clock = SetBack()
    house = make_house("fault: stuck-release, match: {name: late}, for: 3s", clock=clock)
    ids = [house.submit(f"w-{n}", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"}) for n in range(12)]
    house.tick(6)
    clock.back = back
    ids.append(house.submit("late", requests=FOUR, expect={"run": "2s"}))
    house.run_dry()
    for workload in ids:
        page = house.show(workload)
        assert page["outcome"] == "succeeded"
        assert page["attempts"][0]["receipt"]["state"] == "confirmed"
        times = page["attempts"][0]["times"]
        order = ("submitted", "eligible", "placed", "started", "ended", "release_confirmed")
        assert [times[name] for name in order] == sorted(times[name] for name in order)
    steps = leaves(house.store, ADMIN, "object/log/log", limit=500)["items"]
    assert [leaf["action"] for leaf in steps].count("blind.clock-stepped") == 1
