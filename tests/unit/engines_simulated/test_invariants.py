"""Whatever is called in whatever order: no device holds more than it has, every member ends exactly once."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from steelyard.engines.port import AttemptStart, MemberPhase, Signal, StartState
from steelyard.model.units import MILLISECOND, SECOND
from tests.support.simulated import Bench

SUFFERINGS = [
    {"fault": "start-failure", "match": {"attempt": 2}, "count": 2},
    {"fault": "image-failure", "match": {"role": "main", "name": "b*"}, "count": 1},
    {"fault": "stuck-release", "match": {"name": "a"}, "for": "3s"},
    {"fault": "stuck-release", "match": {"name": "b"}, "count": 1},
    {"fault": "node-lost", "match": {"node": "sim-0"}, "at": "2s", "for": "4s"},
    {"fault": "node-lost", "match": {"node": "sim-1"}, "at": "3s", "for": "6s", "gone": "2s"},
    {"fault": "node-lost", "match": {"name": "a"}, "after": "500ms", "for": "2s"},
    {"fault": "device-vanishes", "match": {"device": "*gpu-1"}, "at": "1s", "for": "5s", "kills": True},
    {"fault": "device-vanishes", "match": {"name": "b"}, "after": "100ms", "kills": True, "for": "1s"},
    {"fault": "late-reply", "delay": "2s", "for": "10s"},
    {"fault": "stale", "at": "4s", "for": "3s"},
]
EXPECTS = [
    {},
    {"run": "200ms", "exit": "3"},
    {"run": "5s", "ready-after": "1s"},
    {"run": "forever"},
    {"run": "forever", "ignore-term": "true"},
    {"run": "3s", "checkpoint": "1s", "term-exit": "0"},
    {"run": "100ms", "oom": "true"},
]


class AnyOrder(RuleBasedStateMachine):
    """Calls and time in any order, with and without a state file that is read anew in between."""

    folder: Path

    @initialize(suffer=st.lists(st.sampled_from(SUFFERINGS), max_size=4), on_disk=st.booleans())
    def begin(self, suffer: list[dict[str, object]], on_disk: bool) -> None:
        AnyOrder.count += 1
        path = self.folder / f"{AnyOrder.count}.jsonl" if on_disk else None
        self.bench = Bench(*suffer, path=path)
        self.accepted: dict[str, AttemptStart] = {}
        self.ends: dict[str, int] = {}
        self.cursor: str | None = None

    @rule(
        expects=st.lists(st.sampled_from(EXPECTS), min_size=1, max_size=3),
        node=st.sampled_from(["sim-0", "sim-1"]),
        device=st.sampled_from([None, "gpu-0", "gpu-1", "gpu-2"]),
        name=st.sampled_from(["a", "b", "c"]),
        cpu=st.sampled_from([0, 1000, 3000]),
        limit=st.sampled_from([None, SECOND]),
    )
    def start(
        self,
        expects: list[dict[str, str]],
        node: str,
        device: str | None,
        name: str,
        cpu: int,
        limit: int | None,
    ) -> None:
        devices = [f"{node}/{device}"] if device else []
        number = len(self.accepted) % 3 + 1
        attempt = self.bench.attempt(
            *expects, node=node, devices=devices, name=name, number=number, cpu=cpu, time_limit=limit
        )
        first, second = self.bench.engine.start([attempt, attempt])
        if first.state is StartState.ACCEPTED:
            self.accepted[attempt.attempt_id] = attempt
            assert second.state is StartState.ALREADY
        else:
            assert second == first

    @rule(millis=st.sampled_from([1, 10, 70, 500, 2000, 7000]))
    def time_passes(self, millis: int) -> None:
        self.bench.later(millis * MILLISECOND)

    @rule(pick=st.integers(0, 50), grace=st.sampled_from([0, 10 * MILLISECOND, SECOND]))
    def stop(self, pick: int, grace: int) -> None:
        self.bench.engine.stop([self.pick(pick), "at_unknown"], grace)

    @rule(pick=st.integers(0, 50), signal=st.sampled_from(Signal))
    def signal(self, pick: int, signal: Signal) -> None:
        self.bench.engine.signal(self.pick(pick), signal)

    @rule(pick=st.integers(0, 50))
    def forget(self, pick: int) -> None:
        attempt = self.accepted.get(self.pick(pick))
        if attempt is not None and {member.member_id for member in attempt.members} <= set(self.ends):
            self.bench.engine.forget([attempt.attempt_id])

    @rule()
    def die_and_return(self) -> None:
        if self.bench.path is not None:
            present = self.bench.engine.present()
            self.bench.engine.close()
            self.bench.engine = self.bench.another()
            assert self.bench.engine.present() == present

    @rule(suffer=st.lists(st.sampled_from(SUFFERINGS), max_size=3))
    def declare(self, suffer: list[dict[str, object]]) -> None:
        self.bench.suffer(*suffer)

    @invariant()
    def no_device_holds_more_than_it_has(self) -> None:
        if not hasattr(self, "bench"):
            return
        capacity = {d.uid: d.capacity for node in self.bench.engine.inventory() for d in node.devices}
        held: dict[str, int] = {}
        for presence in self.bench.engine.present():
            for uid, quantity in presence.claims:
                held[uid] = held.get(uid, 0) + quantity
        assert all(quantity <= capacity[uid] for uid, quantity in held.items())

    @invariant()
    def a_member_ends_once_and_stays_so(self) -> None:
        if not hasattr(self, "bench"):
            return
        observation = self.bench.engine.observe(self.cursor)
        self.cursor = observation.cursor
        for member in observation.members:
            if member.phase is MemberPhase.ENDED:
                assert member.ended_at is not None
                assert self.ends.setdefault(member.member_id, member.ended_at) == member.ended_at
            else:
                assert member.member_id not in self.ends

    def pick(self, number: int) -> str:
        ids = list(self.accepted)
        return ids[number % len(ids)] if ids else "at_unknown"

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        bench.suffer()
        bench.engine.stop(list(self.accepted), 0)
        bench.run_out()
        self.a_member_ends_once_and_stays_so()
        members = {member.member_id for attempt in self.accepted.values() for member in attempt.members}
        assert members == set(self.ends)
        assert bench.engine.present() == ()
        probes = bench.engine.probe_release(list(self.accepted))
        assert all(probe.free for probe in probes)
        bench.engine.close()

    count = 0


def test_any_order_of_calls_keeps_the_world_whole(tmp_path: Path) -> None:
    class InFolder(AnyOrder):
        folder = tmp_path

    machine = InFolder.TestCase
    machine.settings = settings(
        max_examples=60,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    machine().runTest()
