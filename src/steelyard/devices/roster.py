"""Every accelerator that a machine was found to have: who each is, what was read of it last, how it stands.

A card keeps the name (`uid`) under which it was first found, whatever tells of it later: the bus before its
tool answered, the tool by index before it told a uuid. It is known again by its uuid, else its serial, else
its place on the bus, else its index. What was found once stays: as missing, not as a smaller machine.

Pure: scans, answers and lines of the kernel's log come in; `devices/found.py` makes devices of it, and
`devices/roster_json.py` writes it down, so that neither names nor health start anew with a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.devices.ask import Answer, unknown
from steelyard.devices.health import Rules, Sample, Standing, temperature_sign, weigh
from steelyard.devices.reading import Reading
from steelyard.devices.scan import Card, Scan
from steelyard.model.health import Health, Sign, SignCode, SignSource

#: What of a reading stays as it is for long: the facts of a device.
STATIC = (
    "uuid", "serial", "pci", "index", "host_index", "in_container", "module", "partition", "model", "memory",
    "driver", "firmware", "mig",
)  # fmt: skip
_UID_MAX = 100
_NONE, _NOW = -1, -2  # numbers of no answer
_BAD = (Health.UNHEALTHY, Health.MISSING)


@dataclass(slots=True)
class Known:
    """One card or partition. `index` is the tool's, `file` the device file's number; `parent` is a uid."""

    uid: str
    family: str
    uuid: str | None = None
    serial: str | None = None
    pci: str | None = None
    index: int | None = None
    file: int | None = None
    parent: str | None = None
    card: Card | None = None  # as the bus shows it now
    on_bus: bool = False  # it was seen there
    reading: Reading | None = None  # the last whole one
    read_at: int | None = None
    was_read: bool = False  # its tool told of it, now or before a restart
    tool: str | None = None
    standing: Standing | None = None
    events: dict[SignCode, tuple[int, Sign]] = field(default_factory=dict)  # until when each counts
    weighed: int = _NONE  # number of the answer that was weighed last

    @property
    def health(self) -> Health:
        """As it stands; unknown where nothing was weighed yet."""
        return Health.UNKNOWN if self.standing is None else self.standing.health


class Roster:
    """What is known of one machine. For one thread at a time."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.known: dict[str, Known] = {}

    # ---- taking in

    def update(self, scan: Scan, answers: Mapping[str, Answer], now: int) -> None:
        """One look: the bus, and each family's last answer (the same one again is weighed once)."""
        cards = {card.pci: card for card in scan.cards}
        for family in sorted(scan.families() | answers.keys() | {one.family for one in self.known.values()}):
            answer = answers.get(family)
            found = self._match(family, scan, answer)
            self._of_bus(family, scan)
            self._of_files(family, scan, answer)
            members = [one for one in self.known.values() if one.family == family]
            for one in sorted(members, key=lambda one: one.parent is not None):
                self._weigh(one, found.get(one.uid), answer, cards, scan, now)
            if answer is not None:
                self._drop_parts(members, found, answer)

    def tell(self, family: str, pci: str | None, index: int | None, signs: Iterable[Sign], at: int) -> None:
        """Lines of the kernel's log about one card, written at `at` (µs)."""
        for one in self.known.values():
            same = one.pci == pci if pci is not None else one.index == index
            if one.family != family or one.parent is not None or not same:
                continue
            for sign in signs:
                one.events[sign.code] = (at + self.rules.event_hold, sign)
                one.weighed = _NOW  # it counts at once, not with the next answer

    # ---- who is who

    def _match(self, family: str, scan: Scan, answer: Answer | None) -> dict[str, Reading]:
        """The readings of an answer by the uid of what they are of. Cards come before their partitions."""
        if answer is None or not answer.listed:
            return {}
        readings = _once(answer.readings)
        shared = _twice(reading.pci for reading in readings if reading.parent is None)
        serials = _twice(reading.serial for reading in readings if reading.parent is None)
        found: dict[str, Reading] = {}
        waiting: list[Reading] = []
        for reading in readings:
            if reading.parent is None:
                one = self._recognised(family, reading, shared, serials, found)
                if one is None:
                    waiting.append(reading)
                else:
                    found[one.uid] = reading
                    self._learn(one, reading, answer, shared)
        for reading, one in self._by_order(family, scan, waiting, readings, found):
            one = one or self._new(family, _name_of(family, reading, reading.pci in shared))
            found[one.uid] = reading
            self._learn(one, reading, answer, shared)
        for reading in readings:
            if reading.parent is not None:
                self._match_part(family, reading, answer, found)
        return found

    def _recognised(
        self, family: str, reading: Reading, shared: set[str], serials: set[str], taken: Mapping[str, Reading]
    ) -> Known | None:
        free = [
            one for one in self.known.values()
            if one.family == family and one.parent is None and one.uid not in taken
        ]  # fmt: skip
        for one in free:
            if reading.uuid is not None and one.uuid == reading.uuid:
                return one
        for one in free:
            if reading.serial is not None and reading.serial not in serials and one.serial == reading.serial:
                return one
        for one in free:
            same = reading.pci is not None and one.pci == reading.pci
            sure = reading.pci not in shared or _same_index(one, reading) or not one.was_read
            if same and sure and not _other_card(one, reading):
                return one
        for one in free:
            nameless = (reading.uuid or reading.serial or reading.pci) is None
            nameless = nameless or (one.uuid or one.serial or one.pci) is None
            if nameless and _same_index(one, reading):
                return one
        return None

    def _by_order(
        self,
        family: str,
        scan: Scan,
        waiting: Sequence[Reading],
        readings: Sequence[Reading],
        taken: Mapping[str, Reading],
    ) -> list[tuple[Reading, Known | None]]:
        """New readings with what they are of. A tool that tells no place on the bus lists its cards in the
        bus's order: so those found there before are known again, and are not counted twice."""
        if any(reading.pci is not None for reading in readings):
            return [(reading, None) for reading in waiting]
        places = {card.pci for card in scan.cards if card.family == family}
        free = sorted(
            (one for one in self.known.values()
             if one.family == family and one.pci in places and not one.was_read and one.uid not in taken),
            key=lambda one: one.pci or "",
        )  # fmt: skip
        cards: list[Known | None] = [*free, *([None] * len(waiting))]
        in_order = sorted(waiting, key=lambda reading: (reading.index is None, reading.index or 0))
        return list(zip(in_order, cards, strict=False))

    def _match_part(
        self, family: str, reading: Reading, answer: Answer, found: dict[str, Reading]
    ) -> None:
        """A partition of a card of the same answer; one whose card is not told is left out."""
        parent = next(
            (self.known[uid] for uid, card in found.items()
             if card.parent is None and reading.parent in (card.uuid, card.pci, str(card.index))),
            None,
        )  # fmt: skip
        if parent is None:
            return
        place = reading.other.get("part", reading.index)
        name = reading.uuid or f"{parent.uid}/{reading.partition or 'part'}.{place}"
        one = self.known.get(name[:_UID_MAX])
        if one is not None and one.parent is None:  # a card has that name
            name = f"{parent.uid}/{name}"
            one = self.known.get(name[:_UID_MAX])
        one = one or self._new(family, name)
        one.parent = parent.uid
        found[one.uid] = reading
        self._learn(one, reading, answer, set())

    def _learn(self, one: Known, reading: Reading, answer: Answer, shared: set[str]) -> None:
        one.uuid, one.serial = reading.uuid or one.uuid, reading.serial or one.serial
        one.pci = reading.pci or one.pci
        one.index = reading.index if reading.index is not None else one.index
        one.file = reading.host_index if reading.host_index is not None else one.file
        one.tool = answer.tool
        if reading.complete and not any(sign.health is Health.MISSING for sign in reading.signs):
            whole = replace(reading, driver=reading.driver or answer.driver)
            if one.reading is not None:  # what it does not tell now is as it was told
                gaps = [name for name in STATIC if getattr(whole, name) is None]
                whole = replace(whole, **{name: getattr(one.reading, name) for name in gaps})
            one.reading, one.read_at, one.was_read = whole, answer.at, True

    def _new(self, family: str, name: str) -> Known:
        uid = name[:_UID_MAX]
        number = 2
        while uid in self.known:
            uid, number = f"{name[: _UID_MAX - 4]}~{number}", number + 1
        one = self.known[uid] = Known(uid, family)
        return one

    def _of_bus(self, family: str, scan: Scan) -> None:
        """Cards on the bus that nothing else told of."""
        cards = [card for card in scan.cards if card.family == family]
        mine = [one for one in self.known.values() if one.family == family and one.parent is None]
        told = [one for one in mine if one.pci is None]
        places = {one.pci for one in mine}
        for card in cards:
            if card.pci in places:
                continue
            if told:  # the tool listed it, and does not say where it is
                told.pop()
                continue
            one = self._new(family, f"{family}-{card.pci}")
            one.pci = card.pci

    def _of_files(self, family: str, scan: Scan, answer: Answer | None) -> None:
        """Device files of a family of which neither bus nor tool tells anything."""
        if any(card.family == family for card in scan.cards) or (answer is not None and answer.listed):
            return
        mine = [one for one in self.known.values() if one.family == family and one.parent is None]
        if any(one.pci is not None or one.uuid is not None for one in mine):
            return
        places = {one.file if one.file is not None else one.index for one in mine}
        for file in (one for one in scan.files if one.family == family):
            if file.index not in places:
                places.add(file.index)
                one = self._new(family, f"{family}-{file.index}")
                one.index = file.index

    def _drop_parts(
        self, members: Sequence[Known], found: Mapping[str, Reading], answer: Answer
    ) -> None:
        """Partitions that were taken away on purpose: their card was read, and has them no more."""
        for one in members:
            card = found.get(one.parent or "")
            if one.parent is None or one.uid in found or card is None or not card.complete:
                continue
            if answer.whole and (answer.parts or not card.mig):
                self.known.pop(one.uid, None)

    # ---- how each is

    def _weigh(
        self,
        one: Known,
        reading: Reading | None,
        answer: Answer | None,
        cards: Mapping[str, Card],
        scan: Scan,
        now: int,
    ) -> None:
        card = cards.get(one.pci or "") if one.parent is None else None
        vanished = one.on_bus and scan.bus and card is None and one.parent is None
        moved = (card is None) != (one.card is None)
        one.card, one.on_bus = card, one.on_bus or card is not None
        if card is not None and card.minor is not None:
            one.file = card.minor
        number = _NONE if answer is None else answer.number
        if one.standing is not None and one.weighed != _NOW:
            unasked = answer is None and not vanished  # after a restart: it stands as it stood
            if unasked or (number == one.weighed and not moved):
                return
        one.events = {code: event for code, event in one.events.items() if event[0] > now}
        signs = [*self._signs(one, reading, answer), *(sign for _, sign in one.events.values())]
        silent = any(sign.health is Health.UNKNOWN for sign in signs)
        known = reading is not None and reading.complete and not silent
        unlisted = reading is None and answer is not None and answer.whole
        if unlisted and one.was_read:
            signs.append(Sign(SignCode.NOT_FOUND, Health.MISSING, SignSource.TOOL))
            known = True
        gone = vanished and reading is None
        sample = Sample(tuple(signs), known=known or gone, gone=gone)
        one.standing = weigh(one.standing, sample, now, self.rules)
        one.weighed = number

    def _signs(self, one: Known, reading: Reading | None, answer: Answer | None) -> list[Sign]:
        signs: list[Sign] = []
        if reading is not None:
            signs += reading.signs
            signs += temperature_sign(reading.temperature, self.rules)
        elif answer is None:
            signs.append(unknown(SignCode.READING_UNKNOWN, "not asked yet"))
        elif answer.sign is not None:
            signs.append(answer.sign)
        elif not (answer.whole and one.was_read):
            signs.append(unknown(SignCode.NOT_FOUND, "its tool does not list it"))
        if one.card is not None:
            signs += _of_card(one.card, reading)
        parent = self.known.get(one.parent or "")
        if parent is not None and parent.standing is not None and parent.health in _BAD:
            signs += [sign for sign in parent.standing.signs if sign.health in _BAD]
        return signs


