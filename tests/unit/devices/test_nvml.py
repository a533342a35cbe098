"""NVIDIA's cards through its own library: what it tells becomes readings, the rest stays unknown."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.nvml import parse_report, report
from steelyard.devices.reading import Parsed, ProblemCode
from steelyard.model.health import DeviceHolder, Health, SignCode

UUID = "GPU-00000000-aaaa-4bbb-8ccc-00000000000{}"
GIB = 1024**3


class NVMLError(Exception):
    """As the library raises it."""


class StandIn:
    """The functions of `pynvml` that are used. A card is a mapping; what it lacks is not supported."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(self, *cards: dict[str, Any], refuses: str = "") -> None:
        self.cards = cards
        self.refuses = refuses
        self.open = 0

    def nvmlInit(self) -> None:
        if self.refuses:
            raise NVMLError(self.refuses)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.15"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        card = self.cards[index]
        if "lost" in card:
            raise NVMLError(card["lost"])
        return card

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: dict[str, Any], place: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = card.get("parts", [])
        if place >= len(parts):
            raise NVMLError("Not Found")
        return parts[place]

    def __getattr__(self, name: str) -> Any:
        def ask(card: dict[str, Any], *_: Any) -> Any:
            key = name.removeprefix("nvmlDeviceGet")
            if key not in card:
                raise NVMLError("Not Supported")
            return card[key]

        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)
        return ask


def card(number: int, **more: Any) -> dict[str, Any]:
    return {
        "UUID": UUID.format(number),
        "Name": b"NVIDIA H100 80GB HBM3",
        "MinorNumber": number,
        "PciInfo": SimpleNamespace(busId=f"00000000:{number:02X}:00.0"),
        "MemoryInfo": SimpleNamespace(total=80 * GIB, used=GIB),
        "UtilizationRates": SimpleNamespace(gpu=37, memory=12),
        "Temperature": 41,
        "PowerUsage": 71_200,
        "EnforcedPowerLimit": 700_000,
        "TotalEccErrors": 0,
        "MigMode": [0, 0],
        "ComputeRunningProcesses": [],
        **more,
    }


def read(*cards: dict[str, Any], **more: Any) -> Parsed:
    return parse_report(json.dumps(report(StandIn(*cards, **more))))


def test_a_card_is_read_in_our_units() -> None:
    found = read(card(10)).readings[0]
    assert (found.uuid, found.pci, found.model) == (UUID.format(10), "0000:0a:00.0", "NVIDIA H100 80GB HBM3")
    assert (found.index, found.host_index, found.driver) == (0, 10, "550.54.15")
    assert (found.memory, found.memory_used, found.utilisation) == (81920, 1024, 37)
    assert (found.temperature, found.power, found.power_limit) == (41, 71200, 700000)
    assert (found.mig, found.ecc_uncorrected, found.holders) == (False, 0, ())
    assert (found.complete, found.health) == (True, Health.HEALTHY)


def test_what_a_card_does_not_support_is_unknown_and_never_zero() -> None:
    found = read({"UUID": UUID.format(0), "Name": "GB10"}).readings[0]
    assert found.complete
    assert (found.memory, found.utilisation, found.power, found.ecc_uncorrected, found.holders) == (None,) * 5


def test_processes_are_holders() -> None:
    process = SimpleNamespace(pid=4242, usedGpuMemory=3 * GIB)
    hidden = SimpleNamespace(pid=4243, usedGpuMemory=None)
    found = read(card(0, ComputeRunningProcesses=[process, hidden])).readings[0]
    assert found.holders == (DeviceHolder(4242, None, 3072), DeviceHolder(4243, None, None))


@pytest.mark.parametrize(
    ("said", "code", "health"),
    [
        ("GPU is lost", SignCode.FELL_OFF_BUS, Health.MISSING),
        ("GPU requires restart", SignCode.RESET_REQUIRED, Health.UNHEALTHY),
        ("Unknown Error", SignCode.READING_UNKNOWN, Health.UNKNOWN),
    ],
)
def test_a_card_that_can_not_be_reached_hides_no_other(said: str, code: SignCode, health: Health) -> None:
    found = read({"lost": said}, card(1)).readings
    assert [(one.index, one.health) for one in found] == [(0, health), (1, Health.HEALTHY)]
    assert found[0].signs[0].code is code


def test_uncorrected_errors_and_failed_rows_make_it_unhealthy_and_pending_rows_degraded() -> None:
    found = read(
        card(0, TotalEccErrors=4), card(1, RemappedRows=(0, 1, 0, 1)), card(2, RemappedRows=(0, 1, 1, 0))
    ).readings
    assert [one.signs[0].code for one in found] == [
        SignCode.ECC_UNCORRECTED, SignCode.RESET_REQUIRED, SignCode.ROWS_PENDING,
    ]  # fmt: skip
    assert [one.health for one in found] == [Health.UNHEALTHY, Health.UNHEALTHY, Health.DEGRADED]


def test_partitions_name_their_card() -> None:
    part = {"UUID": "MIG-66666666-aaaa", "Name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "MemoryInfo": SimpleNamespace(total=9 * GIB, used=0)}  # fmt: skip
    found = read(card(0, MigMode=[1, 1], MaxMigDeviceCount=7, parts=[part])).readings
    assert [(one.uuid, one.parent, one.partition, one.memory) for one in found] == [
        (UUID.format(0), None, None, 81920),
        ("MIG-66666666-aaaa", UUID.format(0), "1g.10gb", 9216),
    ]


@pytest.mark.parametrize(
    ("said", "sign"),
    [
        ("Driver Not Loaded", SignCode.DRIVER_MISSING),
        ("NVML Shared Library Not Found", SignCode.LIBRARY_MISSING),
        ("Insufficient Permissions", SignCode.PERMISSION_DENIED),
        ("something else", SignCode.TOOL_FAILED),
    ],
)
def test_a_library_that_does_not_begin_says_which_step_failed(said: str, sign: SignCode) -> None:
    found = read(refuses=said)
    assert (found.readings, found.problems[0].sign, found.problems[0].line) == ((), sign, said)


def test_no_card_is_an_answer() -> None:
    assert read().problems[0].code is ProblemCode.NO_DEVICE


def test_the_library_is_closed_again() -> None:
    library = StandIn(card(0))
    report(library)
    assert library.open == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OPTIONAL = ("bus", "memory", "processes", "parts", "remapped", "ecc", "error")
cards = st.fixed_dictionaries(
    {"index": st.just(0) | json_values, "uuid": st.just(UUID.format(0)) | json_values},
    optional=dict.fromkeys(OPTIONAL, json_values),
)
reports = st.builds(lambda some: json.dumps({"cards": some}), st.lists(cards | json_values))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=50) | reports)
def test_no_report_is_a_crash(text: str) -> None:
    parse_report(text)
