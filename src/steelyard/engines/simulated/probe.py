"""The live probe: asks the world what of an attempt is still there, whatever the notes say."""

from __future__ import annotations

from steelyard.engines.port import ReleaseProbe
from steelyard.engines.simulated.cluster import SimulatedCluster


def probe(state: SimulatedCluster, attempt_id: str) -> ReleaseProbe:
    """Free only if no process and no device carries the attempt's mark; None while a node can't be asked."""
    world = state.world
    attempt = state.attempts.get(attempt_id)
    present = world.of_attempt(attempt_id)
    nodes = {presence.node for presence in present}
    if attempt is not None:
        nodes.update(member.record.node for member in attempt.members)
    silent = sorted(node for node in nodes if world.is_lost(node) and not world.is_gone(node))
    if silent:
        checks = tuple((f"node {node}", "no answer") for node in silent)
        return ReleaseProbe(attempt_id, state.time, None, checks)
    alive = sorted(presence.member_id for presence in present if presence.alive)
    held = [f"{uid} held by {presence.member_id}" for presence in present for uid, _ in presence.claims]
    checks = (("processes", "alive" if alive else "gone"), ("devices", "held" if held else "free"))
    residue = (*(f"process of {member_id}" for member_id in alive), *held)
    return ReleaseProbe(attempt_id, state.time, not residue, checks, residue)
