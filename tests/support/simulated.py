"""A simulated cluster on a virtual clock, and short ways to say what is started on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.engines.port import (
    AttemptStart,
    DeviceBinding,
    MemberObservation,
    MemberStart,
)
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.resources import DeviceClass
from steelyard.model.units import MILLISECOND, SECOND

EPOCH = 1_800_000_000 * SECOND
NODES = [
    {
        "prefix": "sim",
        "count": 2,
        "cpu": "8",
        "memory": "32Gi",
        "devices": [{"class": "gpu", "family": "nvidia", "model": "A100-80G", "count": 4, "memory": "80Gi"}],
    }
]


class VirtualClock:
    """µs UTC that move when they are told to."""

    def __init__(self, at: int = EPOCH) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def pass_time(self, micros: int) -> None:
        """That much later."""
        self.at += micros


def document(*suffer: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """`spec.simulation` with two nodes of four devices, and what is given."""
    return {"nodes": NODES, **parts, "suffer": list(suffer)}


class Bench:
    """One simulated cluster with its clock; starts members by what they are to do."""

    def __init__(self, *suffer: Mapping[str, Any], path: Path | None = None, **parts: Any) -> None:
        self.clock = VirtualClock()
        self.path = path
        self.document = document(*suffer, **parts)
        self.engine = self.another()
        self.cursor: str | None = None
        self._count = 0

    def another(self) -> SimulatedEngine:
        """One more engine object over the same place."""
        return SimulatedEngine("sim", parse_simulation(self.document), self.clock, self.path)

    def suffer(self, *suffer: Mapping[str, Any]) -> None:
        """Another document is applied: the same cluster is to suffer this."""
        self.document = {**self.document, "suffer": list(suffer)}
        self.engine.declare(parse_simulation(self.document))

    def attempt(
        self,
        *expects: Mapping[str, str],
        node: str = "sim-0",
        devices: Sequence[str] = (),
        name: str = "job",
        number: int = 1,
        cpu: int = 1000,
        **parts: Any,
    ) -> AttemptStart:
        """An attempt with a member for each expectation (one that runs for 1 s where none is given)."""
        self._count += 1
        attempt_id = f"at_{self._count}"
        members = tuple(
            MemberStart(
                member_id=f"mb_{self._count}_{index}",
                role="main",
                index=index,
                node=node,
                command=("train",),
                env=(),
                devices=tuple(binding(uid) for uid in devices),
                cpu=cpu,
                memory=256,
                expect=dict(expect),
            )
            for index, expect in enumerate(expects or ({},))
        )
        given: dict[str, Any] = {"time_limit": None, "grace": 2 * SECOND, **parts}
        return AttemptStart(
            attempt_id=attempt_id,
            workload_id=f"wl_{self._count}",
            name=name,
            number=number,
            namespace="vision",
            project="vision",
            install_id="install-1",
            members=members,
            **given,
        )

    def start(self, *expects: Mapping[str, str], **parts: Any) -> AttemptStart:
        """Starts such an attempt."""
        attempt = self.attempt(*expects, **parts)
        self.engine.start([attempt])
        return attempt

    def later(self, micros: int) -> None:
        """Time passes."""
        self.clock.pass_time(micros)

    def see(self, attempt: AttemptStart, index: int = 0) -> MemberObservation:
        """What a complete observation says of a member."""
        member_id = attempt.members[index].member_id
        return {seen.member_id: seen for seen in self.engine.observe(None).members}[member_id]

    def run_out(self, limit: int = 1000) -> None:
        """Time passes until nothing is due any more."""
        for _ in range(limit):
            due = self.engine.next_due()
            if due is None:
                return
            self.clock.at = max(self.clock.at, due)
        raise AssertionError("there is always something due")


def binding(uid: str | None, quantity: int = 1000) -> DeviceBinding:
    """A device of the bench's nodes."""
    return DeviceBinding(uid, DeviceClass.GPU, "nvidia", "A100-80G", quantity)


STARTED = 70 * MILLISECOND  # provision and launch with the default timing
