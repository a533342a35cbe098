"""Quota against what there is: what queues own of devices that are not there, and devices that nobody owns.

Compared for each class and flavor on which any queue or cohort has a limit. What is *there* are the devices
of pools; what is *offered* of it is what nothing withholds, held or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.model.policy import FLAVOR_PREFIX, UNBOUNDED
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.views import FlavorView, NodeView


@dataclass(frozen=True, slots=True)
class Compared:
    """One subject, in its unit. `owned` None: no queue has a limit on it, and all of it is for everybody."""

    subject: str
    owned: int | None
    there: int
    offered: int

    @property
    def ghost(self) -> int:
        """Owned by queues, and not to be had: no device of it is there, or none that is offered."""
        return 0 if self.owned is None else max(0, self.owned - self.offered)

    @property
    def unowned(self) -> int:
        """Offered, and owned by no queue: only to be borrowed."""
        return 0 if self.owned is None else max(0, self.offered - self.owned)


def compare(
    tree: QuotaTree | None, nodes: Iterable[NodeView], flavors: Mapping[str, FlavorView]
) -> list[Compared]:
    """Every governed class and flavor, and every class of which there are devices, by name."""
    there, offered = _inventory(nodes, flavors)
    owned: dict[str, int] = {}
    for (_, subject), limit in tree.limits.items() if tree is not None else ():
        owned[subject] = min(owned.get(subject, 0) + limit.nominal, UNBOUNDED)
    classes = {subject for subject in there if not subject.startswith(FLAVOR_PREFIX)}
    return [
        Compared(subject, owned.get(subject), there.get(subject, 0), offered.get(subject, 0))
        for subject in sorted({*owned} | classes)
        if owned.get(subject, 0) < UNBOUNDED
    ]


def _inventory(
    nodes: Iterable[NodeView], flavors: Mapping[str, FlavorView]
) -> tuple[dict[str, int], dict[str, int]]:
    """(there, offered) by class and flavor."""
    there: dict[str, int] = {}
    offered: dict[str, int] = {}
    for node in nodes:
        for name, total in node.totals.items():
            withheld = sum(amount for _, amount in node.withheld.get(name, ()))
            usable = max(0, total - withheld) if node.schedulable else 0
            view = flavors.get(name)
            for subject in (f"{FLAVOR_PREFIX}{name}", *((view.device_class.value,) if view else ())):
                there[subject] = there.get(subject, 0) + total
                offered[subject] = offered.get(subject, 0) + usable
    return there, offered
