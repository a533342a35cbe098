"""Which models of device are asked for by more than there is of them: what it costs others to take one.

The mix, scaled to all devices of a class, is spread over its models as far as it goes (a transport programme,
mix × models, solved as a flow). A model is short where one device more of it would serve more: its price, the
dual value, is then a whole device for each device, else nothing. So a model that only few ask for by name is
free, and what can run anywhere keeps away from one that named tasks ask for more of than there is, as long as
it fits somewhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from steelyard.scheduling.prices import DEVICE

#: Sets of models that are told apart; the rest, the smallest, count as asking for any.
MOST_SETS = 256
Models = frozenset[str]


def model_prices(asked: Mapping[Models, int], capacity: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """(model, millionths of a device for each device), sorted; only those that have a price.

    `asked`: milli-devices by the set of models that would do, empty: any. `capacity`: milli-devices by model.
    """
    total, there = sum(asked.values()), sum(capacity.values())
    if not total or not there or not any(asked):
        return ()
    demands = _demands(asked, capacity, total, there)
    short = _Transport(demands, capacity).short()
    return () if len(short) == len(capacity) else tuple((model, DEVICE) for model in sorted(short))


def _demands(
    asked: Mapping[Models, int], capacity: Mapping[str, int], total: int, there: int
) -> dict[Models, int]:
    """Scaled, rounded down, with models that there are; any model is all of them."""
    every = frozenset(name for name, amount in capacity.items() if amount > 0)
    found: dict[Models, int] = {}
    largest = sorted(asked, key=lambda models: (-asked[models], sorted(models)))
    for number, models in enumerate(largest):
        would_do = (models & every) if models and number < MOST_SETS else every
        if would_do:
            found[would_do] = found.get(would_do, 0) + asked[models] * there // total
    return found


class _Transport:
    """A largest flow from demands to models, by augmenting along shortest paths."""

    def __init__(self, demands: Mapping[Models, int], capacity: Mapping[str, int]) -> None:
        self.sets = sorted(demands, key=lambda models: (len(models), sorted(models)))
        self.left = {models: demands[models] for models in self.sets}
        self.room = {name: amount for name, amount in sorted(capacity.items()) if amount > 0}
        self.flow: dict[str, dict[Models, int]] = {name: {} for name in self.room}
        for models in self.sets:
            while self.left[models] and self._augment(models):
                pass

    def short(self) -> set[str]:
        """Models of which one device more would serve more: those that an unmet demand reaches."""
        unmet = [models for models in self.sets if self.left[models]]
        return set(self._reached(unmet)) if unmet else set()

    def _reached(self, sources: Collection[Models]) -> dict[str, tuple[Models, str | None]]:
        """Model → (the demand that would move there, from which model; None: it is a source), in the order in
        which they are reached."""
        found: dict[str, tuple[Models, str | None]] = {}
        queue: deque[tuple[Models, str | None]] = deque((models, None) for models in sources)
        seen = set(sources)
        while queue:
            models, where = queue.popleft()
            for name in sorted(models - found.keys()):
                found[name] = models, where
                for other, amount in self.flow[name].items():
                    if amount and other not in seen:
                        seen.add(other)
                        queue.append((other, name))
        return found

    def _augment(self, models: Models) -> bool:
        """Serves more of a demand, moving others where that helps; False where nothing more can be served."""
        found = self._reached((models,))
        end = next((name for name in found if self.room[name]), None)
        if end is None:
            return False
        path: list[tuple[Models, str | None, str]] = []
        at: str | None = end
        while at is not None:
            moved, before = found[at]
            path.append((moved, before, at))
            at = before
        amount = min(self.left[models], self.room[end])
        amount = min([amount, *(self.flow[before][moved] for moved, before, _ in path if before is not None)])
        for moved, before, name in path:
            self.flow[name][moved] = self.flow[name].get(moved, 0) + amount
            if before is not None:
                self.flow[before][moved] -= amount
        self.left[models] -= amount
        self.room[end] -= amount
        return True
