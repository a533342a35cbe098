"""The parts of an attempt: what engines start, stop and release as one.

Most attempts are one part. Of an elastic gang each member that it could lose is a part by itself, which its
engine knows as an attempt of one member under the member's own number: so it can be stopped, looked for and
released like an attempt, while the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.control.context import Context
from steelyard.engines.port import ReleaseProbe
from steelyard.model.ids import render
from steelyard.services.live_records import LiveAttempt, LiveMember

Places = dict[str, tuple[int, str]]


def places(attempt: LiveAttempt) -> Places:
    """What has to be probed of an attempt: (part, cluster) by a name, which is the cluster's for the attempt
    itself."""
    own = attempt.attempt_id
    return {
        cluster if part == own else f"{cluster}/{render('attempt', part)}": (part, cluster)
        for part, clusters in attempt.parts().items()
        for cluster in sorted(clusters)
    }


def probes_of(context: Context, attempt: LiveAttempt) -> dict[str, ReleaseProbe] | None:
    """What the probes of all its parts found, by place; None while one is missing."""
    found = {}
    for place, (part, cluster) in places(attempt).items():
        probe = context.probes.get(part, {}).get(cluster)
        if probe is None:
            return None
        found[place] = probe
    return found


def drop_probes(context: Context, attempt: LiveAttempt) -> None:
    """They are used, or of before the end was known."""
    for part in attempt.parts():
        context.probes.pop(part, None)


def ledger_differs(context: Context, members: list[LiveMember]) -> list[dict[str, object]]:
    """Devices that are not held as much by allocations as on the meter, or less than by these members."""
    state, meter = context.state, context.meter
    return [
        {"code": "release.ledger-differs", "signal": "ledger", "device": render("device", a.device_id),
         "metered": meter.held(a.device_id), "allocated": state.devices[a.device_id].held}
        for member in members
        for a in member.allocations
        if not meter.held(a.device_id) == state.devices[a.device_id].held >= a.quantity
    ]  # fmt: skip


def release_state(probes: Mapping[str, ReleaseProbe]) -> str:
    """What a receipt says where nothing speaks against it."""
    return "confirmed" if all(probe.free for probe in probes.values()) else "not-observable"
