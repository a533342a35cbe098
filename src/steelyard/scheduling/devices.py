"""Accelerators of one flavor on one node while a cycle is under way: what may be granted of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from steelyard.model.resources import ShareKind
from steelyard.model.units import WHOLE_DEVICE


@dataclass(slots=True)
class Devices:
    """Accelerators of one flavor on one node: those entirely free, and what remains of the others.

    A device that is in neither has nothing left. A fraction sits on one device and shares it only
    with fractions of the same kind; a whole device is never put on one that is shared. A part of a device
    has the same part of its memory: who needs more memory is granted the larger part, so that no device's
    memory is ever exceeded. A partition is granted whole.
    """

    whole: list[int]
    part: dict[int, int] = field(default_factory=dict)
    kinds: dict[int, ShareKind] = field(default_factory=dict)
    memories: Mapping[int, int] = field(default_factory=dict)
    partitions: Collection[int] = ()

    def copy(self) -> Devices:
        """One of its own."""
        return Devices([*self.whole], dict(self.part), self.kinds, self.memories, self.partitions)

    @property
    def free(self) -> int:
        """What can still be taken."""
        return len(self.whole) * WHOLE_DEVICE + sum(left for left in self.part.values() if left > 0)

    @property
    def most(self) -> int:
        """The largest piece that can still be taken of one device."""
        if self.whole:
            return WHOLE_DEVICE
        return max((left for left in self.part.values() if left > 0), default=0)

    def remaining(self, device: int) -> int:
        """Negative where a hold claims more than there is."""
        index = bisect_left(self.whole, device)
        if index < len(self.whole) and self.whole[index] == device:
            return WHOLE_DEVICE
        return self.part.get(device, 0)

    def change_whole(self, devices: tuple[int, ...], sign: int) -> int:
        """Gives (or with sign −1 takes) devices entirely, by id; by how much more can be taken afterwards."""
        if not self.part:
            if sign > 0 and not self.whole:
                self.whole = [*devices]
                return len(devices) * WHOLE_DEVICE
            if sign < 0 and len(self.whole) == len(devices) and (*self.whole,) == devices:
                self.whole = []
                return -len(devices) * WHOLE_DEVICE
        return sum([self.change(device, sign * WHOLE_DEVICE) for device in devices])

    def change(self, device: int, delta: int) -> int:
        """Gives (or with a negative delta takes) a quantity of one device; by how much more can be taken
        of it afterwards."""
        whole = self.whole
        index = bisect_left(whole, device)
        if index < len(whole) and whole[index] == device:
            before = WHOLE_DEVICE
            if not delta:
                return 0
            del whole[index]
        else:
            before = self.part.pop(device, 0) if self.part else 0
        after = before + delta
        if after == WHOLE_DEVICE:
            whole.insert(index, device)
        elif after:
            self.part[device] = after
        return (after if after > 0 else 0) - (before if before > 0 else 0)

    def pick(
        self, amount: int, wanted: int | None = None, memory: int = 0
    ) -> list[tuple[int, int, ShareKind]] | None:
        """Devices for an amount: whole ones by id, a fraction on one that has `wanted` left, else where it
        fits most tightly. `memory`: MiB of each."""
        if memory or self.partitions:
            return self._pick_granted(amount, memory)
        count, fraction = divmod(amount, WHOLE_DEVICE)
        if count > len(self.whole):
            return None
        picked = [(device, WHOLE_DEVICE, ShareKind.EXCLUSIVE) for device in self.whole[:count]]
        if fraction:
            fitting = [(left, device) for device, left in self.part.items() if left >= fraction]
            if fitting and not (wanted == WHOLE_DEVICE and len(self.whole) > count):
                device = min(fitting, key=lambda entry: (entry[0] != wanted, entry))[1]
            elif len(self.whole) > count:
                device = self.whole[count]
            else:
                return None
            picked.append((device, fraction, self._kind(device, fraction)))
        return picked

    def granted(self, device: int, fraction: int, memory: int) -> int | None:
        """What a fraction is granted of a device: at least what was asked for, with the memory that it needs;
        None where that is more than the device has, or is not known."""
        there = self.memories.get(device, 0)
        if memory > there:
            return None
        if device in self.partitions:
            return WHOLE_DEVICE
        return max(fraction, -(-memory * WHOLE_DEVICE // there)) if memory else fraction

    def _pick_granted(self, amount: int, memory: int) -> list[tuple[int, int, ShareKind]] | None:
        """As `pick`, where what is granted depends on the device."""
        count, fraction = divmod(amount, WHOLE_DEVICE)
        suitable = [device for device in self.whole if self.granted(device, WHOLE_DEVICE, memory) is not None]
        if count > len(suitable):
            return None
        picked = [(device, WHOLE_DEVICE, self._kind(device, WHOLE_DEVICE)) for device in suitable[:count]]
        if not fraction:
            return picked
        parts = [(left, device) for device, left in self.part.items()]
        parts += [(WHOLE_DEVICE, device) for device in suitable[count:]]
        fitting = [
            (left, device, share)
            for left, device in parts
            if (share := self.granted(device, fraction, memory)) is not None and share <= left
        ]
        if not fitting:
            return None
        _, device, share = min(fitting, key=lambda entry: (entry[2], entry[0], entry[1]))
        return [*picked, (device, share, self._kind(device, share))]

    def _kind(self, device: int, share: int) -> ShareKind:
        """Partitions are isolated by the card; others may join a part of a device that nobody holds."""
        if device in self.partitions:
            return ShareKind.PARTITION
        if share == WHOLE_DEVICE:
            return ShareKind.EXCLUSIVE
        kind = self.kinds.get(device, ShareKind.TIME_SLICED)
        return ShareKind.TIME_SLICED if kind is ShareKind.EXCLUSIVE else kind

    def missing(self, amount: int, memory: int = 0) -> int:
        """How much more this node would need of it to hold the amount; 0 when it holds it."""
        if memory or self.partitions:
            return self._missing_granted(amount, memory)
        count, fraction = divmod(amount, WHOLE_DEVICE)
        short = max(0, count - len(self.whole)) * WHOLE_DEVICE
        if fraction and len(self.whole) <= count:
            best = max((left for left in self.part.values() if left > 0), default=0)
            short += max(0, fraction - best)
        return short

    def _missing_granted(self, amount: int, memory: int) -> int:
        if self._pick_granted(amount, memory) is not None:
            return 0
        count, fraction = divmod(amount, WHOLE_DEVICE)
        suitable = [device for device in self.whole if self.granted(device, WHOLE_DEVICE, memory) is not None]
        short = max(0, count - len(suitable)) * WHOLE_DEVICE
        lacks = [
            share - max(0, left)
            for device, left in self.part.items()
            if (share := self.granted(device, fraction, memory)) is not None and share > left
        ]
        if fraction and len(suitable) <= count:
            short += min(lacks, default=fraction)
        return short or amount
