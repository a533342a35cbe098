"""What the bus and the device files of a machine show, on imitated trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.scan import Card, scan
from tests.support.pci_tree import add_card, add_file

CATALOGUE = load_catalogue()


def cards(root: Path) -> list[Card]:
    return list(scan(CATALOGUE, root).cards)


@pytest.mark.parametrize(
    ("vendor", "kind", "family"),
    [
        ("0x10de", "0x030200", "nvidia"),
        ("0x10de", "0x030000", "nvidia"),
        ("0x1002", "0x038000", "amd"),
        ("0x19e5", "0x120000", "ascend"),
        ("0xcabc", "0x120000", "cambricon-mlu"),
        ("0x1d94", "0x120000", "hygon-dcu"),
        ("0x1e3e", "0x030200", "iluvatar"),
        ("0x9999", "0x030000", "metax"),
        ("0x1ed5", "0x030200", "moorethreads"),
        ("0x2057", "0x120000", "kunlunxin"),
        ("0x1e36", "0x120000", "enflame"),
        ("0x1da3", "0x120000", "intel-gaudi"),
        ("0x8086", "0x038000", "intel-gpu"),
        ("0x1ae0", "0x120000", "google-tpu"),
    ],
)
def test_a_card_is_of_the_family_that_its_vendor_and_class_say(
    tmp_path: Path, vendor: str, kind: str, family: str
) -> None:
    add_card(tmp_path, "0000:3b:00.0", vendor, kind, device="0xd802", driver="drv", width=(16, 16), numa=1)
    assert cards(tmp_path) == [Card(family, "0000:3b:00.0", vendor, "0xd802", "drv", (16, 16), 1)]


@pytest.mark.parametrize(
    ("vendor", "kind"),
    [
        ("0x10de", "0x040300"),  # the audio function of a graphics card
        ("0x10de", "0x068000"),  # a switch of the same vendor
        ("0x8086", "0x020000"),  # a network card
        ("0x19e5", "0x030000"),  # the management chip's display
        ("0x1ae0", "0x010802"),  # a disk
        ("0x1a03", "0x030000"),  # a display of a vendor that makes no accelerators
    ],
)
def test_what_is_no_accelerator_is_not_taken_for_one(tmp_path: Path, vendor: str, kind: str) -> None:
    add_card(tmp_path, "0000:3b:00.0", vendor, kind)
    assert cards(tmp_path) == []


def test_only_function_0_is_a_card_and_virtual_functions_are_their_cards(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:3b:00.0", "0x10de", "0x030200")
    add_card(tmp_path, "0000:3b:00.1", "0x10de", "0x030200")
    add_card(tmp_path, "0000:3c:00.0", "0x10de", "0x030200", virtual_of="0000:3b:00.0")
    assert [card.pci for card in cards(tmp_path)] == ["0000:3b:00.0"]


def test_the_processors_own_graphics_are_no_card(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:00:02.0", "0x8086", "0x030000")
    assert cards(tmp_path) == []


def test_a_card_without_a_driver_is_found_all_the_same(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:3b:00.0", "0x19e5", "0x120000")
    assert cards(tmp_path)[0].driver is None


def test_a_device_file_alone_shows_its_family(tmp_path: Path) -> None:
    add_file(tmp_path, "/dev/davinci3")
    add_file(tmp_path, "/dev/davinci_manager")
    found = scan(CATALOGUE, tmp_path)
    assert (found.bus, found.families()) == (False, {"ascend"})
    assert [(file.path, file.index) for file in found.files] == [("/dev/davinci3", 3)]


def test_a_machine_without_any_of_it_has_nothing(tmp_path: Path) -> None:
    found = scan(CATALOGUE, tmp_path)
    assert (found.cards, found.files, found.bus, found.families()) == ((), (), False, frozenset())


def test_the_number_of_an_nvidia_cards_file_is_its_drivers_not_its_index(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:3b:00.0", "0x10de", "0x030200")
    add_card(tmp_path, "0000:86:00.0", "0x10de", "0x030200")
    told = tmp_path / "proc/driver/nvidia/gpus/0000:86:00.0/information"
    told.parent.mkdir(parents=True)
    told.write_text("Model: \t\t NVIDIA H100\nDevice Minor: \t 0\nGPU Excluded:\t No\n")
    assert [card.minor for card in cards(tmp_path)] == [None, 0]


def test_rubbish_in_the_tree_is_passed_over(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:3b:00.0", "0x10de", "0x030200", device="???", width=(0, 16), numa=-1)
    (tmp_path / "sys/bus/pci/devices/rubbish").mkdir()
    (tmp_path / "sys/bus/pci/devices/0000:40:00.0").mkdir()
    assert cards(tmp_path) == [Card("nvidia", "0000:3b:00.0", "0x10de", "", None)]
