"""What the NVIDIA driver writes to the kernel's log: Xids, and a card that fell off the bus.

A line is of the past: whoever reads the log says from when on it counts. Source: NVIDIA's list of Xids, and
the device plug-in's list of those that tell of the program rather than of the card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import DETAIL_LIMIT, Parsed, Reading, judged, kept
from steelyard.devices.text import pci
from steelyard.model.health import Health, Sign, SignCode, SignSource

TOOL = "kernel-log"
XID = "nvidia-xid"

#: Xids that say nothing against the card (health signal of the catalogue, `ignored_by_default`).
IGNORED = frozenset({13, 31, 43, 45, 68, 109})
OFF_THE_BUS = 79

_ADDRESS = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?" + _ADDRESS + r"\): ([0-9]{1,5}),")
_OFF = re.compile(r"NVRM: (?:The )?GPU (?:at )?(?:PCI:)?" + _ADDRESS + r":? (?:GPU )?has fallen off the bus")
_CARDS_MAX = 4096


@dataclass
class _Card:
    """What the log says of one card: Xid → how often, and the last line of each."""

    times: dict[int, int] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)


def _told(line: Line) -> tuple[str, int] | None:
    """(bus address, Xid) of a line that tells of one that counts. A number without its comma may be cut."""
    xid = _XID.search(line.text)
    if xid is not None:
        address, number = pci(xid[1]), int(xid[2])
    else:
        off = _OFF.search(line.text)
        if off is None:
            return None
        address, number = pci(off[1]), OFF_THE_BUS
    return None if address is None or number in IGNORED else (address, number)


def _recognises(output: Output) -> bool:
    return any("NVRM: " in line.text for line in output.lines)


def _parse(output: Output) -> Parsed:
    """A reading for each card that the log speaks against, in the order of its first line."""
    cards: dict[str, _Card] = {}
    for line in output.lines:
        told = _told(line)
        if told is None or (told[0] not in cards and len(cards) == _CARDS_MAX):
            continue
        card = cards.setdefault(told[0], _Card())
        card.times[told[1]] = card.times.get(told[1], 0) + 1
        card.lines[told[1]] = line.text
    return Parsed(readings=tuple(_reading(address, card) for address, card in cards.items()))


def _reading(address: str, card: _Card) -> Reading:
    signs = [_sign(xid, times, card.lines[xid]) for xid, times in card.times.items()]
    line = kept("\n".join(card.lines.values()))
    reading = Reading(family="nvidia", tool=TOOL, layout=XID, complete=True, line=line, pci=address)
    return judged(reading, signs)


def _sign(xid: int, times: int, line: str) -> Sign:
    off = xid == OFF_THE_BUS
    code = SignCode.FELL_OFF_BUS if off else SignCode.XID
    health = Health.MISSING if off else Health.UNHEALTHY
    detail = kept(line[line.find("NVRM:") :])[:DETAIL_LIMIT]
    return Sign(code, health, SignSource.KERNEL, detail, {"xid": xid, "times": times})


KERNEL = Layout("nvidia", TOOL, XID, _recognises, _parse)
