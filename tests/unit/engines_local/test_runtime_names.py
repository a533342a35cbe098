"""By which name a runtime knows a card, and that a partition's is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.devices.catalogue import load_catalogue, visibility_env
from steelyard.devices.reading import Reading
from steelyard.devices.roster import Known
from steelyard.devices.scan import scan
from steelyard.devices.settings import DeviceSettings
from steelyard.engines.local.cards import Cards, Named, runtime_name
from steelyard.engines.local.paths import Layout
from steelyard.model.errors import InvalidError
from tests.support.pci_tree import add_file

MIG = "MIG-66666666-aaaa-5bbb-8ccc-000000000000"


def variables(family: str, **known: Any) -> dict[str, str]:
    inside = known.pop("in_container", None)
    card = Known("what-the-inventory-calls-it", family, **known)
    card.reading = Reading(family, "tool", "layout", True, "", in_container=inside)
    of = load_catalogue().by_name[family]
    return visibility_env([Named(runtime_name(card, of), family, of.device_class)])


@pytest.mark.parametrize(
    ("family", "known", "variable", "value"),
    [
        ("nvidia", {"uuid": "GPU-1", "index": 3}, "CUDA_VISIBLE_DEVICES", "GPU-1"),
        ("nvidia", {"uuid": MIG, "parent": "GPU-1"}, "CUDA_VISIBLE_DEVICES", MIG),
        ("nvidia", {"index": 3}, "CUDA_VISIBLE_DEVICES", "3"),
        ("ascend", {"index": 4}, "ASCEND_RT_VISIBLE_DEVICES", "4"),
        ("ascend", {"index": 4, "in_container": 2}, "ASCEND_RT_VISIBLE_DEVICES", "2"),
        ("hygon-dcu", {"uuid": "7100000000000001", "index": 5}, "HIP_VISIBLE_DEVICES", "5"),
        ("intel-gaudi", {"uuid": "01P4-HL3090A0-00", "index": 0}, "HL_VISIBLE_DEVICES", "0"),
    ],
)
def test_a_card_is_named_as_its_runtime_knows_it(
    family: str, known: dict[str, Any], variable: str, value: str
) -> None:
    assert variables(family, **known)[variable] == value


def test_a_card_that_no_runtime_could_name_is_not_started_on() -> None:
    with pytest.raises(InvalidError):
        variables("ascend", uuid="x")


@pytest.mark.parametrize(
    ("family", "known", "files"),
    [
        ("nvidia", {"index": 0, "file": 1}, ["dev/nvidia1"]),
        ("nvidia", {"index": 0}, []),  # its minor is not known: the file may be another card's
        ("ascend", {"index": 1}, ["dev/davinci1"]),
        ("nvidia", {"file": 1, "parent": "GPU-1"}, []),
    ],
)
def test_a_cards_own_device_files_are_known_for_certain_or_not_at_all(
    tmp_path: Path, family: str, known: dict[str, Any], files: list[str]
) -> None:
    for number in range(2):
        for name in ("nvidia", "davinci"):
            add_file(tmp_path, f"/dev/{name}{number}")
    settings = DeviceSettings(tools=("/none",), system=str(tmp_path), simulated=True)
    cards = Cards(settings, Layout(str(tmp_path / "data")), lambda: 7)
    try:
        card = Known("card", family, **known)
        found = cards.paths(card, scan(load_catalogue(), tmp_path))
        assert found == [str(tmp_path / path) for path in files]
    finally:
        cards.close()
