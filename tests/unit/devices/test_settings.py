"""`devices` of a cluster's document: read strictly, written in a normal form, read back to the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.settings import DeviceSettings, settings_of, to_spec
from steelyard.model.errors import InvalidError
from steelyard.model.health import SignCode
from steelyard.model.units import SECOND
from steelyard.services.device_document import read_devices
from steelyard.services.reading import DocumentReader

SAID: dict[str, Any] = {
    "tools": ["/opt/vendor/bin"], "every": "30s", "timeLimit": "5s", "privileged": ["npu-smi"],
    "simulated": True, "system": "/srv/stand-in",
    "health": {"warm": 80, "hot": 95, "confirmSamples": 5, "unknownSamples": 2, "recoverSamples": 4,
               "recoverAfter": "2m", "eventHold": "1h"},
    "hogs": {"cpu": "250m", "memoryPercent": 9, "looks": 4},
}  # fmt: skip


def read(said: dict[str, Any]) -> DeviceSettings:
    return read_devices(DocumentReader(said, "spec.devices"))


def test_nothing_said_is_the_default() -> None:
    assert read({}) == DeviceSettings()
    assert to_spec(DeviceSettings()) == {}


def test_everything_said_is_read() -> None:
    found = read(SAID)
    assert (found.tools, found.every, found.time_limit) == (("/opt/vendor/bin",), 30 * SECOND, 5 * SECOND)
    assert (found.privileged, found.simulated, found.system) == ({"npu-smi"}, True, "/srv/stand-in")
    assert (found.rules.warm, found.rules.hot, found.rules.confirm[SignCode.OVERHEATED]) == (80, 95, 5)
    assert (found.rules.recover_samples, found.rules.recover_time) == (4, 120 * SECOND)
    assert (found.hogs.cpu, found.hogs.memory, found.hogs.looks) == (250, 90, 4)


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"tools": ["bin"]}, "spec.devices.tools[0]"),
        ({"tools": ["/opt/../etc"]}, "spec.devices.tools[0]"),
        ({"every": "10ms"}, "spec.devices.every"),
        ({"timeLimit": "2h"}, "spec.devices.timeLimit"),
        ({"system": "/srv/stand-in"}, "spec.devices.simulated"),
        ({"simulated": True, "system": "/"}, "spec.devices.system"),
        ({"health": {"warm": 99, "hot": 90}}, "spec.devices.health.warm"),
        ({"health": {"recoverSamples": 0}}, "spec.devices.health.recoverSamples"),
        ({"hogs": {"share": 3}}, "spec.devices.hogs.share"),
        ({"tool": "/bin"}, "spec.devices.tool"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_its_path(said: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read(said)
    assert refused.value.params["path"] == path


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "every": st.integers(1, 3600).map(lambda seconds: f"{seconds}s"),
            "privileged": st.lists(st.sampled_from(["npu-smi", "hy-smi"]), unique=True),
            "simulated": st.booleans(),
            "health": st.fixed_dictionaries(
                {}, optional={"warm": st.integers(1, 100), "confirmSamples": st.integers(1, 20)}
            ),
            "hogs": st.fixed_dictionaries(
                {}, optional={"memoryPercent": st.integers(1, 100), "ignore": st.booleans()}
            ),
        },
    )
)
def test_the_normal_form_reads_back_to_the_same(said: dict[str, Any]) -> None:
    found = read(said)
    assert read(to_spec(found)) == settings_of(to_spec(found)) == found
