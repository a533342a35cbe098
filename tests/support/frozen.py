"""A house whose engines can be made to stand still: what lives then changes only by what is decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select

from steelyard.engines.port import Engine
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from tests.support.house import House

#: Longer than a shape is left alone after it was looked at.
A_LOOK = SECOND + 100_000


class FrozenHouse(House):
    """Its simulated engines have a clock of their own."""

    stood_at: int | None = None

    def _engine(self, name: str, spec: Mapping[str, Any]) -> Engine:
        made = SimulatedEngine(
            name, parse_simulation(spec["simulation"]), self._engine_clock, self.folder / f"{name}.jsonl"
        )
        self.engines[name] = self.wrap(made)
        return self.engines[name]

    def _engine_clock(self) -> int:
        return self.clock() if self.stood_at is None else self.stood_at

    def submit(self, name: str, *, namespace: str = "detect-dev", **spec: Any) -> str:
        """As in any house, with minutes for seconds in a time limit: no such timer ends what stands still."""
        if "timeLimit" in spec:
            spec["timeLimit"] = str(spec["timeLimit"]).replace("s", "m")
        return super().submit(name, namespace=namespace, **spec)

    def freeze(self) -> None:
        """From now on nothing starts, ends or is released by itself; what could be decided is decided."""
        self.stood_at = self.clock()
        for _ in range(4):
            self.tick(step=A_LOOK)
        self.clock.advance(A_LOOK)

    def thaw(self) -> None:
        """Time goes by for engines, too."""
        self.stood_at = None

    def decide(self) -> None:
        """The cycles that follow at this instant."""
        for _ in range(6):
            self.tick(step=0)

    def phases(self) -> dict[str, Phase]:
        """Phase by workload, of all that live."""
        return {render("workload", number): attempt.phase for number, attempt in self.live.items()}

    def rows(self) -> dict[str, int]:
        """How many rows every table has."""
        with self.store.read() as view:
            return {
                table.name: view.execute(select(func.count()).select_from(table)).scalar_one()
                for table in t.metadata.sorted_tables
            }
