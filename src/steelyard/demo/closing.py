"""The arithmetic of usage, done again from rows by somebody who trusts no total: integers only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.demo.expect import Json

#: (class, simulated): what is real and what is simulated are never added up.
Key = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Balance:
    """Quantity × µs of one class. `capacity` is what the other two have to sum to."""

    held: int
    unheld: int
    capacity: int

    @property
    def difference(self) -> int:
        """0 when it closes."""
        return self.capacity - self.held - self.unheld


def balances(usage: Json) -> dict[Key, Balance]:
    """Each class of an answer of /v1/usage, summed from its rows."""
    held = _sum(usage["rows"], "held")
    unheld = _sum(usage["unheld"], "quantity_time")
    capacity = _sum(usage["capacity"], "capacity_time")
    keys = sorted({*held, *unheld, *capacity})
    return {key: Balance(held.get(key, 0), unheld.get(key, 0), capacity.get(key, 0)) for key in keys}


def _sum(rows: Iterable[Json], field: str) -> dict[Key, int]:
    sums: dict[Key, int] = defaultdict(int)
    for row in rows:
        sums[row["class"], bool(row["simulated"])] += int(row[field])
    return dict(sums)


def states_sum(usage: Json) -> bool:
    """Whether the states of each row sum to what it held."""
    return all(
        sum(int(amount) for amount in row["by_state"].values()) == int(row["held"]) for row in usage["rows"]
    )


def by_kind(segments: Iterable[Json], window: tuple[int, int]) -> dict[str, dict[str, int]]:
    """Class → kind → quantity × µs of exported segments, cut at the window."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for segment in segments:
        t0, t1 = max(segment["t0"], window[0]), min(segment["t1"], window[1])
        if t0 < t1:
            sums[segment["class"]][segment["kind"]] += segment["quantity"] * (t1 - t0)
    return {name: dict(kinds) for name, kinds in sums.items()}


def same_as_export(usage: Json, segments: Iterable[Json]) -> Mapping[str, tuple[int, int]]:
    """Class → (held by the answer, held by the exported segments within the same window)."""
    exported = by_kind(segments, (usage["from"], usage["to"]))
    held: dict[str, int] = defaultdict(int)
    for (name, _), balance in balances(usage).items():
        held[name] += balance.held
    names = sorted({*held, *exported})
    return {name: (held.get(name, 0), exported.get(name, {}).get("holding", 0)) for name in names}
