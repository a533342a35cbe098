"""Working notes of ends that are booked already: the word that an engine may drop them can get lost.

It is told after the commit and not waited for, so a server that is ended in between, or a runner that is,
leaves notes that nobody would ever ask for again. A complete observation shows them.
"""

from __future__ import annotations

from steelyard.control.agents import Forget
from steelyard.control.context import Context
from steelyard.engines.port import MemberPhase, Observation
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.store.live import finished_attempts


def forget_booked(context: Context, observation: Observation) -> None:
    """Tells an engine once more of ends that it still knows and the store has as finished; not of those in
    quarantine, and not of what the store does not know."""
    agent = context.agents.get(observation.cluster)
    if agent is None or not observation.complete:
        return
    live = {one.attempt_id for one in observation.members if one.phase is not MemberPhase.ENDED}
    ended: set[int] = set()
    for name in {one.attempt_id for one in observation.members} - live:
        try:
            ended.add(parse("attempt", name))
        except InvalidError:
            continue
    ended -= context.state.attempts.keys() | context.state.parts.keys() | context.state.releases.keys()
    if not ended:
        return
    with context.store.read() as view:
        booked = finished_attempts(view, sorted(ended))
    if booked:
        agent.send(Forget(tuple(render("attempt", one) for one in booked)))
