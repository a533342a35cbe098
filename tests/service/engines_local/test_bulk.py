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
    while True:
        asked = time.monotonic()
        phases = Counter(one.phase for one in engine.observe(None).members)
        slowest, most = max(slowest, time.monotonic() - asked), max(most, phases[MemberPhase.STARTING])
        if phases[MemberPhase.RUNNING] == MANY:
            break
        assert asked < deadline, phases
        time.sleep(0.02)
    assert most <= MAX_STARTING
    assert slowest < 2.0  # seconds, on a machine that does other things, too
    engine.stop([one.attempt_id for one in wanted], 0)
    while any(one.phase is not MemberPhase.ENDED for one in engine.observe(None).members):
        assert time.monotonic() < deadline
        time.sleep(0.05)
