"""What would come of a request: the answer of a dry run, with nothing written."""

from __future__ import annotations

from typing import Any

from steelyard.model.errors import RefusedError
from steelyard.model.ids import render
from steelyard.scheduling import explain
from steelyard.services.admission import Turned
from steelyard.services.ground import SubmitSnapshots
from steelyard.services.reasons import reason_view
from steelyard.services.submission import Admitted, Submitted
from steelyard.store.store import Store

Json = dict[str, Any]


def preview(store: Store, snapshots: SubmitSnapshots, planned: Submitted | Turned) -> Json:
    """`would`: start, wait or refuse; `reasons`; `placement`. Raises what turns away without reasons."""
    return _refused(planned) if isinstance(planned, Turned) else _admitted(store, snapshots, planned.admitted)


def _refused(turned: Turned) -> Json:
    if not isinstance(turned.error, RefusedError):
        raise turned.error
    reasons = [reason_view(reason) for reason in turned.error.reasons]
    return {"would": "refuse", "reasons": reasons, "placement": None}


def _admitted(store: Store, snapshots: SubmitSnapshots, admitted: Admitted) -> Json:
    now = store.now()
    with store.read() as view:
        snapshot, policy = snapshots.full(view, now)
    found = explain(snapshot, policy, now, admitted.shape)
    members = [
        {
            "role": member.role,
            "index": member.index,
            "cluster": member.cluster,
            "node": snapshot.nodes[member.node_id].name,
            "devices": [
                {
                    "device": None if item.device_id is None else render("device", item.device_id),
                    "class": item.device_class.value,
                    "flavor": item.flavor,
                    "quantity": item.quantity,
                }
                for item in member.allocations
            ],
        }
        for member in (found.placement.members if found.placement is not None else ())
    ]
    return {
        "would": "start" if found.placement is not None and not admitted.spec.hold else "wait",
        "reasons": [reason_view(reason) for reason in found.reasons],
        "placement": members if found.placement is not None else None,
    }
