"""A scenario as data: steps with verb, role, expected state and evidence; the same on every route."""

from __future__ import annotations

from importlib import resources

import msgspec

#: What the kit has.
SCENARIOS = ("s1",)


class CheckSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of a step. `each`: one check for every class that the step acted on."""

    id: str
    rule: str
    rows: tuple[str, ...]
    version: int = 1
    each: bool = False
    seen_by: tuple[str, ...] = ()


class StepSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step: what is done by whom, and what is looked at afterwards."""

    id: str
    verb: str
    role: str
    preconditions: tuple[str, ...] = ()
    evidence: tuple[str, ...]
    checks: tuple[CheckSpec, ...]


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario whole."""

    scenario: str
    version: int
    preconditions: tuple[str, ...]
    steps: tuple[StepSpec, ...]


def load_scenario(name: str) -> Scenario:
    """A scenario of this kit by its name. Raises FileNotFoundError."""
    text = (resources.files("steelyard.poc") / "scenarios" / f"{name}.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=Scenario)
