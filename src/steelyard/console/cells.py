"""Devices as cells: how each is drawn, which letter it has, and what is said of it in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steelyard.console.visit import Visit
from steelyard.model.health import Health
from steelyard.model.resources import DeviceClass, UnavailableReason
from steelyard.reports.drawing.devices import Part
from steelyard.reports.drawing.fleet import Cell, cell_picture, cells
from steelyard.reports.drawing.markup import Markup

Json = Mapping[str, Any]
#: Given out in any amount, so drawn as bars beside the cells.
AMOUNTS = (DeviceClass.CPU.value, DeviceClass.MEMORY.value)
LOOKS = ("free", "part", "held", "reserved", "quarantined", "unavailable", "unknown")
_FILLS = tuple((part, f"f-{part}") for part in ("held", "reserved", "unavailable", "unknown"))


def look_of(device: Json) -> str:
    """How a device is drawn."""
    if device["state"] == "unavailable":
        kept = device["reason"] == UnavailableReason.RELEASE_UNCONFIRMED
        return "quarantined" if kept else "unavailable"
    if device["state"] == "available":
        return "part" if device["held"] or device["reserved"] or device["unavailable"] else "free"
    if device["state"] == "held":
        return "held" if device["held"] else "reserved"
    return str(device["state"])


def merged(holders: Iterable[Json]) -> list[dict[str, Any]]:
    """One entry for each workload that holds, whatever number of its members do; who is nameless is one."""
    found: dict[str | None, dict[str, Any]] = {}
    for holder in holders:
        known = found.setdefault(holder["workload"], {**holder, "quantity": 0})
        known["quantity"] += holder["quantity"]
        known["since"] = min(known["since"], holder["since"])
    return list(found.values())


def amounts(devices: Iterable[Json]) -> list[Json]:
    """Those that are drawn as bars."""
    return [each for each in devices if each["class"] in AMOUNTS]


def cells_of(visit: Visit, devices: Iterable[Json]) -> Markup | None:
    """The others, each a link; None where there is none."""
    shown = [cell_of(visit, device) for device in devices if device["class"] not in AMOUNTS]
    return cells(shown) if shown else None


def cell_of(visit: Visit, device: Json) -> Cell:
    """One device."""
    look = look_of(device)
    parts = tuple(Part(device[part], fill) for part, fill in _FILLS if device[part])
    return Cell(
        f"/devices/{device['id']}",
        look,
        visit.speech.say(f"inventory.letter.{look}"),
        _about(visit, device, look),
        device["capacity"],
        parts,
        device["health"] != Health.HEALTHY or bool(device["flags"]),
    )


def _about(visit: Visit, device: Json, look: str) -> str:
    """`gpu-1 · A100 · held · 1 of 1 GPU · degraded · resnet`."""
    speech = visit.speech
    said = [str(device["uid"]), str(device["model"]), speech.say(f"inventory.look.{look}")]
    if device["reason"] is not None and look != "quarantined":
        said.append(speech.word("unavailable", device["reason"]))
    if device["health"] != Health.HEALTHY:
        said.append(speech.say("inventory.health-is", health=speech.word("health", device["health"])))
    said += [speech.word("flag", flag["flag"]) for flag in device["flags"]]
    if device["held"]:
        held = speech.quantity(device["class"], device["held"])
        said.append(
            speech.say("inventory.held-of", held=held, all=speech.amount(device["class"], device["capacity"]))
        )
    said += [each["name"] for each in merged(device["holders"]) if each["name"] is not None][:4]
    return " · ".join(said)


def sample(visit: Visit, look: str) -> tuple[Markup, str]:
    """A cell of the legend with its words."""
    full = {"free": "", "part": "held", "quarantined": "unavailable"}.get(look, look)
    parts = (Part(1 if look == "part" else 2, f"f-{full}"),) if full else ()
    word = visit.speech.say(f"inventory.look.{look}")
    letter = visit.speech.say(f"inventory.letter.{look}")
    return cell_picture(Cell("", look, letter, word, 2, parts)), word
