"""Names that a policy may use: of what the object model has, and no other.

Classes and kinds of workloads are closed lists; queues, flavors and projects are objects of the world; the
families are those of the catalogue, of simulated clusters, of what was detected, and of types that are on
their way in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.devices.catalogue import load_catalogue
from steelyard.model.errors import InvalidError
from steelyard.model.resources import ACCELERATORS
from steelyard.scheduling.admission import joined
from steelyard.services.documents import Document
from steelyard.services.kinds import ClusterSpec
from steelyard.services.pool_spec import FlavorSpec, PoolSpec
from steelyard.store.closings import admissions, families
from steelyard.store.database import View

World = Mapping[tuple[str, str], Document]


def check_names(view: View, world: World, changed: Iterable[Document]) -> None:
    """Raises InvalidError `pool-family-unknown`, with the families that there are, for the first flavor of a
    changed pool that names another."""
    pools = [document for document in changed if isinstance(document.spec, PoolSpec)]
    wanted = {flavor.family for document in pools for _, flavor in _flavors(document)}
    if not wanted or wanted <= (known := _of_catalogue() | _of_simulations(world)):
        return
    known |= {str(row["family"]) for row in admissions(view)}
    known |= families(view)
    for document in pools:
        for index, flavor in _flavors(document):
            if flavor.family not in known:
                raise InvalidError(
                    "pool-family-unknown", kind=document.kind.value, name=document.name,
                    path=f"spec.flavors[{index}].family", family=flavor.family,
                    known=joined(sorted(known)),
                )  # fmt: skip


def _flavors(document: Document) -> list[tuple[int, FlavorSpec]]:
    """Flavors of accelerators that name a family, each with its place."""
    assert isinstance(document.spec, PoolSpec)
    return [
        (index, flavor)
        for index, flavor in enumerate(document.spec.flavors)
        if flavor.family is not None and flavor.device_class in ACCELERATORS
    ]


def _of_catalogue() -> set[str]:
    return set(load_catalogue().by_name)


def _of_simulations(world: World) -> set[str]:
    """Families that simulated clusters are declared to have."""
    found: set[str] = set()
    for document in world.values():
        if isinstance(document.spec, ClusterSpec) and document.spec.simulation is not None:
            for group in document.spec.simulation.get("nodes") or ():
                found |= {str(like["family"]) for like in group.get("devices") or () if "family" in like}
    return found
