"""Families of compute as versioned data: class, names, PCI vendors, and the variables that hide devices.

The file beside this module, `families.yaml`, is the data; it names its own source. What else is known of the
families (tools, capabilities, Kubernetes, signals of health) is read by `devices/facts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Protocol

import yaml

from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.resources import ACCELERATORS, DeviceClass, FamilyClasses

SUPPORTED_VERSION = 1
_VALUES = frozenset({"index", "uuid", "constant"})
_NUMBERS = frozenset({"index", "minor", "slot", "physical", "group", "render"})
_FAMILY_KEYS = frozenset({
    "class", "vendor", "aliases", "pci_vendors", "pci_classes", "pci_devices", "files", "nodes", "shared",
    "libraries", "container_variables", "visibility",
})  # fmt: skip
_HEX_ID = re.compile(r"0x[0-9a-f]{4}")
_TRAILING_INDEX = re.compile(r"(?:^|[^0-9])([0-9]{1,6})$")

#: How ids begin that a runtime gave: they hold no number of the node.
_OWN_IDS = ("GPU-", "MIG-", "PPU-", "DRS-")


class Bound(Protocol):
    """What `visibility_env` needs to know of a device that a member was given."""

    @property
    def uid(self) -> str | None: ...

    @property
    def family(self) -> str: ...

    @property
    def device_class(self) -> DeviceClass: ...


@dataclass(frozen=True, slots=True)
class VisibilityVariable:
    """One variable of a process's environment, and how its value is built."""

    name: str
    value: str  # index | uuid | constant
    constant: str | None
    uuid_prefixes: tuple[str, ...]
    prefix: str
    none: str | None  # hides every device of the family; None: not set for members without devices
    none_unconfirmed: bool


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """Device files of a family: {n} in `path` counts what `number` says."""

    path: str
    number: str  # index | minor | slot | physical | group | render
    when: str | None
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class Named:
    """A name that the catalogue has, and whether it was confirmed."""

    name: str
    unconfirmed: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """What is known of one family."""

    name: str
    device_class: DeviceClass
    vendor_en: str
    vendor_zh: str
    aliases: tuple[str, ...]
    pci_vendors: tuple[str, ...]
    pci_classes: tuple[str, ...]
    files: tuple[str, ...]  # by which a device is spoken to; {index} is its number on the node
    visibility: tuple[VisibilityVariable, ...]
    pci_devices: Mapping[str, Named] = field(default_factory=dict)  # PCI device id → model or generation
    nodes: tuple[DeviceNode, ...] = ()
    shared: tuple[str, ...] = ()  # files that all devices of the family share
    libraries: tuple[str, ...] = ()
    container_variables: tuple[Named, ...] = ()

    def model_of(self, device_id: str) -> str | None:
        """The model (or generation) that a PCI device id such as `0x1020` stands for, where confirmed."""
        found = self.pci_devices.get(device_id.lower())
        return None if found is None or found.unconfirmed else found.name


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The whole file. `by_name` also knows the aliases."""

    version: int
    source: str
    families: tuple[Family, ...]
    by_name: Mapping[str, Family]

    def classes(self) -> FamilyClasses:
        """Family (and alias) → class."""
        return {name: family.device_class for name, family in self.by_name.items()}


def _variable(raw: Mapping[str, Any]) -> VisibilityVariable:
    if raw["value"] not in _VALUES:
        raise InvalidError("catalogue-invalid", name=str(raw["name"]))
    return VisibilityVariable(
        name=raw["name"],
        value=raw["value"],
        constant=raw.get("constant"),
        uuid_prefixes=tuple(raw.get("uuid_prefixes", ())),
        prefix=raw.get("prefix", ""),
        none=raw.get("none"),
        none_unconfirmed=bool(raw.get("none_unconfirmed", False)),
    )


def _node(raw: Mapping[str, Any]) -> DeviceNode:
    if raw["number"] not in _NUMBERS or "{n}" not in raw["path"]:
        raise InvalidError("catalogue-invalid", name=str(raw["path"])[:80])
    return DeviceNode(raw["path"], raw["number"], raw.get("when"), bool(raw.get("unconfirmed", False)))


def _named(raw: str | Mapping[str, Any]) -> Named:
    if isinstance(raw, str):
        return Named(raw)
    return Named(raw["name"], bool(raw.get("unconfirmed", False)))


def _pci_devices(raw: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Named]:
    for device_id in raw:
        if not _HEX_ID.fullmatch(device_id):
            raise InvalidError("catalogue-invalid", name=device_id[:80])
    named = {key: Named(body["model"], bool(body.get("unconfirmed", False))) for key, body in raw.items()}
    return MappingProxyType(named)


def _family(name: str, raw: Mapping[str, Any]) -> Family:
    unknown = set(raw) - _FAMILY_KEYS
    if unknown or not all(_HEX_ID.fullmatch(vendor) for vendor in raw["pci_vendors"]):
        raise InvalidError("catalogue-invalid", name=f"{name}: {', '.join(sorted(unknown))}"[:80])
    return Family(
        name=name,
        device_class=DeviceClass(raw["class"]),
        vendor_en=raw["vendor"]["en"],
        vendor_zh=raw["vendor"]["zh"],
        aliases=tuple(raw.get("aliases", ())),
        pci_vendors=tuple(raw["pci_vendors"]),
        pci_classes=tuple(raw["pci_classes"]),
        files=tuple(raw.get("files", ())),
        visibility=tuple(_variable(variable) for variable in raw["visibility"]),
        pci_devices=_pci_devices(raw.get("pci_devices", {})),
        nodes=tuple(_node(node) for node in raw.get("nodes", ())),
        shared=tuple(raw.get("shared", ())),
        libraries=tuple(raw.get("libraries", ())),
        container_variables=tuple(_named(one) for one in raw.get("container_variables", ())),
    )


def parse_catalogue(text: str) -> Catalogue:
    """The catalogue in `text`. Raises InvalidError for another version or a name used twice."""
    raw = yaml.safe_load(text)
    if raw.get("version") != SUPPORTED_VERSION:
        raise InvalidError("catalogue-version", version=str(raw.get("version")), supported=SUPPORTED_VERSION)
    families = tuple(_family(name, body) for name, body in raw["families"].items())
    by_name: dict[str, Family] = {}
    for family in families:
        for name in (family.name, *family.aliases):
            if name in by_name:
                raise InvalidError("catalogue-invalid", name=name)
            by_name[name] = family
    return Catalogue(raw["version"], raw["source"], families, MappingProxyType(by_name))


@lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """The catalogue that this version ships, read once."""
    text = resources.files("steelyard.devices").joinpath("families.yaml").read_text(encoding="utf-8")
    return parse_catalogue(text)


def family_class(family: str) -> DeviceClass:
    """The class that a family counts as, e.g. gpu for hygon-dcu. Raises NotFoundError."""
    found = load_catalogue().by_name.get(family)
    if found is None:
        raise NotFoundError("family-unknown", family=family[:80])
    return found.device_class


def visibility_env(bindings: Iterable[Bound]) -> dict[str, str]:
    """The variables by which a process sees the devices it was bound to, and no other accelerator.

    Every accelerator family's variables are set: to the bound devices, or to what hides all of them.
    Raises NotFoundError for a family the catalogue lacks, InvalidError where a device can't be named to
    its runtime (no index, no uuid) or two bound families speak through the same variable: letting a
    process see everything is no answer.
    """
    catalogue = load_catalogue()
    env = {
        variable.name: variable.none
        for family in catalogue.families
        for variable in family.visibility
        if variable.none is not None
    }
    set_by: dict[str, str] = {}
    for name, bound in _by_family(catalogue, bindings).items():
        for variable in catalogue.by_name[name].visibility:
            if set_by.setdefault(variable.name, name) != name:
                raise InvalidError("device-variables-conflict", variable=variable.name, family=name)
            env[variable.name] = _value(variable, bound)
    return env


def device_files(bound: Bound) -> tuple[str, ...]:
    """The files by which a process speaks to a device; none where they, or its number, are not known."""
    family = load_catalogue().by_name.get(bound.family)
    match = _TRAILING_INDEX.search(bound.uid or "")
    if family is None or match is None or (bound.uid or "").startswith(_OWN_IDS):
        return ()
    return tuple(path.replace("{index}", str(int(match[1]))) for path in family.files)


def _by_family(catalogue: Catalogue, bindings: Iterable[Bound]) -> dict[str, list[Bound]]:
    groups: dict[str, list[Bound]] = {}
    for binding in bindings:
        if binding.device_class not in ACCELERATORS:
            continue
        family = catalogue.by_name.get(binding.family)
        if family is None:
            raise NotFoundError("family-unknown", family=binding.family[:80])
        groups.setdefault(family.name, []).append(binding)
    return groups


def _value(variable: VisibilityVariable, bound: list[Bound]) -> str:
    if variable.value == "constant":
        return variable.constant or ""
    uids = sorted({binding.uid for binding in bound if binding.uid is not None})
    if len(uids) == 0 or any(binding.uid is None for binding in bound):
        raise InvalidError("device-not-nameable", variable=variable.name, uid=None)
    if variable.value == "uuid" and all(uid.startswith(variable.uuid_prefixes) for uid in uids):
        return variable.prefix + ",".join(uids)
    return variable.prefix + ",".join(str(index) for index in sorted(_index(variable, uid) for uid in uids))


def _index(variable: VisibilityVariable, uid: str) -> int:
    """The device's number on its node: what its uid ends in. An id of a runtime's own holds none."""
    match = _TRAILING_INDEX.search(uid)
    if match is None or uid.startswith(_OWN_IDS):
        raise InvalidError("device-not-nameable", variable=variable.name, uid=uid[:80])
    return int(match[1])
