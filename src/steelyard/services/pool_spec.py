"""A pool as a frozen value: which devices, what for, in what environment, who may use it, who runs it.

Values of a label are texts; quantities are integers in the class's unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from steelyard.model.pools import Purpose
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import WorkloadKind
from steelyard.services.reading import given, write_amount

SpecBody: TypeAlias = dict[str, Any]
#: Key of the vocabulary → the values that are offered, or that will do.
Values: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """Interchangeable devices of one pool."""

    name: str
    device_class: DeviceClass
    model: str | None = None
    family: str | None = None


@dataclass(frozen=True, slots=True)
class FitSpec:
    """What a request for devices of a class must say of itself: of each key one of the values."""

    device_class: DeviceClass
    needs: Values

    def to_spec(self) -> SpecBody:
        """The entry of the document's list."""
        return {"class": self.device_class.value, "needs": write_values(self.needs)}


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """Whom a pool lets in; an empty list lets everybody in. `most`: of one request, by class."""

    kinds: tuple[WorkloadKind, ...] = ()
    projects: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    most: tuple[tuple[DeviceClass, int], ...] = ()

    def to_spec(self) -> SpecBody:
        """The document's mapping."""
        return given(
            kinds=[kind.value for kind in self.kinds],
            projects=list(self.projects),
            teams=list(self.teams),
            environments=list(self.environments),
            maxPerRequest={cls.value: write_amount(cls, amount) for cls, amount in self.most},
        )


@dataclass(frozen=True, slots=True)
class OperationsSpec:
    """Who runs the devices of one class, where it is not who runs the pool."""

    device_class: DeviceClass
    owner: str | None = None
    on_call: str | None = None

    def to_spec(self) -> SpecBody:
        """The entry of the document's list."""
        return given(**{"class": self.device_class.value}, owner=self.owner, onCall=self.on_call)


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Nodes of a cluster chosen by labels; an empty selector chooses all.

    `nodes` None: the members are not declared, only chosen. `lends_to`: pools whose workloads may be let in
    here, each kind only once a real run of it has verified the place.
    """

    cluster: str
    selector: tuple[tuple[str, str], ...] = ()
    flavors: tuple[FlavorSpec, ...] = ()
    purpose: Purpose = Purpose.GENERAL
    owner: str | None = None
    about: str | None = None
    on_call: str | None = None
    environment: Values = ()
    fit: tuple[FitSpec, ...] = ()
    admission: AdmissionRules = AdmissionRules()
    lends_to: tuple[str, ...] = ()
    operations: tuple[OperationsSpec, ...] = ()
    nodes: tuple[str, ...] | None = None

    def to_spec(self) -> SpecBody:
        """The document's spec."""
        flavors = [
            given(name=f.name, **{"class": f.device_class.value}, model=f.model, family=f.family)
            for f in self.flavors
        ]
        body = given(
            cluster=self.cluster,
            selector={"labels": dict(self.selector)} if self.selector else None,
            purpose=None if self.purpose is Purpose.GENERAL else self.purpose.value,
            about=self.about,
            owner=self.owner,
            onCall=self.on_call,
            environment=write_values(self.environment),
            fit=[entry.to_spec() for entry in self.fit],
            admission=self.admission.to_spec(),
            lending={"to": list(self.lends_to)} if self.lends_to else None,
            operations=[entry.to_spec() for entry in self.operations],
            flavors=flavors,
        )
        return body if self.nodes is None else {**body, "members": {"nodes": list(self.nodes)}}

    def operated_by(self, device_class: DeviceClass) -> tuple[str | None, str | None]:
        """(owner, on call) of the devices of a class."""
        for entry in self.operations:
            if entry.device_class is device_class:
                return entry.owner or self.owner, entry.on_call or self.on_call
        return self.owner, self.on_call


def write_values(values: Values) -> SpecBody:
    """Values as they stand in a document: a text where there is one, else a list."""
    return {key: found[0] if len(found) == 1 else list(found) for key, found in values}
