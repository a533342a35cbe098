"""How fairly queues share: what each deserves, and what it uses in thousandths of that.

A queue wants what it uses and, while something waits in it, whatever it could ever have. Where the past
counts, what was used lately (decayed) is held against what is deserved, else what is used now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.model.organisation import Scope
from steelyard.model.policy import FLAVOR_PREFIX, UNBOUNDED, Policy
from steelyard.model.resources import DeviceClass
from steelyard.scheduling.deserved import deserved, fairness
from steelyard.scheduling.history import UNIT
from steelyard.scheduling.quota import QuotaTree, Usage
from steelyard.scheduling.rules import Rules
from steelyard.services.use_history import newest_history
from steelyard.store.database import View
from steelyard.store.workloads import count_live

Json = dict[str, Any]
_SUMMED = frozenset(cls.value for cls in DeviceClass)
_WAITS = ("queued", "reserved")
#: By (node, subject).
FairUse = Mapping[tuple[str, str], Json]


def fair_use(view: View, tree: QuotaTree, usage: Usage, policy: Policy) -> FairUse:
    """`deserved`, `used_lately` (None where the past does not count) and `fairness`, thousandths (None where
    nothing is deserved), of the queue tree's nodes."""
    live = count_live(view, Scope.system())
    waits = {queue for (queue, _, _, phase), count in live.items() if count and phase in _WAITS}
    history = newest_history(view, policy.fairness, tree)
    rules = Rules(policy, tree)
    found: dict[tuple[str, str], Json] = {}
    for subject in sorted(tree.subjects):
        wanted = {
            name: UNBOUNDED if name in waits else usage.get((name, subject), 0)
            for name, node in tree.nodes.items()
            if node.kind == "queue"
        }
        for name, amount in deserved(tree, rules, subject, wanted).items():
            counts = history.at and (subject in _SUMMED or subject.startswith(FLAVOR_PREFIX))
            lately = history.nodes.get((name, subject), 0) // UNIT if counts else None
            used = usage.get((name, subject), 0) if lately is None else lately
            found[name, subject] = {
                "deserved": amount, "used_lately": lately, "fairness": fairness(used, amount),
            }  # fmt: skip
    return found


#: Of what the tree does not limit.
NOTHING: Json = {"deserved": None, "used_lately": None, "fairness": None}
