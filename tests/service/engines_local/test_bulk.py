"""Many starts at once: bounded, and never in the way of whoever asks what there is."""

from __future__ import annotations

import time
from collections import Counter

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.keeper import MAX_STARTING
from steelyard.engines.port import MemberPhase, StartState
from tests.support.local_engine import attempt, member

MANY = 300


def test_three_hundred_at_once_start_without_holding_up_an_observation(engine: LocalEngine) -> None:
    wanted = [attempt(f"at_{n}", member(f"mb_{n}", ("sleep", "600"))) for n in range(MANY)]
    assert {reply.state for reply in engine.start(wanted)} == {StartState.ACCEPTED}
    deadline, slowest, most = time.monotonic() + 120, 0.0, 0
    phases: dict[str, MemberPhase] = {}
    cursor = None
    while Counter(phases.values())[MemberPhase.RUNNING] < MANY:
        asked = time.monotonic()
        seen = engine.observe(cursor)
        slowest, cursor = max(slowest, time.monotonic() - asked), seen.cursor
        phases.update((one.member_id, one.phase) for one in seen.members)
        most = max(most, Counter(phases.values())[MemberPhase.STARTING])
        assert asked < deadline, phases
        time.sleep(0.02)
    assert most <= MAX_STARTING
    assert slowest < 2.0  # seconds, on a machine that does other things, too
