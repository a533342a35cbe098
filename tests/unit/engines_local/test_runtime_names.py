"""By which name a runtime knows a card, and that a partition's is its own."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.devices.catalogue import load_catalogue, visibility_env
from steelyard.devices.reading import Reading
from steelyard.devices.roster import Known
from steelyard.engines.local.cards import Named, runtime_name
from steelyard.model.errors import InvalidError

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
