"""Makes an observation of a simulated cluster: all members, or those that changed since a cursor."""

from __future__ import annotations

from steelyard.engines.port import Foreign, Observation
from steelyard.engines.simulated.cluster import SimulatedCluster


def observe(
    state: SimulatedCluster, cluster: str, life: str, sequence: int, cursor: str | None, seen: int
) -> Observation:
    """What is visible of everything up to `seen`. A cursor of another life sees everything."""
    feed = state.feed
    feed.see(seen)
    since = _version(cursor, life, feed.version)
    members = feed.all() if since is None else feed.since(since)
    foreign: tuple[Foreign, ...] = ()
    if state.spec is not None and state.spec.foreign:
        foreign = tuple(Foreign(thing.kind, thing.id, thing.node, thing.text) for thing in state.spec.foreign)
    return Observation(cluster, seen, since is None, f"{life}:{feed.version}", sequence, members, foreign)


def _version(cursor: str | None, life: str, newest: int) -> int | None:
    """The version of a cursor, None where it is none of this life's."""
    if cursor is None:
        return None
    of, _, number = cursor.partition(":")
    if of != life or not number.isascii() or not number.isdecimal() or len(number) > 18:
        return None
    version = int(number)
    return version if version <= newest else None
