"""What a Kubernetes node says of its accelerators by resources, labels and annotations, in neutral facts.

One name may mean several things: `nvidia.com/gpu` counts cards, shares of cards or MIG instances, by what
runs on the node. What the node's own labels and annotations don't settle stays open (`kind` None): an amount
of something is no number of cards. Amounts are Kubernetes' quantities as whole numbers. Sources:
`kubernetes.yaml` beside this module, for NVIDIA's labels its gpu-feature-discovery (k8s-device-plugin
1b826acc, docs/gpu-feature-discovery/README.md and internal/lm/resource.go), for HAMi `hami.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.devices.facts import Facts, ResourceName
from steelyard.devices.hami import devices_of, family_of
from steelyard.devices.reading import Problem, ProblemCode, Reading, kept

#: What a label may tell (`tells` in kubernetes.yaml) as a number; all else is text.
NUMBERS = frozenset({"memory", "cards", "replicas", "tiles"})
_QUANTITY = re.compile(r"([0-9]{1,18})(Ki|Mi|Gi|Ti|k|M|G|T)?")
_FACTORS = {
    None: 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4,
    "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4,
}  # fmt: skip
_TEXT_MAX = 120
_MIG_IN_MODEL = re.compile(r"-MIG-([0-9]+g\.[0-9]+gb[A-Za-z0-9.+]*)")


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource of a node. `kind` is one of `facts.RESOURCE_KINDS`, or None where it can't be told."""

    name: str
    family: str
    kind: str | None
    capacity: int | None
    allocatable: int | None
    mib: int | None = None  # what one unit of memory is worth
    part: str | None = None  # what one unit is a part of the card by, e.g. a MIG profile
    by: str | None = None  # whose plug-in offers it; None: the vendor's own, or not told


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What a node says: its offers, facts by family, single devices where a plug-in lists them."""

    offers: tuple[Offer, ...]
    facts: Mapping[str, Mapping[str, str | int]]
    readings: tuple[Reading, ...]
    problems: tuple[Problem, ...]

    def cards(self, family: str) -> int | None:
        """How many cards of a family there are; None where nothing on the node says so for certain."""
        listed = [reading for reading in self.readings if reading.family == family]
        if listed:
            return len(listed) if all(reading.complete for reading in listed) else None
        whole = [one.capacity for one in self.offers if one.family == family and one.kind == "device"]
        if len(whole) == 1:
            return whole[0]
        found = self.facts.get(family, {}).get("cards")
        return found if isinstance(found, int) else None


def quantity(text: str) -> int | None:
    """A whole quantity such as `8`, `98k` or `16Gi`; None for any other text, fractions among them."""
    match = _QUANTITY.fullmatch(text.strip()) if text.isascii() else None
    return None if match is None else int(match[1]) * _FACTORS[match[2]]


def devices_on(
    known: Facts,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
) -> NodeDevices:
    """Reads what a node shows. Raises nothing; what can't be read is a problem."""
    parsed = devices_of(annotations)
    facts = _facts(known, labels)
    by_hami = {family for key in annotations if (family := family_of(key)) is not None}
    offers: list[Offer] = []
    problems = list(parsed.problems)
    for name in sorted(set(capacity) | set(allocatable)):
        meanings = known.resource(name) if "/" in name else ()
        if not meanings:
            continue
        has, gives = quantity(capacity.get(name, "")), quantity(allocatable.get(name, ""))
        for text, amount in ((capacity.get(name), has), (allocatable.get(name), gives)):
            if text is not None and amount is None:
                problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(f"{name}: {text}")))
        offers.append(_offer(name, meanings, (has, gives), facts, by_hami))
    return NodeDevices(tuple(offers), _without_parts(facts), parsed.readings, tuple(problems))


def _offer(
    name: str,
    meanings: Sequence[ResourceName],
    amounts: tuple[int | None, int | None],
    facts: Mapping[str, Mapping[str, str | int]],
    by_hami: set[str],
) -> Offer:
    family = meanings[0].family
    of_family = facts.get(family, {})
    one = _meaning(meanings, of_family, amounts[0], family in by_hami)
    if name == "nvidia.com/gpu" and family not in by_hami and of_family.get("mig_strategy") == "single":
        part = _MIG_IN_MODEL.search(str(of_family.get("model", "")))
        if part is not None:
            return Offer(name, family, "slice", *amounts, part=part[1])
    if one is None:
        return Offer(name, family, None, *amounts)
    part_of = name.rpartition("/")[2] if one.kind == "slice" else None
    return Offer(name, family, one.kind, *amounts, mib=one.mib, part=part_of, by=one.by)


def _meaning(
    meanings: Sequence[ResourceName],
    of_family: Mapping[str, str | int],
    amount: int | None,
    by_hami: bool,
) -> ResourceName | None:
    """The one meaning that the node settles; None where it leaves several."""
    hamis = [one for one in meanings if one.by == "hami"]
    others = [one for one in meanings if one.by != "hami"]
    if hamis and (by_hami or not others):
        return hamis[0]
    kinds = {one.kind for one in others}
    if len(kinds) == 1 and not hamis:
        return others[0]
    return next((one for one in meanings if one.kind == _counted(of_family, amount)), None)


def _counted(of_family: Mapping[str, str | int], amount: int | None) -> str | None:
    """Whether a resource counts cards or shares: labels say so, or it is as many as there are cards."""
    sharing, cards = of_family.get("sharing"), of_family.get("cards")
    if sharing is not None:
        return "device" if sharing == "none" else "count"
    if isinstance(cards, int) and amount is not None:
        return "device" if amount == cards else "count"
    return None


def _facts(known: Facts, labels: Mapping[str, str]) -> dict[str, dict[str, str | int]]:
    """Family → what the labels tell. Of two labels that tell different things neither is believed."""
    told: dict[str, dict[str, set[str | int]]] = {}
    for family, on_kubernetes in known.kubernetes.items():
        for label in on_kubernetes.labels:
            text = labels.get(label.key)
            if label.tells is None or label.unconfirmed or text is None:
                continue
            value = _value(label.tells, text)
            if value is not None:
                told.setdefault(family, {}).setdefault(label.tells, set()).add(value)
    return {
        family: {name: next(iter(values)) for name, values in facts.items() if len(values) == 1}
        for family, facts in told.items()
    }


def _value(tells: str, text: str) -> str | int | None:
    plain = text.strip()
    if tells in NUMBERS:
        return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 12 else None
    return kept(plain)[:_TEXT_MAX] or None


def _without_parts(facts: Mapping[str, Mapping[str, str | int]]) -> dict[str, dict[str, str | int]]:
    """The facts of cards: where labels speak of MIG instances, their memory and number are not the cards'."""
    return {family: dict(_of_cards(of_family)) for family, of_family in facts.items()}


def _of_cards(of_family: Mapping[str, str | int]) -> Iterable[tuple[str, str | int]]:
    model = str(of_family.get("model", ""))
    parts = _MIG_IN_MODEL.search(model) is not None
    for name, value in of_family.items():
        if name == "model":
            yield name, _MIG_IN_MODEL.sub("", model.removesuffix("-SHARED"))
        elif not (parts and name in ("memory", "cards")):
            yield name, value