def _once(readings: Iterable[Reading]) -> list[Reading]:
    """Those that tell who they are of, the first of each."""
    found: dict[tuple[object, ...], Reading] = {}
    for one in readings:
        who = (one.uuid,) if one.uuid is not None else (one.pci, one.serial, one.index, one.host_index)
        if any(part is not None for part in who):
            found.setdefault((*who, one.parent), one)
    return list(found.values())


def _twice(values: Iterable[str | None]) -> set[str]:
    counted = Counter(value for value in values if value is not None)
    return {value for value, times in counted.items() if times > 1}


def _other_card(one: Known, reading: Reading) -> bool:
    """Another card in the same place: both say who they are, and it is not the same."""
    uuids = one.uuid is not None and reading.uuid is not None and one.uuid != reading.uuid
    serials = one.serial is not None and reading.serial is not None and one.serial != reading.serial
    return uuids or serials


def _same_index(one: Known, reading: Reading) -> bool:
    mine = {one.index, one.file} - {None}
    return bool(mine & {reading.index, reading.host_index})


def _name_of(family: str, reading: Reading, shared: bool) -> str:
    if reading.uuid is not None:
        return reading.uuid
    if reading.pci is not None:
        return f"{family}-{reading.pci}" + (f"-{reading.index}" if shared else "")
    if reading.serial is not None:
        return f"{family}-{reading.serial}"
    return f"{family}-{reading.index if reading.index is not None else reading.host_index}"


def _of_card(card: Card, reading: Reading | None) -> list[Sign]:
    """What the bus says of a card: fewer lanes than it has; no driver, where nothing reads it."""
    signs = []
    if reading is None and (card.driver is None or card.driver == "vfio-pci"):
        detail = "given to virtual machines" if card.driver else ""
        signs.append(Sign(SignCode.DRIVER_MISSING, Health.UNKNOWN, SignSource.BUS, detail))
    if card.link is not None and card.link[0] < card.link[1]:
        params: dict[str, str | int] = {"lanes": card.link[0], "of": card.link[1]}
        signs.append(Sign(SignCode.LINK_DEGRADED, Health.DEGRADED, SignSource.LINK, params=params))
    return signs
