"""NVIDIA's cards through its own library, where the package `nvidia-ml-py` is installed.

Run as a program (`python -m steelyard.devices.nvml`) it prints one JSON report; `parse_report` reads that. So
the library, which may hang or crash with the driver below it, never does so in the server: it is a tool like
others, with a time limit and nobody's rights. What a card does not support is None, never 0.

Source: NVIDIA's NVML API reference and the package's module `pynvml`.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from steelyard.devices.reading import (
    DETAIL_LIMIT,
    Parsed,
    Problem,
    ProblemCode,
    Reading,
    incomplete,
    judged,
    kept,
)
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource

FAMILY = "nvidia"
TOOL = "nvml"
LAYOUT = "report"
_MIB = 1024 * 1024
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,90}")
_PCI = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
#: What the library says of a card that it lists and can't reach.
_ERRORS = {
    "gpu is lost": (SignCode.FELL_OFF_BUS, Health.MISSING),
    "requires re": (SignCode.RESET_REQUIRED, Health.UNHEALTHY),
}
#: What it says when it can't begin, by a word of it.
_NO_START = (
    ("driver not loaded", SignCode.DRIVER_MISSING),
    ("driver/library version mismatch", SignCode.LIBRARY_MISSING),
    ("shared library not found", SignCode.LIBRARY_MISSING),
    ("insufficient permissions", SignCode.PERMISSION_DENIED),
    ("unknown error", SignCode.PERMISSION_DENIED),
)
Json = dict[str, Any]


# -- the program -------------------------------------------------------------------------------------------


def report(library: Any) -> Json:
    """What the library tells of every card. Never raises what the library raises."""
    error = library.NVMLError
    try:
        library.nvmlInit()
    except error as failed:
        return {"error": str(failed)}
    try:
        driver = _quiet(error, library.nvmlSystemGetDriverVersion)
        count = int(library.nvmlDeviceGetCount())
        return {"driver": _text(driver), "cards": [_card(library, index) for index in range(count)]}
    except error as failed:
        return {"error": str(failed)}
    finally:
        _quiet(error, library.nvmlShutdown)


def _quiet(error: type[Exception], call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives, None where the library says that it can't."""
    try:
        return call(*arguments)
    except error:
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def _card(library: Any, index: int) -> Json:
    error = library.NVMLError
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
    except error as failed:
        return {"index": index, "error": str(failed)}

    def ask(name: str, *arguments: Any) -> Any:
        return _quiet(error, getattr(library, name), handle, *arguments)

    pci, memory = ask("nvmlDeviceGetPciInfo"), ask("nvmlDeviceGetMemoryInfo")
    use = ask("nvmlDeviceGetUtilizationRates")
    mode = ask("nvmlDeviceGetMigMode")
    card: Json = {
        "index": index,
        "minor": ask("nvmlDeviceGetMinorNumber"),
        "uuid": _text(ask("nvmlDeviceGetUUID")),
        "serial": _text(ask("nvmlDeviceGetSerial")),
        "name": _text(ask("nvmlDeviceGetName")),
        "bus": _text(getattr(pci, "busId", None)),
        "memory": getattr(memory, "total", None),
        "memory_used": getattr(memory, "used", None),
        "use": getattr(use, "gpu", None),
        "memory_use": getattr(use, "memory", None),
        "temperature": ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU),
        "power": ask("nvmlDeviceGetPowerUsage"),
        "power_limit": ask("nvmlDeviceGetEnforcedPowerLimit"),
        "firmware": _text(ask("nvmlDeviceGetVbiosVersion")),
        "ecc": ask("nvmlDeviceGetTotalEccErrors", *_volatile(library)),
        "remapped": list(ask("nvmlDeviceGetRemappedRows") or ()) or None,
        "mig": None if mode is None else bool(mode[0]),
        "processes": _processes(ask("nvmlDeviceGetComputeRunningProcesses")),
    }
    if card["mig"]:
        card["parts"] = _parts(library, handle, int(ask("nvmlDeviceGetMaxMigDeviceCount") or 0))
    return card


def _volatile(library: Any) -> tuple[int, int]:
    """Which errors are counted: those that were not corrected, since the driver was loaded."""
    return library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC


def _processes(found: Any) -> list[Json] | None:
    if found is None:
        return None
    return [{"pid": one.pid, "memory": getattr(one, "usedGpuMemory", None)} for one in found]


def _parts(library: Any, handle: Any, most: int) -> list[Json]:
    error, parts = library.NVMLError, []
    for place in range(most):
        part = _quiet(error, library.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
        if part is None:
            continue
        memory = _quiet(error, library.nvmlDeviceGetMemoryInfo, part)
        parts.append(
            {
                "part": place,
                "uuid": _text(_quiet(error, library.nvmlDeviceGetUUID, part)),
                "name": _text(_quiet(error, library.nvmlDeviceGetName, part)),
                "memory": getattr(memory, "total", None),
                "memory_used": getattr(memory, "used", None),
                "processes": _processes(_quiet(error, library.nvmlDeviceGetComputeRunningProcesses, part)),
            }
        )
    return parts


def main() -> int:
    """Prints the report."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError as missing:
        print(json.dumps({"error": f"shared library not found: {missing}"}))
        return 1
    print(json.dumps(report(library)))
    return 0


# -- reading the report ------------------------------------------------------------------------------------


def parse_report(text: str) -> Parsed:
    """The cards of a report. Never raises, whatever the text is."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return Parsed(problems=(Problem(ProblemCode.UNRECOGNISED, kept(text[:200])),))
    if not isinstance(told, dict) or not isinstance(told.get("cards"), list):
        return Parsed(problems=(_no_start(told),))
    driver = told.get("driver") if isinstance(told.get("driver"), str) else None
    readings: list[Reading] = []
    problems: list[Problem] = []
    for raw in told["cards"]:
        card = _reading(raw, driver) if isinstance(raw, dict) else None
        if card is None:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(json.dumps(raw)[:200])))
            continue
        readings.append(card)
        parts = raw.get("parts")
        if isinstance(parts, list):
            readings += [part for one in parts if (part := _part(one, card)) is not None]
    if not readings and not problems:
        problems.append(Problem(ProblemCode.NO_DEVICE, ""))
    return Parsed(tuple(readings), tuple(problems), driver=driver, attached=len(told["cards"]))


