"""The life of a shim's process: one member after another, until none comes. Standard library only."""

from __future__ import annotations

import os
import socket

from steelyard.engines.local import cgroups, ending, shim
from steelyard.engines.local.cgroups import Hierarchy
from steelyard.engines.local.crew import MOST_MEMBERS, Work, next_work
from steelyard.engines.local.journal import log
from steelyard.engines.local.paths import Layout


def serve(
    layout: Layout, hierarchy: Hierarchy, channel: socket.socket, work: Work, lock: int,
    files_limit: tuple[int, int],
) -> None:
    """Supervises `work`, whose lock this process holds, and then whatever comes over the channel."""
    for left in range(MOST_MEMBERS - 1, -1, -1):
        _supervise(layout, hierarchy, work, files_limit)
        os.close(lock)  # first: who is told that it is over finds it free
        following = next_work(channel, shim.WATCHED) if left else None
        if following is None:
            return
        work, lock = following


def _supervise(
    layout: Layout, hierarchy: Hierarchy, work: Work, files_limit: tuple[int, int]
) -> None:
    member = str(work.member["member"])
    ending.begin()
    try:
        shim.Shim(layout, work.attempt, work.member, hierarchy, files_limit).run()
    except BaseException as wrong:  # whatever it was, what it started has to be ended
        log(f"{member}: the shim failed: {wrong!r}")
        why = f"the supervisor failed: {wrong!r}"[:200]
        ending.sweep(layout, work.attempt, member, why, cgroups.named(hierarchy, member))
