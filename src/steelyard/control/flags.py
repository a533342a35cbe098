"""Flags on nodes and devices in the live state: what operators set is followed, what the proof of release
sets is set here, and both let the inventory decide anew what is offered."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from steelyard.control.context import Context
from steelyard.control.inventory import Inventory
from steelyard.evidence.leaf import Head
from steelyard.model.health import DeviceFlag
from steelyard.model.resources import UnavailableReason
from steelyard.services.flags import Wanted, lift_row, row_of, set_row
from steelyard.services.live_load import live_flag
from steelyard.services.live_records import LiveFlag
from steelyard.services.places import Place
from steelyard.store import live as rows
from steelyard.store.unit import NO_HEAD, Unit

FENCED = Wanted(DeviceFlag.QUARANTINED)
WHO = "control"


class Flags:
    """Keeps the flags of the live state."""

    def __init__(self, context: Context, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory
        self._adopted = False

    def follow(self, ids: Collection[int]) -> None:
        """Others set or lifted these."""
        if not self._adopted:
            self._adopt()
        if not ids:
            return
        context = self._context
        with context.store.read() as view:
            found = rows.flags(view, ids)
        state = context.state.flags
        for row in found:
            own = state.setdefault(row.object_id, {})
            flag = DeviceFlag(row.flag)
            if row.valid_to is None:
                own[flag] = live_flag(row)
            elif flag in own and own[flag].id == row.id:
                del own[flag]
        unit, now = context.unit(), context.now()
        self._inventory.flagged(unit, {row.object_id for row in found}, now)
        context.commit(unit, now)

    def take_out(
        self, unit: Unit, device_ids: Iterable[int], attempt_id: int, who: str, reason: str, now: int
    ) -> None:
        """Devices out of service since a release is not proven, whatever their engine says of them."""
        touched = []
        for device_id in sorted(device_ids):
            device = self._context.state.devices.get(device_id)
            known = self._context.state.flags.get(device_id, {})
            if device is None or DeviceFlag.QUARANTINED in known:
                continue
            node = self._context.state.nodes[device.node_id]
            place = Place("device", device.id, device.cluster, node.id, node.name, device.uid)
            self._set(unit, place, who, reason, attempt_id, now)
            touched.append(device_id)
        self._inventory.flagged(unit, touched, now)

    def bring_back(self, unit: Unit, device_ids: Iterable[int], who: str, reason: str, now: int) -> None:
        """Devices that were taken out are as available as they are else."""
        touched = []
        for device_id in sorted(device_ids):
            own = self._context.state.flags.get(device_id, {})
            flag = own.get(DeviceFlag.QUARANTINED)
            if flag is None or flag.attempt_id is None:
                continue
            cluster = self._context.state.devices[device_id].cluster
            lift_row(unit, row_of(flag, cluster), who, reason, now)
            del own[DeviceFlag.QUARANTINED]
            touched.append(device_id)
        self._inventory.flagged(unit, touched, now)

    def _set(
        self, unit: Unit, place: Place, who: str, reason: str, attempt_id: int | None, now: int
    ) -> None:
        flag = LiveFlag(
            self._context.store.ids.next(), place.kind, place.id, FENCED.flag, None, who, reason, now, 1,
            NO_HEAD, attempt_id,
        )  # fmt: skip

        def keep(head: Head) -> None:
            flag.head = head

        set_row(unit, flag.id, place, FENCED, who, reason, now, attempt_id=attempt_id, keep=keep)
        self._context.state.flags.setdefault(place.id, {})[flag.flag] = flag

    def _adopt(self) -> None:
        """Devices that a version without flags took out of service get theirs, each of its release."""
        self._adopted = True
        context, state = self._context, self._context.state
        releases = {d: case.attempt_id for case in state.releases.values() if case.fenced_at
                    for d, _ in case.quantities}  # fmt: skip
        unit, now = context.unit(), context.now()
        for device in state.devices.values():
            if device.reason == UnavailableReason.FENCED and not state.flags_on(device.id, device.node_id):
                node = state.nodes[device.node_id]
                place = Place("device", device.id, device.cluster, node.id, node.name, device.uid)
                self._set(unit, place, WHO, "release-unconfirmed", releases.get(device.id), now)
        context.commit(unit, now)
