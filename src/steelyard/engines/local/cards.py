"""The accelerators of this machine for its engine: found, named, weighed, and who is on them.

Also what a process must be told to see the cards it was given. Names and health are kept in a file of the
data folder, so that a server that starts anew goes on with them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from steelyard.devices.catalogue import Catalogue, Family, device_files, load_catalogue
from steelyard.devices.found import devices_of
from steelyard.devices.kernel_log import KernelLog
from steelyard.devices.prober import Look, Prober, kernel_log_path
from steelyard.devices.probes import load_probes
from steelyard.devices.roster import Known
from steelyard.devices.roster_json import read_roster, written
from steelyard.devices.scan import Scan
from steelyard.devices.settings import DeviceSettings
from steelyard.devices.step import Step
from steelyard.devices.steps import steps_of
from steelyard.engines.local import strangers
from steelyard.engines.local.files import read_json, write_json
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.strangers import Owners
from steelyard.engines.port import DeviceBinding
from steelyard.model.health import DeviceHolder
from steelyard.model.resources import DeviceClass, FoundDevice, Provenance

FIRST_WAIT = 3.0  # seconds for the first answers; a tool that is slower is not waited for
_FILE = "devices.json"


@dataclass(frozen=True, slots=True)
class Named:
    """A bound device as its runtime names it; see `devices.catalogue.Bound`."""

    uid: str | None
    family: str
    device_class: DeviceClass


class Cards:
    """One machine's. `look` is for one thread at a time; the rest may be called by any."""

    def __init__(self, settings: DeviceSettings, layout: Layout, now: Callable[[], int]) -> None:
        self._settings = settings
        self._layout = layout
        self._now = now
        self._catalogue: Catalogue = load_catalogue()
        self._prober = Prober(settings, self._catalogue, now)
        self._log = KernelLog(kernel_log_path(settings))
        self._path = os.path.join(layout.local, _FILE)
        self._lock = threading.Lock()
        self._written: dict[str, Any] | None = read_json(self._path)
        self._roster = read_roster(self._written, settings.rules)
        self._scan: Scan | None = None
        self._looked = False
        self._strangers: dict[str, tuple[DeviceHolder, ...] | None] = {}

    def look(self, owners: Owners | None, again: bool) -> tuple[FoundDevice, ...]:
        """What there is. `owners`: whose each process is, None where that can't be told; who is on the cards
        is looked at only `again`, else it is as it was."""
        wait, self._looked = (0.0 if self._looked else FIRST_WAIT), True
        with self._lock:
            known = {one.family for one in self._roster.known.values()}
        seen = self._prober.look(known, wait)
        now = self._now()
        with self._lock:
            self._update(seen, now)
            if again and owners is not None:  # where nobody can tell, it is as it was
                self._strangers = self._holders(seen.scan, owners)
            provenance = Provenance.SIMULATED if self._settings.simulated else Provenance.DETECTED
            return devices_of(
                self._roster.known.values(), self._strangers, self._catalogue, provenance, now
            )

    def named(self, binding: DeviceBinding) -> Named:
        """A bound device by what its runtime knows it by: its uuid, else its number."""
        with self._lock:
            known = self._roster.known.get(binding.uid or "")
        family = self._catalogue.by_name.get(binding.family)
        uid = binding.uid if known is None or family is None else runtime_name(known, family)
        return Named(uid, binding.family, binding.device_class)

    def files(self, binding: DeviceBinding) -> tuple[str, ...]:
        """The device files of a bound device, as far as they are there."""
        with self._lock:
            known = self._roster.known.get(binding.uid or "")
            if known is not None and known.parent is not None:
                known = self._roster.known.get(known.parent)
        if known is None or self._scan is None:
            return device_files(binding)
        return tuple(path for path in self.paths(known, self._scan) if os.path.exists(path))

    def steps(self) -> tuple[Step, ...]:
        """How far the finding of each family came; for whoever asks what is wrong."""
        seen = self._prober.look()
        return steps_of(seen, self._prober.asker, self._catalogue, self._settings)

    def close(self) -> None:
        """Ends what still asks."""
        self._prober.close()
        self._log.close()

    # ---- inner

    def _update(self, seen: Look, now: int) -> None:
        self._scan = seen.scan
        for event in self._log.read(now):
            said = event.reading
            if event.at + self._settings.rules.event_hold <= now:
                continue  # of before this server, and over
            self._roster.tell(said.family, said.pci, said.index, said.signs, event.at)
        self._roster.update(seen.scan, seen.answers, now)
        wanted = written(self._roster)
        if _lasting(wanted) != _lasting(self._written) and (self._written or self._roster.known):
            with suppress(OSError):  # a full disk: it is written with the next look
                os.makedirs(self._layout.local, mode=0o700, exist_ok=True)
                write_json(self._path, wanted)
                self._written = wanted

    def _holders(self, scan: Scan, owners: Owners) -> dict[str, tuple[DeviceHolder, ...] | None]:
        """Strangers on each card. None where nobody tells: neither its tool nor a device file of its own."""
        paths = {one.uid: self.paths(one, scan) for one in self._roster.known.values()}
        wanted = {path for some in paths.values() for path in some}
        services = frozenset().union(*(probe.services for probe in load_probes().values()))
        everybody = os.geteuid() == 0  # else only processes of this user show their files
        opened = strangers.open_files(owners, wanted, services) if wanted else {}
        claimed = strangers.devices_of_members(self._layout)
        numbers = self._settings.simulated or strangers.numbers_are_ours()
        found: dict[str, tuple[DeviceHolder, ...] | None] = {}
        for one in self._roster.known.values():
            told = None if one.reading is None or not numbers else one.reading.holders
            by_file = [pid for path in paths[one.uid] for pid in opened.get(path, ())]
            uids = self._one_with(one)
            on_it = strangers.on_device(uids, told or (), by_file, owners, claimed)
            seen = told is not None or (bool(paths[one.uid]) and everybody)
            found[one.uid] = on_it if seen or on_it else None
        return found

    def paths(self, known: Known, scan: Scan) -> list[str]:
        """The card's own device files that were seen."""
        number = known.file if known.file is not None else self._by_index(known)
        if number is None or known.parent is not None:
            return []
        root = "" if self._settings.system == "/" else self._settings.system
        family = known.family
        return [root + one.path for one in scan.files if one.family == family and one.index == number]

    def _by_index(self, known: Known) -> int | None:
        """The tool's index as the number of the device file, for families that do not count minors there: a
        file that is another card's would hold the one for what is on the other."""
        family = self._catalogue.by_name.get(known.family)
        counts = {node.number for node in family.nodes} if family is not None else {"minor"}
        return None if "minor" in counts else known.index

    def _one_with(self, one: Known) -> set[str]:
        """Whoever was given any of these may be on it: the card itself, its partitions, or its card."""
        parts = {other.uid for other in self._roster.known.values() if other.parent == one.uid}
        return {one.uid, *parts, *([one.parent] if one.parent is not None else [])}


def runtime_name(known: Known, family: Family) -> str:
    """The uuid where a variable of the family takes it, else the family with the runtime's number; the uid
    where neither is known."""
    prefixes = [p for variable in family.visibility for p in variable.uuid_prefixes]
    if known.uuid is not None and known.uuid.startswith(tuple(prefixes)):
        return known.uuid
    inside = None if known.reading is None else known.reading.in_container
    number = inside if inside is not None else known.index
    return known.uid if number is None else f"{known.family}-{number}"


def _lasting(text: dict[str, Any] | None) -> Any:
    """What is written down, but for when each was read: that alone is not worth writing it anew."""
    devices = [] if text is None else text.get("devices", [])
    return [{key: value for key, value in one.items() if key != "read_at"} for one in devices]


def without_times(devices: tuple[FoundDevice, ...]) -> tuple[FoundDevice, ...]:
    """For telling whether anything changed: facts as they are, not when they were read."""
    return tuple(
        replace(one, facts={key: replace(fact, at=0) for key, fact in one.facts.items()}) for one in devices
    )
