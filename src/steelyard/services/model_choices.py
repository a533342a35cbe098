"""Which model of device a workload took or could take, for readers: how fast on each, and what was free."""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.scheduling.model_choice import ModelChoice, ModelOption
from steelyard.store.cycles import decisions_of
from steelyard.store.database import View

Json = dict[str, Any]


class _Decided(msgspec.Struct):
    choices: tuple[ModelChoice, ...] = ()


_decode = msgspec.json.Decoder(_Decided).decode


def chosen_models(connection: View, attempt_id: int) -> Json | None:
    """What the cycle that placed an attempt chose; None where no speeds counted, or the cycle is purged."""
    body = decisions_of(connection, attempt_id)
    if body is None:
        return None
    found = (choice for choice in _decode(body).choices if choice.attempt_id == attempt_id)
    return models_view(next(found, None))


def models_view(found: ModelChoice | None) -> Json | None:
    """As it is shown: thousandths of the best speed; `basis` says whether speeds were declared or learned."""
    if found is None:
        return None
    taken = next((option.model for option in found.options if option.flavor == found.flavor), None)
    learned = any(option.runs is not None for option in found.options)
    return {
        "basis": "learned" if learned else "declared",
        "taken": None if found.flavor is None else taken,
        "assigned": found.assigned,
        "options": [_option(option) for option in found.options],
    }


def _option(option: ModelOption) -> Json:
    names = ("model", "flavor", "speed", "runs", "room", "given")
    return {name: getattr(option, name) for name in names}
