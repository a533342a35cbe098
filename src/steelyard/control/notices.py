"""What running members are told, where their engine can: to save their work, and who else is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.engines.port import Engine, Signal, Teller


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell these members who else is there."""

    notes: tuple[tuple[str, str, str], ...]  # (attempt, member, JSON)


def give(engine: Engine, command: Tell) -> None:
    """Nothing happens where the engine can't: a program that needs to know asks elsewhere."""
    if isinstance(engine, Teller):
        engine.tell(command.notes)


def save(engine: Engine, attempt_ids: Iterable[str]) -> None:
    """Tell these attempts that they are to save their work."""
    if Signal.CHECKPOINT in engine.capabilities().signals:
        for attempt_id in attempt_ids:
            engine.signal(attempt_id, Signal.CHECKPOINT)
