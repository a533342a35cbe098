"""Every device in a few columns: what maps, sums and filters of the whole inventory are made of.

One reading serves them all, so that they tell of the same moment. It names nobody who holds anything, so that
it is the same for every reader and may be kept for a while where the inventory is large.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from steelyard.model.organisation import Scope
from steelyard.model.resources import ACCELERATORS
from steelyard.services.inventory import (
    PARTS,
    Live,
    Parts,
    clusters,
    read_live,
    requestable,
    state_of,
    sums_by,
)
from steelyard.store import inventory as repository
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
_DIGITS = re.compile(r"(\d+)")


class Spot(NamedTuple):
    """One device. `why_not` None: it can be asked for now. A divided one has no parts: its children do."""

    id: int
    node_id: int
    cluster: str
    device_class: str
    pool: str | None
    simulated: bool
    divided: bool
    parts: Parts
    state: str
    health: str
    flagged: bool
    reason: str | None
    why_not: str | None

    @property
    def down(self) -> bool:
        """Out of service or unknown, and not just taken or divided."""
        return self.reason is not None and not self.divided


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which devices are wanted. `state` is one of `inventory.PARTS`: some of the device is in it;
    `requestable`: whether it can be asked for now; `why`: why it can not."""

    cluster: str | None = None
    device_class: str | None = None
    pool: str | None = None
    state: str | None = None
    health: str | None = None
    why: str | None = None
    requestable: bool | None = None

    @property
    def anything(self) -> bool:
        """Whether nothing is left out."""
        return self == Wanted()

    def takes(self, spot: Spot) -> bool:
        """Whether this device is wanted."""
        return (
            (self.cluster is None or spot.cluster == self.cluster)
            and (self.device_class is None or spot.device_class == self.device_class)
            and (self.pool is None or spot.pool == self.pool)
            and (self.state is None or getattr(spot.parts, self.state) > 0)
            and (self.health is None or spot.health == self.health)
            and (self.why is None or self.why in (spot.why_not, spot.reason))
            and (self.requestable is None or (spot.why_not is None) is self.requestable)
        )


@dataclass(frozen=True, slots=True)
class Census:
    """`order`: the nodes as a person counts them, by cluster and name; their names."""

    as_of: int
    clusters: list[Json]
    order: dict[int, str]
    spots: tuple[Spot, ...]

    def classes(self) -> list[Json]:
        """The sums by class and cluster."""
        return sums_by(
            ((spot.device_class, spot.cluster, spot.simulated), spot.parts)
            for spot in self.spots
            if not spot.divided
        )

    def pools(self) -> list[str]:
        """Pools that have a device."""
        return sorted({spot.pool for spot in self.spots if spot.pool is not None})


def take_census(store: Store) -> Census:
    """The whole inventory as it is now."""
    with store.read() as view:
        now = store.now()
        live = read_live(view, Scope.system(), now)
        nodes = sorted(
            repository.names_of_nodes(view), key=lambda row: (row.cluster, _natural(row.name), row.id)
        )
        spots = tuple(_spot(row, live) for row in repository.census(view))
        return Census(now, clusters(view, now), {row.id: row.name for row in nodes}, spots)


def _spot(row: Record, live: Live) -> Spot:
    parts = live.parts(row)
    state, reason = state_of(row, parts, live)
    asked = requestable(row, parts, state, reason)
    flagged = row["id"] in live.flags or row["node_id"] in live.flags
    return Spot(
        row["id"], row["node_id"], row["cluster"], row["class"], row["pool"], bool(row["simulated"]),
        bool(row["has_children"]), parts, state, live.condition(row["id"]).health.value, flagged,
        reason, asked["why_not"],
    )  # fmt: skip


def _natural(name: str) -> list[tuple[int, str]]:
    """`n2` before `n10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]


def groups_of(spots: Iterable[Spot]) -> list[Json]:
    """By cluster, pool and class: how many devices on how many nodes, how many of them are down, and where
    the capacity is. Amounts (CPU, memory) only where a pool has nothing else."""
    groups: dict[tuple[str, str | None, str, bool], list[Spot]] = defaultdict(list)
    for spot in spots:
        if not spot.divided:
            groups[spot.cluster, spot.pool, spot.device_class, spot.simulated].append(spot)
    rich = {(cluster, pool) for cluster, pool, cls, _ in groups if cls in ACCELERATORS}
    found = []
    for (cluster, pool, cls, simulated), members in groups.items():
        if cls not in ACCELERATORS and ((cluster, pool) in rich or cls != "cpu"):
            continue
        sums = dict(zip(PARTS, (sum(each) for each in zip(*(m.parts for m in members), strict=True)),
                        strict=True))  # fmt: skip
        found.append({
            "cluster": cluster, "pool": pool, "class": cls, "simulated": simulated,
            "devices": len(members), "nodes": len({member.node_id for member in members}),
            "down": sum(member.down for member in members), "capacity": sum(sums.values()), **sums,
        })  # fmt: skip
    return sorted(found, key=lambda row: (row["cluster"], row["pool"] or "~", row["class"]))


def reasons_of(spots: Iterable[Spot]) -> list[Json]:
    """Why devices are down, by reason and class with how many, the most first."""
    counts = Counter((spot.reason, spot.device_class, spot.simulated) for spot in spots if spot.down)
    return [
        {"why": why, "class": cls, "simulated": simulated, "devices": count}
        for (why, cls, simulated), count in sorted(counts.items(), key=lambda item: (-item[1], item[0][:2]))
    ]
