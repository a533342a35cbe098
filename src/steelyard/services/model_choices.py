"""Which model of device a workload took or could take, for readers: how fast on each, and what was free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling import Snapshot
from steelyard.scheduling.alternatives import lead_flavor
from steelyard.scheduling.model_choice import ModelChoice, ModelOption, options_of, speeds_of
from steelyard.scheduling.placement import prepare
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
    return None if found is None else _shown(found, found.assigned)


def known_models(snapshot: Snapshot, shape: Shape, members: Iterable[MemberPlan]) -> Json | None:
    """Of what these members run on, how fast it is on each model that it may take, where no assignment chose:
    the policy goes by the order of flavors, or the place was kept from before. None where nothing is known.

    `assigned` is null then, and nobody counted what was free.
    """
    speeds = speeds_of(shape, snapshot.run_times)
    plan = prepare(snapshot, frozenset(snapshot.flavors), shape) if speeds else None
    if plan is None or not plan.roles:
        return None
    options = options_of(speeds, {name: snapshot.flavors[name].model for name in plan.lead.flavors}, {}, {})
    flavor = lead_flavor(members, set(plan.lead.flavors))
    return _shown(ModelChoice(0, 0, flavor, False, options), None)


def _shown(found: ModelChoice, assigned: bool | None) -> Json:
    taken = next((option.model for option in found.options if option.flavor == found.flavor), None)
    learned = any(option.runs is not None for option in found.options)
    return {
        "basis": "learned" if learned else "declared",
        "taken": None if found.flavor is None else taken,
        "assigned": assigned,
        "options": [_option(option) for option in found.options],
    }


def _option(option: ModelOption) -> Json:
    names = ("model", "flavor", "speed", "runs", "room", "given")
    return {name: getattr(option, name) for name in names}
