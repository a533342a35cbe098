"""What there is: clusters, capacity by class, what is down and why, a map of all devices; a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from steelyard.console.cells import LOOKS, amounts, cells_of, look_of, merged, sample
from steelyard.console.places import acts_for, done_on
from steelyard.console.serve import Page
from steelyard.console.visit import Visit
from steelyard.model.health import Health
from steelyard.model.ids import parse
from steelyard.model.resources import DeviceClass, UnavailableReason
from steelyard.services import fleet
from steelyard.services.census import Wanted, take_census
from steelyard.services.inventory import PARTS

Json = Mapping[str, Any]
NODES_A_PAGE = 32
CLASSES = tuple(each.value for each in DeviceClass)
ORDER = ("gpu", "npu", "other", "cpu", "memory")
HEALTH = tuple(each.value for each in Health)
#: Why a device can't be asked for: its reason, or that somebody has it, or no pool.
WHYS = (*(each.value for each in UnavailableReason), "held", "reserved", "no-pool")
OFFERS = ("no", "yes")


def inventory_page(visit: Visit) -> Response:
    """Clusters, sums, what is down, and the map; what is no value of a filter narrows nothing."""
    wanted, store = wanted_of(visit), visit.console.store
    found = fleet.fleet(
        store, visit.principal, wanted, _page(visit), NODES_A_PAGE,
        lambda: visit.console.census.get("census", lambda: take_census(store)),
    )  # fmt: skip
    return visit.show(
        "inventory.html",
        found=found,
        wanted=wanted,
        classes=in_order(found["classes"]),
        choices=_choices(visit, found),
        states=PARTS,
        look_of=look_of,
        merged=merged,
        legend=[sample(visit, look) for look in LOOKS],
        map_of=lambda node: cells_of(visit, node["devices"]),
        amounts_of=lambda node: amounts(node["devices"]),
        held_on=_held_on,
        tabled=bool(wanted.why or wanted.health or wanted.requestable is False or visit.asked("table")),
        offer="" if wanted.requestable is None else OFFERS[wanted.requestable],
    )


def wanted_of(visit: Visit) -> Wanted:
    """The filters of a query."""
    offer = one_of(visit.asked("offer"), OFFERS)
    return Wanted(
        cluster=visit.asked("cluster", 63) or None,
        device_class=one_of(visit.asked("class"), CLASSES),
        pool=visit.asked("pool", 63) or None,
        state=one_of(visit.asked("state"), PARTS),
        health=one_of(visit.asked("health"), HEALTH),
        why=one_of(visit.asked("why"), WHYS),
        requestable=None if offer is None else offer == "yes",
    )


def _page(visit: Visit) -> int:
    number = visit.asked("page", 6)
    return int(number) if number.isascii() and number.isdecimal() else 1


def one_of(value: str, known: Iterable[str]) -> str | None:
    """The value, where it is a known one."""
    return value if value in known else None


def in_order(classes: Iterable[Json]) -> list[Json]:
    """Sums by class: real ones first, accelerators first."""
    return sorted(classes, key=lambda row: (row["simulated"], ORDER.index(row["class"])))


def _choices(visit: Visit, found: Json) -> dict[str, list[tuple[str, str]]]:
    """(value, label) of every filter."""
    there, word = {row["class"] for row in found["classes"]}, visit.speech.word
    return {
        "clusters": [(cluster["name"], cluster["name"]) for cluster in found["clusters"]],
        "classes": [(name, word("class", name)) for name in ORDER if name in there],
        "pools": [(name, name) for name in found["pools"]],
        "states": [(name, word("state", name)) for name in PARTS],
        "healths": [(name, word("health", name)) for name in HEALTH],
        "whys": [(name, word("why-not", name)) for name in WHYS if name in found["whys"]],
        "offers": [(name, visit.speech.say(f"inventory.offer.{name}")) for name in OFFERS],
    }


def _held_on(node: Json) -> list[dict[str, Any]]:
    """Who holds the accelerators of a node; its cores and memory, where it has none."""
    devices = node["devices"]
    rich = [device for device in devices if device["class"] not in ("cpu", "memory")]
    return merged(holder for device in rich or devices for holder in device["holders"])


def node_page(visit: Visit) -> Response:
    """One node."""
    found = fleet.show_node(visit.console.store, visit.principal, parse("node", visit.named("node")))
    return visit.show(
        "node.html",
        node=found,
        picture=cells_of(visit, found["devices"]),
        states=PARTS,
        look_of=look_of,
        merged=merged,
        acts=acts_for(visit, found["flags"], "node"),
        done=done_on(visit, found["flags"]),
    )


PAGES = [
    Page("GET", "/inventory", inventory_page),
    Page("GET", "/nodes/{node}", node_page),
]
