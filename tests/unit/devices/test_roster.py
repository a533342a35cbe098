"""Cards keep their names and their health, whatever tells of them, and what vanished stays as missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.ask import Answer, unknown
from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.found import devices_of
from steelyard.devices.health import Rules
from steelyard.devices.reading import Reading, incomplete
from steelyard.devices.roster import Roster
from steelyard.devices.roster_json import read_roster, written
from steelyard.devices.scan import Card, DeviceFile, Scan
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource
from steelyard.model.resources import Availability, FoundDevice, Provenance
from steelyard.model.units import MINUTE, SECOND

EVERY = 15 * SECOND
PCI = ("0000:3b:00.0", "0000:86:00.0")
UUID = ("GPU-00000000-aaaa-4bbb-8ccc-000000000000", "GPU-00000000-aaaa-4bbb-8ccc-000000000001")


def card(number: int, family: str = "nvidia", **fields: Any) -> Card:
    return Card(family, PCI[number], "0x10de", "0x2330", **{"driver": "nvidia", **fields})


def reading(number: int, **fields: Any) -> Reading:
    values = {
        "family": "nvidia", "tool": "nvidia-smi", "layout": "query-csv", "complete": True, "line": "",
        "index": number, "uuid": UUID[number], "pci": PCI[number], "model": "H100", "memory": 81559,
    }  # fmt: skip
    return Reading(**{**values, **fields})


def nameless(number: int, **fields: Any) -> Reading:
    """As a tool tells it that knows neither uuid nor place on the bus."""
    return reading(number, family="iluvatar", tool="ixsmi", uuid=None, pci=None, **fields)


class Machine:
    """A roster, a clock and what is shown to it."""

    def __init__(self, family: str = "nvidia") -> None:
        self.roster = Roster(Rules())
        self.family = family
        self.now = 0
        self.number = 0
        self.last: Answer | None = None

    def look(self, *readings: Reading, cards: tuple[Card, ...] = (), **said: Any) -> dict[str, FoundDevice]:
        """One round whose answer lists these."""
        self.number += 1
        values = {"readings": readings, "listed": True, "whole": True, "parts": True, **said}
        self.last = Answer(self.family, self.now, self.number, tool="tool", **values)
        return self.see(cards)

    def fail(self, code: SignCode, cards: tuple[Card, ...] = ()) -> dict[str, FoundDevice]:
        """One round without an answer."""
        self.number += 1
        self.last = Answer(self.family, self.now, self.number, sign=unknown(code))
        return self.see(cards)

    def see(self, cards: tuple[Card, ...] = (), files: tuple[DeviceFile, ...] = ()) -> dict[str, FoundDevice]:
        """Looks again; a round is only weighed once."""
        self.now += EVERY
        answers = {} if self.last is None else {self.family: self.last}
        self.roster.update(Scan(cards, files, bool(cards)), answers, self.now)
        found = devices_of(
            self.roster.known.values(), {}, load_catalogue(), Provenance.DETECTED, self.now
        )
        return {device.uid: device for device in found}


def health(found: dict[str, FoundDevice]) -> list[Health]:
    return [device.health for device in found.values()]


def codes(device: FoundDevice) -> list[SignCode]:
    return [sign.code for sign in device.signs]


# ---- names -------------------------------------------------------------------------------------------


def test_a_card_is_named_by_its_uuid_and_its_facts_name_their_source() -> None:
    found = Machine().look(reading(0, driver="550.1"), cards=(card(0, numa=1),))
    device = found[UUID[0]]
    assert (device.family, device.model, device.memory, device.capacity) == ("nvidia", "H100", 81559, 1000)
    assert (device.health, device.availability) == (Health.HEALTHY, Availability.AVAILABLE)
    told = {key: (fact.value, fact.source) for key, fact in device.facts.items()}
    assert told["driver"] == ("550.1", "nvidia-smi query-csv")
    assert told["numa"] == (1, "pci bus")


def test_a_card_found_on_the_bus_first_keeps_that_name_when_its_tool_answers() -> None:
    machine = Machine()
    before = machine.fail(SignCode.TOOL_TIMEOUT, (card(0), card(1)))
    after = machine.look(reading(0), reading(1), cards=(card(0), card(1)))
    assert list(before) == list(after) == [f"nvidia-{PCI[0]}", f"nvidia-{PCI[1]}"]
    assert [device.model for device in after.values()] == ["H100", "H100"]


def test_a_card_that_was_moved_to_another_slot_is_the_same_card() -> None:
    machine = Machine()
    machine.look(reading(0), cards=(card(0),))
    found = machine.look(reading(0, pci=PCI[1]), cards=(card(1),))
    assert list(found) == [UUID[0]]
    assert found[UUID[0]].facts["pci"].value == PCI[1]


def test_another_card_in_the_same_slot_is_another_device_and_the_first_is_missing() -> None:
    machine = Machine()
    machine.look(reading(0), cards=(card(0),))
    for _ in range(2):
        found = machine.look(reading(1, pci=PCI[0], index=0), cards=(card(0),))
    assert {uid: device.health for uid, device in found.items()} == {
        UUID[0]: Health.MISSING, UUID[1]: Health.HEALTHY,
    }  # fmt: skip


def test_cards_whose_tool_tells_no_place_are_not_counted_twice() -> None:
    cards = (card(0, "iluvatar"), card(1, "iluvatar"))
    machine = Machine("iluvatar")
    assert len(machine.look(nameless(0), nameless(1), cards=cards)) == 2
    assert len(machine.fail(SignCode.TOOL_TIMEOUT, cards)) == 2
    other = Machine("iluvatar")
    before = other.fail(SignCode.TOOL_TIMEOUT, cards)
    assert list(other.look(nameless(0), nameless(1), cards=cards)) == list(before)


def test_device_files_stand_for_cards_until_the_tool_tells_more() -> None:
    machine = Machine("ascend")
    files = (DeviceFile("ascend", "/dev/davinci0", 0, 0), DeviceFile("ascend", "/dev/davinci1", 1, 0))
    before = machine.see(files=files)
    assert list(before) == ["ascend-0", "ascend-1"]
    after = machine.look(reading(0, family="ascend", uuid=None), reading(1, family="ascend", uuid=None))
    assert list(after) == list(before)
    assert after["ascend-1"].facts["pci"].value == PCI[1]


def test_two_chips_on_one_bus_address_are_two_devices() -> None:
    machine = Machine("ascend")
    chips = [reading(n, family="ascend", uuid=None, pci=PCI[0]) for n in (0, 1)]
    first = machine.look(*chips, cards=(card(0, "ascend"),))
    again = machine.look(*reversed(chips), cards=(card(0, "ascend"),))
    assert len(first) == 2
    assert {uid: d.facts["index"].value for uid, d in first.items()} == {
        uid: d.facts["index"].value for uid, d in again.items()
    }


def test_names_and_health_live_on_in_what_is_written_down() -> None:
    machine = Machine()
    machine.fail(SignCode.TOOL_MISSING, (card(0),))
    machine.look(reading(0), cards=(card(0),))
    reset = Sign(SignCode.RESET_REQUIRED, Health.UNHEALTHY, SignSource.TOOL)
    machine.look(reading(0, signs=(reset,)), cards=(card(0),))
    machine.roster = read_roster(json.loads(json.dumps(written(machine.roster))), Rules())
    machine.last = None
    found = machine.see((card(0),))[f"nvidia-{PCI[0]}"]
    assert (found.health, codes(found), found.model) == (
        Health.UNHEALTHY, [SignCode.RESET_REQUIRED], "H100",
    )  # fmt: skip


def test_why_a_card_is_unknown_stays_said_until_it_is_asked_again_after_a_restart() -> None:
    machine = Machine()
    machine.fail(SignCode.TOOL_TIMEOUT, (card(0),))
    machine.roster = read_roster(written(machine.roster), Rules())
    machine.last = None
    assert codes(next(iter(machine.see((card(0),)).values()))) == [SignCode.TOOL_TIMEOUT]


@pytest.mark.parametrize("raw", [None, [], {"v": 9}, {"v": 1, "devices": 3}, {"v": 1, "devices": [{}, 1]}])
def test_a_roster_that_can_not_be_read_is_an_empty_one(raw: object) -> None:
    assert read_roster(raw, Rules()).known == {}


# ---- health ------------------------------------------------------------------------------------------


def test_a_card_without_driver_and_tool_is_shown_with_both_reasons() -> None:
    found = Machine().fail(SignCode.TOOL_MISSING, (card(0, driver=None),))
    device = next(iter(found.values()))
    assert device.health is Health.UNKNOWN
    assert set(codes(device)) == {SignCode.TOOL_MISSING, SignCode.DRIVER_MISSING}
    assert device.model == "pci 10de:2330"


def test_a_card_on_the_bus_that_its_tool_does_not_list_is_unknown_not_missing() -> None:
    machine = Machine()
    for _ in range(3):
        found = machine.look(reading(0), cards=(card(0), card(1)))
    assert health(found) == [Health.HEALTHY, Health.UNKNOWN]
    assert codes(found[f"nvidia-{PCI[1]}"]) == [SignCode.NOT_FOUND]


def test_a_card_that_left_bus_and_tool_is_missing_at_once_and_stays_in_the_inventory() -> None:
    machine = Machine()
    machine.look(reading(0), reading(1), cards=(card(0), card(1)))
    found = machine.look(reading(0), cards=(card(0),))
    assert health(found) == [Health.HEALTHY, Health.MISSING]
    assert found[UUID[1]].capacity == 1000


def test_a_listing_that_was_cut_makes_nothing_missing() -> None:
    machine = Machine()
    machine.look(reading(0), reading(1))
    for _ in range(9):
        found = machine.look(reading(0), whole=False)
    assert health(found) == [Health.HEALTHY, Health.UNKNOWN]


def test_a_silent_tool_leaves_facts_and_makes_health_unknown_after_three_rounds() -> None:
    machine = Machine()
    machine.look(reading(0))
    seen = [next(iter(machine.fail(SignCode.TOOL_TIMEOUT).values())) for _ in range(3)]
    assert [device.health for device in seen] == [Health.HEALTHY, Health.HEALTHY, Health.UNKNOWN]
    assert (seen[2].model, codes(seen[2])) == ("H100", [SignCode.TOOL_TIMEOUT])
    assert seen[2].facts["model"].at == 0  # when it was read


def test_the_same_answer_is_weighed_once_however_often_it_is_looked_at() -> None:
    machine = Machine()
    hot = reading(0, temperature=101)
    machine.look(reading(0))
    machine.look(hot)
    for _ in range(9):
        assert health(machine.see()) == [Health.HEALTHY]
    machine.look(hot)
    assert health(machine.look(hot)) == [Health.UNHEALTHY]


def test_an_incomplete_row_gives_unknown_and_keeps_what_was_known() -> None:
    machine = Machine()
    machine.look(reading(0))
    for _ in range(3):
        found = machine.look(incomplete(reading(0), "0, GPU-"))
    assert health(found) == [Health.UNKNOWN]
    assert found[UUID[0]].memory == 81559


def test_fewer_lanes_than_the_card_has_make_it_degraded_when_seen_three_times() -> None:
    machine = Machine()
    narrow = (card(0, link=(4, 16)),)
    seen = [next(iter(machine.look(reading(0), cards=narrow).values())) for _ in range(3)]
    assert [device.health for device in seen] == [Health.HEALTHY, Health.HEALTHY, Health.DEGRADED]
    assert seen[2].signs[0].params == {"lanes": 4, "of": 16}
    assert seen[2].availability is Availability.AVAILABLE


def test_a_line_of_the_kernels_log_counts_with_the_next_look_and_for_its_time() -> None:
    machine = Machine()
    machine.look(reading(0), reading(1))
    xid = Sign(SignCode.XID, Health.UNHEALTHY, SignSource.KERNEL, params={"xid": 48})
    machine.roster.tell("nvidia", PCI[1], None, [xid], machine.now)
    assert health(machine.see()) == [Health.HEALTHY, Health.UNHEALTHY]
    rounds = 15 * MINUTE // EVERY
    assert health([machine.look(reading(0), reading(1)) for _ in range(rounds)][-1])[1] is Health.UNHEALTHY
    assert health([machine.look(reading(0), reading(1)) for _ in range(5)][-1])[1] is Health.HEALTHY


# ---- partitions --------------------------------------------------------------------------------------


def part(place: int) -> Reading:
    return reading(0, uuid=f"MIG-{place}", index=None, pci=None, parent=UUID[0], partition="1g.10gb")


def test_partitions_are_devices_below_their_card() -> None:
    found = Machine().look(reading(0, mig=True), part(0), part(1))
    assert [(uid, device.parent_uid) for uid, device in found.items()] == [
        (UUID[0], None), ("MIG-0", UUID[0]), ("MIG-1", UUID[0]),
    ]  # fmt: skip
    assert (found["MIG-0"].model, found["MIG-0"].capacity) == ("H100 1g.10gb", 1000)


def test_a_split_card_without_partitions_is_not_on_offer() -> None:
    device = Machine().look(reading(0, mig=True))[UUID[0]]
    assert (device.health, device.reason) == (Health.HEALTHY, "partitioned")


def test_what_breaks_the_card_breaks_its_partitions() -> None:
    machine = Machine()
    machine.look(reading(0, mig=True), part(0))
    broken = reading(0, mig=True, signs=(Sign(SignCode.ECC_UNCORRECTED, Health.UNHEALTHY, SignSource.ECC),))
    assert health(machine.look(broken, part(0))) == [Health.UNHEALTHY, Health.UNHEALTHY]


def test_partitions_that_were_taken_away_are_not_missing() -> None:
    machine = Machine()
    machine.look(reading(0, mig=True), part(0))
    assert list(machine.look(reading(0, mig=False))) == [UUID[0]]


def test_partitions_stay_while_nobody_could_ask_for_them() -> None:
    machine = Machine()
    machine.look(reading(0, mig=True), part(0))
    for _ in range(3):
        found = machine.look(reading(0, mig=True), parts=False)
    assert len(found) == 2


# ---- holders -----------------------------------------------------------------------------------------


def test_foreign_processes_stand_on_their_card() -> None:
    machine = Machine()
    machine.look(reading(0), reading(1))
    holders = {UUID[0]: (DeviceHolder(4242, "python"),), UUID[1]: ()}
    found = devices_of(machine.roster.known.values(), holders, load_catalogue(), Provenance.DETECTED, 0)
    assert [device.holders for device in found] == [(DeviceHolder(4242, "python"),), ()]


# ---- whatever comes ----------------------------------------------------------------------------------

some = st.builds(
    reading,
    st.sampled_from([0, 1]),
    uuid=st.sampled_from([None, *UUID]),
    pci=st.sampled_from([None, *PCI]),
    index=st.sampled_from([None, 0, 1]),
    complete=st.booleans(),
    parent=st.sampled_from([None, None, UUID[0], PCI[0], "0"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(some, max_size=4), st.booleans(), st.booleans()), max_size=8))
def test_whatever_is_told_no_card_is_lost_and_names_are_told_once(
    rounds: list[tuple[list[Reading], bool, bool]],
) -> None:
    machine = Machine()
    names: set[str] = set()
    for readings, whole, bus in rounds:
        found = machine.look(*readings, whole=whole, cards=(card(0), card(1)) if bus else ())
        cards = {uid for uid, device in found.items() if device.parent_uid is None}
        assert names <= cards
        names = cards
        assert all(device.parent_uid in found for device in found.values() if device.parent_uid is not None)


def test_a_fact_that_a_tool_does_not_tell_for_once_stays_as_it_was_told() -> None:
    machine = Machine()
    machine.look(reading(0, driver="550.1"))
    found = machine.look(reading(0, driver=None, memory=None))[UUID[0]]
    assert (found.memory, found.facts["driver"].value) == (81559, "550.1")