def _no_start(told: object) -> Problem:
    said = str(told.get("error", "")) if isinstance(told, dict) else ""
    sign = next((code for word, code in _NO_START if word in said.lower()), SignCode.TOOL_FAILED)
    return Problem(ProblemCode.TOOL_ERROR, kept(said), sign=sign)


def _whole(value: object, most: int = 1 << 62) -> int | None:
    """A count that can be one; anything else is not known."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most else None


def _mib(value: object) -> int | None:
    number = _whole(value)
    return None if number is None else number // _MIB


def _address(text: object) -> str | None:
    match = _PCI.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def _named(text: object) -> str | None:
    return kept(text)[:120] or None if isinstance(text, str) else None


def _reading(raw: Json, driver: str | None) -> Reading | None:
    index, uuid = _whole(raw.get("index")), raw.get("uuid")
    if index is None:
        return None
    sure = uuid if isinstance(uuid, str) and _UUID.fullmatch(uuid) else None
    line = kept(json.dumps(raw, ensure_ascii=False))
    card = Reading(
        FAMILY, TOOL, LAYOUT, True, line,
        index=index, host_index=_whole(raw.get("minor")), uuid=sure, serial=_named(raw.get("serial")),
        pci=_address(raw.get("bus")), model=_named(raw.get("name")), driver=driver,
        firmware=_named(raw.get("firmware")),
    )  # fmt: skip
    if isinstance(raw.get("error"), str):
        said = raw["error"].lower()
        found = next((sign for word, sign in _ERRORS.items() if word in said), None)
        code, health = found or (SignCode.READING_UNKNOWN, Health.UNKNOWN)
        return judged(card, [Sign(code, health, SignSource.TOOL, kept(raw["error"])[:DETAIL_LIMIT])])
    if sure is None:
        return incomplete(card, line)
    mig = raw.get("mig")
    card = replace(
        card,
        memory=_mib(raw.get("memory")),
        memory_used=_mib(raw.get("memory_used")),
        utilisation=_whole(raw.get("use"), 101),
        memory_utilisation=_whole(raw.get("memory_use"), 101),
        temperature=_whole(raw.get("temperature"), 1000),
        power=_whole(raw.get("power")),
        power_limit=_whole(raw.get("power_limit")),
        ecc_uncorrected=_whole(raw.get("ecc")),
        mig=mig if isinstance(mig, bool) else None,
        holders=_holders(raw.get("processes")),
    )
    return judged(card, _signs(card.ecc_uncorrected, raw.get("remapped")))


def _signs(ecc: int | None, remapped: object) -> list[Sign]:
    found = []
    if ecc:
        words = f"{ecc} uncorrected"
        params: dict[str, str | int] = {"count": ecc}
        found.append(Sign(SignCode.ECC_UNCORRECTED, Health.UNHEALTHY, SignSource.ECC, words, params))
    # corrected, uncorrected, pending, failed: NVML API reference, nvmlDeviceGetRemappedRows
    rows = remapped if isinstance(remapped, list) and len(remapped) == 4 else [0, 0, 0, 0]
    if rows[3]:
        found.append(Sign(SignCode.RESET_REQUIRED, Health.UNHEALTHY, SignSource.ECC, "row remapping failed"))
    elif rows[2]:
        found.append(Sign(SignCode.ROWS_PENDING, Health.DEGRADED, SignSource.ECC, "row remapping pending"))
    return found


def _holders(raw: object) -> tuple[DeviceHolder, ...] | None:
    if not isinstance(raw, list):
        return None
    found = []
    for one in raw:
        pid = _whole(one.get("pid")) if isinstance(one, dict) else None
        if pid is not None:
            found.append(DeviceHolder(pid, None, _mib(one.get("memory"))))
    return tuple(found)


def _part(raw: object, card: Reading) -> Reading | None:
    if not isinstance(raw, dict):
        return None
    uuid, name, place = raw.get("uuid"), _named(raw.get("name")), _whole(raw.get("part"))
    if not isinstance(uuid, str) or not _UUID.fullmatch(uuid) or place is None:
        return None
    line = kept(json.dumps(raw, ensure_ascii=False))
    return Reading(
        FAMILY, TOOL, LAYOUT, True, line,
        uuid=uuid, parent=card.uuid, model=card.model, partition=_profile(name), driver=card.driver,
        memory=_mib(raw.get("memory")), memory_used=_mib(raw.get("memory_used")),
        holders=_holders(raw.get("processes")), other={"part": place},
    )  # fmt: skip


def _profile(name: str | None) -> str | None:
    """`1g.10gb` of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`."""
    return None if name is None else name.rpartition("MIG ")[2][:40] or None


if __name__ == "__main__":
    sys.exit(main())
