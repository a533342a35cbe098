"""How far the finding of each family of accelerators came: card, driver, library, permission, tool, runtime,
container. A step that failed says so with its sign; one that nobody can tell of says that.

The order is that in which each needs the one before, so the first that failed is where to begin.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable

from steelyard.devices.ask import Answer, Asker
from steelyard.devices.catalogue import Catalogue
from steelyard.devices.prober import Look
from steelyard.devices.probes import Probe
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.step import Step, StepName
from steelyard.model.health import SignCode
from steelyard.model.resources import Provenance

_CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
_SPEC_MAX = 4 << 20


def steps_of(
    seen: Look, asker: Callable[[str], Asker], catalogue: Catalogue, settings: DeviceSettings
) -> tuple[Step, ...]:
    """The steps of every family that bus, files or a tool show."""
    shown = seen.scan.families() | {family for family, answer in seen.answers.items() if answer.readings}
    found: list[Step] = []
    for family in (one.name for one in catalogue.families if one.name in shown):
        found += _steps(family, seen, asker(family).probe, settings)
    return tuple(found)


def _steps(family: str, seen: Look, probe: Probe, settings: DeviceSettings) -> list[Step]:
    answer = seen.answers.get(family)
    failed = None if answer is None or answer.sign is None else answer.sign.code
    listed = answer is not None and answer.listed
    made = [
        (StepName.CARD, *_card(family, seen, answer)),
        (StepName.DRIVER, *_driver(family, seen, probe, settings, listed, failed)),
        (StepName.LIBRARY, *_of_tool(listed, failed, SignCode.LIBRARY_MISSING, answer)),
        (StepName.PERMISSION, *_of_tool(listed, failed, SignCode.PERMISSION_DENIED, answer)),
        (StepName.TOOL, *_tool(probe, answer, failed)),
        (StepName.RUNTIME, *_runtime(probe, settings)),
        (StepName.CONTAINER, *_container(probe, settings)),
    ]
    mark = Provenance.SIMULATED.value if settings.simulated else None
    return [Step(family, name, ok, {**params, "provenance": mark}) for name, ok, params in made]


Outcome = tuple[bool | None, dict[str, str | int | None]]


def _card(family: str, seen: Look, answer: Answer | None) -> Outcome:
    cards = [card for card in seen.scan.cards if card.family == family]
    files = [file for file in seen.scan.files if file.family == family]
    listed = 0 if answer is None else sum(reading.parent is None for reading in answer.readings)
    params: dict[str, str | int | None] = {"bus": len(cards), "files": len(files), "listed": listed}
    if answer is None or not answer.listed or not cards:
        return True, params
    return listed >= len(cards), params


def _driver(
    family: str, seen: Look, probe: Probe, settings: DeviceSettings, listed: bool, failed: SignCode | None
) -> Outcome:
    cards = [card for card in seen.scan.cards if card.family == family]
    without = [card.pci for card in cards if card.driver is None]
    params: dict[str, str | int | None] = {
        "driver": ", ".join(sorted({card.driver for card in cards if card.driver is not None})) or None,
        "without": ", ".join(without[:8]) or None,
    }
    if failed is SignCode.DRIVER_MISSING or without:
        return False, params
    if listed or cards:
        return True, params
    loaded = [name for name in probe.modules if os.path.isdir(f"{settings.system}/sys/module/{name}")]
    files = any(file.family == family for file in seen.scan.files)
    return (True if loaded or files else None), params


def _of_tool(listed: bool, failed: SignCode | None, code: SignCode, answer: Answer | None) -> Outcome:
    """What only the tool's own words tell."""
    detail = "" if answer is None or answer.sign is None else answer.sign.detail
    if failed is code:
        return False, {"detail": detail or None}
    return (True if listed else None), {}


def _tool(probe: Probe, answer: Answer | None, failed: SignCode | None) -> Outcome:
    names = ", ".join(tool.name for tool in probe.tools)
    if answer is None:
        return None, {"tool": names}
    params: dict[str, str | int | None] = {
        "tool": answer.tool or names,
        "detail": None if answer.sign is None else answer.sign.detail or None,
        "sign": None if failed is None else failed.value,
    }
    return answer.listed, params


def _runtime(probe: Probe, settings: DeviceSettings) -> Outcome:
    """None of the usual places says nothing for certain: an image, or an environment, brings its own."""
    for pattern in probe.runtime:
        if found := sorted(glob.glob(os.path.join(settings.system, pattern.lstrip("/")))):
            return True, {"path": found[0][:200]}
    return None, {}


def _container(probe: Probe, settings: DeviceSettings) -> Outcome:
    """Whether a specification of the Container Device Interface tells how containers get the devices."""
    for folder in _CDI_FOLDERS:
        path = os.path.join(settings.system, folder)
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith((".yaml", ".json")))
        except OSError:
            continue
        for name in names[:100]:
            try:
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
                    text = file.read(_SPEC_MAX)
            except OSError:
                continue
            if probe.cdi is not None and probe.cdi in text:
                return True, {"kind": probe.cdi, "path": os.path.join(path, name)[:200]}
    return None, {"kind": probe.cdi}
