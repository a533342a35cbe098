"""What there is: clusters, capacity by class, a map of all devices; a node; a device with its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.device_picture import device_picture
from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.model.ids import parse
from steelyard.model.resources import DeviceClass, UnavailableReason
from steelyard.reports.drawing.devices import Part
from steelyard.reports.drawing.fleet import Cell, cell_picture, cells
from steelyard.reports.drawing.markup import Markup
from steelyard.services import fleet
from steelyard.services.inventory import PARTS

Json = Mapping[str, Any]
NODES_A_PAGE = 32
CLASSES = tuple(each.value for each in DeviceClass)
#: Given out in any amount, so drawn as bars beside the cells.
AMOUNTS = (DeviceClass.CPU.value, DeviceClass.MEMORY.value)
LOOKS = ("free", "part", "held", "reserved", "quarantined", "unavailable", "unknown")
_ORDER = ("gpu", "npu", "other", "cpu", "memory")
_FILLS = tuple((part, f"f-{part}") for part in ("held", "reserved", "unavailable", "unknown"))


def inventory_page(visit: Visit) -> Response:
    """Clusters, sums, and the map; a cluster, class, pool or state that there is not leaves nothing."""
    wanted = fleet.Wanted(
        cluster=visit.asked("cluster", 63) or None,
        device_class=_one_of(visit.asked("class"), CLASSES),
        pool=visit.asked("pool", 63) or None,
        state=_one_of(visit.asked("state"), PARTS),
    )
    number = visit.asked("page", 6)
    page = int(number) if number.isascii() and number.isdecimal() else 1
    found = fleet.fleet(visit.console.store, visit.principal, wanted, page, NODES_A_PAGE)
    classes = sorted(found["classes"], key=lambda row: (row["simulated"], _ORDER.index(row["class"])))
    return visit.show(
        "inventory.html",
        found=found,
        wanted=wanted,
        classes=classes,
        choices=_choices(visit, found),
        states=PARTS,
        look_of=look_of,
        legend=[_sample(visit, look) for look in LOOKS],
        map_of=lambda node: _cells(visit, node["devices"]),
        amounts_of=lambda node: [each for each in node["devices"] if each["class"] in AMOUNTS],
    )


def _choices(visit: Visit, found: Json) -> dict[str, list[tuple[str, str]]]:
    """(value, label) of every filter."""
    there = {row["class"] for row in found["classes"]}
    return {
        "clusters": [(cluster["name"], cluster["name"]) for cluster in found["clusters"]],
        "classes": [(name, visit.speech.word("class", name)) for name in _ORDER if name in there],
        "pools": [(name, name) for name in found["pools"]],
        "states": [(name, visit.speech.word("state", name)) for name in PARTS],
    }


def node_page(visit: Visit) -> Response:
    """One node."""
    found = fleet.show_node(visit.console.store, visit.principal, parse("node", visit.named("node")))
    picture = _cells(visit, found["devices"])
    return visit.show("node.html", node=found, picture=picture, states=PARTS, look_of=look_of, merged=merged)


def device_page(visit: Visit) -> Response:
    """One device: what is known of it and how, who has it, who had it, when it was not there."""
    found = fleet.show_device_with_holders(visit.console.store, visit.principal, visit.named("device"))
    return visit.show(
        "device.html",
        device=found,
        picture=cell_picture(_cell(visit, found)),
        past=device_picture(visit, found),
        look=look_of(found),
        holders=merged(found["holders"]),
        states=PARTS,
        current=[fact for fact in found["facts"] if fact["valid_to"] is None],
        former_facts=[fact for fact in found["facts"] if fact["valid_to"] is not None],
    )


def _one_of(value: str, known: Iterable[str]) -> str | None:
    return value if value in known else None


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


def _cells(visit: Visit, devices: Iterable[Json]) -> Markup | None:
    shown = [_cell(visit, device) for device in devices if device["class"] not in AMOUNTS]
    return cells(shown) if shown else None


def _cell(visit: Visit, device: Json) -> Cell:
    look = look_of(device)
    parts = tuple(Part(device[part], fill) for part, fill in _FILLS if device[part])
    return Cell(
        f"/devices/{device['id']}",
        look,
        visit.speech.say(f"inventory.letter.{look}"),
        _about(visit, device, look),
        device["capacity"],
        parts,
    )


def _about(visit: Visit, device: Json, look: str) -> str:
    """`gpu-1 · A100 · held · 1 of 1 GPU · resnet`."""
    speech = visit.speech
    said = [str(device["uid"]), str(device["model"]), speech.say(f"inventory.look.{look}")]
    if device["reason"] is not None and look != "quarantined":
        said.append(speech.word("unavailable", device["reason"]))
    if device["held"]:
        held = speech.quantity(device["class"], device["held"])
        said.append(
            speech.say("inventory.held-of", held=held, all=speech.amount(device["class"], device["capacity"]))
        )
    said += [each["name"] for each in merged(device["holders"]) if each["name"] is not None][:4]
    return " · ".join(said)


def _sample(visit: Visit, look: str) -> tuple[Markup, str]:
    """A cell of the legend with its words."""
    full = {"free": "", "part": "held", "quarantined": "unavailable"}.get(look, look)
    parts = (Part(1 if look == "part" else 2, f"f-{full}"),) if full else ()
    word = visit.speech.say(f"inventory.look.{look}")
    return cell_picture(Cell("", look, visit.speech.say(f"inventory.letter.{look}"), word, 2, parts)), word


PAGES = [
    Page("GET", "/inventory", inventory_page),
    Page("GET", "/nodes/{node}", node_page),
    Page("GET", "/devices/{device:path}", device_page),
]
