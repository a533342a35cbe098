"""Every page that is looked at: in both languages, light and dark, narrow and wide. New pages join here.

`{name}` in an address is replaced by the id of that name in tests/support/console_world.py.
"""

from __future__ import annotations

#: A short name for pictures → the address. Of those the status is 200, if nothing else is said in `STATUS`.
PAGES: dict[str, str] = {
    "home": "/",
    "workloads": "/workloads",
    "workloads-filtered": "/workloads?kind=training&q=o&order=oldest",
    "waiting": "/workloads/{wants-the-pool}",
    "waiting-why": "/workloads/{wants-the-pool}/explanation",
    "running": "/workloads/{train-resnet}?done=release",
    "running-why": "/workloads/{train-resnet}/explanation",
    "held-why": "/workloads/{kept-back}/explanation",
    "failed": "/workloads/{out-of-memory}",
    "succeeded": "/workloads/{evaluate-small}",
    "held": "/workloads/{kept-back}",
    "service": "/workloads/{shop}",
    "scale": "/workloads/{shop}/scale",
    "array": "/workloads/{sweep}",
    "confirm": "/workloads/{train-resnet}/cancel",
    "submit": "/submit?start=training",
    "submit-like": "/submit?like={train-resnet}",
    "inventory": "/inventory",
    "inventory-narrowed": "/inventory?class=gpu&state=held&pool=accelerators",
    "inventory-nothing": "/inventory?state=unknown",
    "node": "/nodes/{node}",
    "device": "/devices/{gpu}",
    "device-shared": "/devices/{cpu}",
    "queues": "/queues",
    "queue": "/queues/main",
    "what-if": "/what-if?node=queue/main&subject=gpu&value=0",
    "refusals": "/refusals",
    "usage": "/usage?span=today",
    "usage-by-kind": "/usage?span=all&by=kind",
    "usage-no-window": "/usage?span=custom&from=2000-01-02T00:00&to=2000-01-01T00:00",
    "evidence": "/evidence",
    "leaves": "/evidence/leaves",
    "stream": "/evidence/leaves?stream=object/workload/{out-of-memory}",
    "streams": "/evidence/streams",
    "leaf": "/evidence/leaves/30",
    "failures": "/failures",
    "failures-narrowed": "/failures?span=today&group=business&order=newest",
    "system": "/system",
    "password": "/password",
    "not-found": "/nowhere",
}
#: Pages for people who are not signed in.
OPEN: dict[str, str] = {"sign-in": "/sign-in"}
STATUS: dict[str, int] = {"not-found": 404, "usage-no-window": 422}
