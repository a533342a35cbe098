"""Which accelerators a machine's bus and device files show, before any vendor tool is asked.

So the right tool is asked, and a card whose tool, driver or library is missing is still there to be shown.
Formats: the kernel's sysfs PCI documents (`vendor`, `device`, `class`, `driver`, `physfn`, `numa_node`,
`current_link_width`, `max_link_width`). Everything is looked for below `root`, another folder in tests.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from steelyard.devices.catalogue import Catalogue

_PCI_DEVICES = "sys/bus/pci/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBER = re.compile(r"-?[0-9]{1,6}")
_HEX = re.compile(r"0x[0-9a-f]{1,8}")
_MINOR = re.compile(r"(?m)^device minor:[ \t]*([0-9]{1,4})[ \t]*$")
#: The processor's own graphics of this family sit on the first bus; cards are behind a bridge.
_BUILT_IN = {"intel-gpu": "0000:00:"}


@dataclass(frozen=True, slots=True)
class Card:
    """A card on the PCI bus. `link`: lanes in use and lanes it has, where the bus tells both."""

    family: str
    pci: str
    vendor_id: str
    device_id: str
    driver: str | None
    link: tuple[int, int] | None = None
    numa: int | None = None
    minor: int | None = None  # number of its device file, where its driver tells it


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A file by which a device of a family is spoken to. `group`: who may, besides its owner."""

    family: str
    path: str
    index: int
    group: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What is there. `bus`: whether a PCI bus could be looked at; a machine may have none, or hide it."""

    cards: tuple[Card, ...]
    files: tuple[DeviceFile, ...]
    bus: bool

    def families(self) -> frozenset[str]:
        """The families that are there by either."""
        return frozenset({card.family for card in self.cards} | {file.family for file in self.files})

    def addresses(self) -> frozenset[str]:
        """Where on the bus accelerators are."""
        return frozenset(card.pci for card in self.cards)


def _read(path: Path, most: int = 80) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip().lower()[:most]
    except OSError:
        return None


def scan(catalogue: Catalogue, root: Path = Path("/")) -> Scan:
    """One look at the bus and at the device files."""
    folder = root / _PCI_DEVICES
    try:
        names = sorted(name for name in os.listdir(folder) if _ADDRESS.fullmatch(name))
        bus = True
    except OSError:
        names, bus = [], False
    cards = [card for name in names if (card := _card(catalogue, folder / name)) is not None]
    return Scan(tuple(cards), tuple(_files(catalogue, root)), bus)


def _card(catalogue: Catalogue, folder: Path) -> Card | None:
    """The card at an address: function 0 of a display or accelerator class, of a vendor that is known.

    A virtual function belongs to its card, and is not one.
    """
    name = folder.name
    vendor, kind = _read(folder / "vendor"), _read(folder / "class")
    if vendor is None or kind is None or not name.endswith(".0") or os.path.lexists(folder / "physfn"):
        return None
    for family in catalogue.families:
        if vendor in family.pci_vendors and kind.startswith(family.pci_classes):
            if name.startswith(_BUILT_IN.get(family.name, "-")):
                return None
            card = _described(family.name, folder, vendor)
            root = folder.parents[len(PurePosixPath(_PCI_DEVICES).parts)]
            return replace(card, minor=_minor(root, card)) if card.family == "nvidia" else card
    return None


def _minor(root: Path, card: Card) -> int | None:
    """The number of an NVIDIA card's device file, which need not be the tool's index: `Device Minor` in the
    driver's own text about it."""
    text = _read(root / "proc/driver/nvidia/gpus" / card.pci / "information", 4096)
    found = _MINOR.search(text or "")
    return None if found is None else int(found[1])


def _described(family: str, folder: Path, vendor: str) -> Card:
    device = _read(folder / "device") or ""
    now, most = _number(folder / "current_link_width"), _number(folder / "max_link_width")
    numa = _number(folder / "numa_node")
    return Card(
        family=family,
        pci=folder.name,
        vendor_id=vendor,
        device_id=device if _HEX.fullmatch(device) else "",
        driver=_link_name(folder / "driver"),
        link=(now, most) if now and most else None,
        numa=numa if numa is not None and numa >= 0 else None,
    )


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _link_name(path: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(path))[:40] or None
    except OSError:
        return None


@lru_cache(maxsize=64)
def _pattern(path: str) -> tuple[str, re.Pattern[str]]:
    """(folder, pattern of a name in it) of a path with `{index}` in its last part."""
    folder, _, name = path.lstrip("/").rpartition("/")
    before, _, after = name.partition("{index}")
    return folder, re.compile(re.escape(before) + r"([0-9]{1,4})" + re.escape(after))


def _files(catalogue: Catalogue, root: Path) -> list[DeviceFile]:
    listed: dict[str, list[str]] = {}
    found = []
    for family in catalogue.families:
        for path in family.files:
            if "{index}" not in path.rpartition("/")[2]:
                continue
            folder, pattern = _pattern(path)
            if folder not in listed:
                listed[folder] = _names(root / folder)
            for name in listed[folder]:
                match = pattern.fullmatch(name)
                if match is not None and (file := _file(root / folder / name)) is not None:
                    found.append(DeviceFile(family.name, f"/{folder}/{name}", int(match[1]), file.st_gid))
    return sorted(found, key=lambda file: (file.family, file.index, file.path))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _file(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
