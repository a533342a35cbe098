"""Which declared sufferings hold when, whom they meet, and how often they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from steelyard.engines.simulated.faults import LASTING_FAULTS, STAGE_FAULTS, FaultKind, Suffering

ON, GONE, OFF = "on", "gone", "off"


@dataclass(slots=True, eq=False)
class Outage:
    """Nodes or devices that are away for a while; an actor of the timeline. `steps`: the next one last."""

    id: str
    suffering: Suffering
    steps: list[tuple[int, str]]
    targets: tuple[str, ...] | None = None  # None: chosen when it strikes
    generation: int = 0
    on: bool = False

    @classmethod
    def of(cls, number: int, suffering: Suffering, at: int, targets: tuple[str, ...] | None) -> Outage:
        """An outage that strikes at `at`."""
        steps = [(at, ON)]
        off_at = None if suffering.duration is None else at + suffering.duration
        if suffering.gone_after is not None and (off_at is None or at + suffering.gone_after <= off_at):
            steps.append((at + suffering.gone_after, GONE))
        if off_at is not None:
            steps.append((off_at, OFF))
        steps.reverse()
        return cls(f"{suffering.key}/{number}", suffering, steps, targets)


@dataclass(slots=True)
class Sufferings:
    """The sufferings of the applied document. Times of application and counts outlive a restart."""

    declared: dict[str, Suffering] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    _of_members: tuple[Suffering, ...] = ()
    _of_kind: dict[FaultKind, tuple[Suffering, ...]] = field(default_factory=dict)

    def declare(self, sufferings: Iterable[Suffering], at: int) -> tuple[list[Suffering], list[Suffering]]:
        """Another document holds from `at`. Returns (newly declared, no longer declared)."""
        before, self.declared = self.declared, {suffering.key: suffering for suffering in sufferings}
        added = [suffering for key, suffering in self.declared.items() if key not in before]
        ended = [suffering for key, suffering in before.items() if key not in self.declared]
        for suffering in ended:
            del self.since[suffering.key]
            self.spent.pop(suffering.key, None)
        self.since.update((suffering.key, at) for suffering in added)
        self._of_members = tuple(s for s in self.declared.values() if s.by_member)
        self._of_kind = {}
        for suffering in self.declared.values():
            alike = self._of_kind.get(suffering.fault, ())
            self._of_kind[suffering.fault] = (*alike, suffering)
        return added, ended

    def any_of(self, *kinds: FaultKind) -> bool:
        """Whether one of these kinds is declared at all."""
        return any(kind in self._of_kind for kind in kinds)

    def holding(self, kind: FaultKind, at: int) -> list[Suffering]:
        """Sufferings of a kind whose time it is and whose count is not used up."""
        return [s for s in self._of_kind.get(kind, ()) if self.holds(s, at)]

    def begins(self, suffering: Suffering) -> int:
        """When its time begins, µs."""
        return self.since[suffering.key] + suffering.at

    def holds(self, suffering: Suffering, at: int, spent: int = 0) -> bool:
        """Whether it is its time and it is not used up, `spent` times more than is booked."""
        begin = self.begins(suffering)
        if at < begin:
            return False
        lasting = suffering.by_member and suffering.fault in LASTING_FAULTS
        if suffering.duration is not None and not lasting and at >= begin + suffering.duration:
            return False
        return suffering.count is None or self.spent.get(suffering.key, 0) + spent < suffering.count

    def spend(self, key: str, times: int = 1) -> None:
        """It struck once more."""
        if key in self.declared:
            self.spent[key] = self.spent.get(key, 0) + times

    def deal(
        self, name: str, number: int, role: str, node: str, at: int, dealt: dict[str, int]
    ) -> tuple[str, ...]:
        """Keys of the sufferings that a member which starts now will meet; `dealt` are its gang's so far."""
        if not self._of_members:
            return ()
        keys: list[str] = []
        failing = False
        for suffering in self._of_members:
            is_stage = suffering.fault in STAGE_FAULTS
            if is_stage and failing:
                continue
            if self.holds(suffering, at, dealt.get(suffering.key, 0)) and _meets(
                suffering, name, number, role, node
            ):
                failing = failing or is_stage
                keys.append(suffering.key)
                dealt[suffering.key] = dealt.get(suffering.key, 0) + 1
        return tuple(keys)


def _meets(suffering: Suffering, name: str, number: int, role: str, node: str) -> bool:
    match = suffering.match
    return (
        (match.attempt is None or match.attempt == number)
        and (match.name is None or fnmatchcase(name, match.name))
        and (match.role is None or fnmatchcase(role, match.role))
        and (match.node is None or fnmatchcase(node, match.node))
    )
