"""Answers about what would be and what would have been, and what the commands make of them."""

from __future__ import annotations

from typing import Any

T0 = 1_767_225_600 * 1_000_000
MINUTE = 60_000_000
REASON: dict[str, Any] = {
    "code": "waiting-for-quota", "stage": "quota", "scope": "project", "owner": "project/alpha",
    "resource": "gpu", "flavor": None, "limit": 4000, "used": 4000, "requested": 2000, "short_by": 2000,
    "holders": [], "wakes_on": ["workload-released"], "approximate": False, "params": {}, "text": "?",
}  # fmt: skip
PLACE = [{"role": "main", "index": 0, "cluster": "sim", "node": "n-1", "devices": []}]
COUNTS = {"starts": 1, "held": 0, "waits": 2, "evicted": 1, "runs": 3}
CHANGED: dict[str, Any] = {
    "id": "wl_2", "name": "old", "project": "alpha", "queue": "main", "priority": 10, "before": "runs",
    "after": "evicted", "placement": None,
    "evicted_for": {"id": None, "name": None, "submitted_here": True, "rule": "within-queue"},
}  # fmt: skip
WHAT_IF: dict[str, Any] = {
    "at": T0, "policy_version": 3, "complete": False, "added_nodes": ["n-0+1"],
    "submitted": [
        {"name": "train-1", "would": "start", "reasons": [], "placement": PLACE, "victims": 0},
        {"name": "train-1", "would": "hold", "reasons": [], "placement": None, "victims": 2},
        {"name": "train-1", "would": "wait", "reasons": [REASON], "placement": None, "victims": 0},
        {"name": "train-1", "would": "wait", "reasons": [REASON], "placement": None, "victims": 0},
    ],
    "changed": [CHANGED, {**CHANGED, "id": None, "name": None, "project": None, "evicted_for": None,
                          "after": "starts", "placement": PLACE}],
    "changed_count": 3,
    "lowered": [],
    "reasons": [{"queue": "main", "project": "alpha", "priority": 10, "requested": {"gpu": 2000},
                 "waiting": 4, "before": [REASON], "after": [REASON]}],
    "reasons_count": 1,
    "counts": {"before": COUNTS, "after": COUNTS},
}  # fmt: skip
ESTIMATES: dict[str, Any] = {
    "at": T0,
    "items": [
        {"id": "wl_1", "name": "train-1", "project": "alpha", "queue": "main", "priority": 10,
         "submitted_at": T0, "earliest": T0, "latest": T0 + MINUTE, "why": None, "rests": {}},
        {"id": "wl_2", "name": "old", "project": "alpha", "queue": "main", "priority": 10,
         "submitted_at": T0, "earliest": T0 + MINUTE, "latest": None, "why": "ends-unknown", "rests": {}},
    ],
    "coverage": {"since": T0, "starts": 40, "within": 37, "percent": 92, "open": 2},
}  # fmt: skip
NONE: dict[str, Any] = {"count": 0, "items": []}
_SIDE = {"starts": 3, "waiting": 1, "evictions": 0, "refused": 0, "mean_wait": MINUTE}
MOVED = {"id": "wl_1", "name": "train-1", "project": "alpha", "old": T0, "new": T0 + MINUTE}
PREVIEW: dict[str, Any] = {
    "since": T0, "until": T0 + 60 * MINUTE, "cycles": 12, "workloads": 4, "old": _SIDE,
    "new": {**_SIDE, "mean_wait": None}, "earlier": NONE, "later": {"count": 1, "items": [MOVED]},
    "no_longer": {"count": 1, "items": [{**MOVED, "new": None}]}, "only_new": NONE,
    "evictions": {"count": 1, "items": [{"id": "wl_2", "name": "old", "project": "alpha", "at": T0,
                                         "for": "train-1", "rule": "reclaim"}]},
    "shrinks": {"count": 1, "items": [{"id": "wl_5", "name": "gang", "project": "alpha", "at": T0,
                                       "for": None, "rule": "limit-lowered", "limit": {"node": "main"},
                                       "members": [{"role": "main", "index": 3}], "had": 4,
                                       "goes_on_with": 3}]},
    "refusals": {"count": 1, "items": [{"id": "wl_3", "name": "huge", "project": "alpha",
                                        "reasons": [REASON]}]},
    "over_quota": [{"tree": "queue", "node": "main", "subject": "gpu", "used": 4000, "limit": 2000,
                    "over": 2000}],
    "reproduced": {"starts": 4, "same": 4}, "assumptions": ["run-times-recorded", "capacity-followed"],
    "complete": True,
}  # fmt: skip
REPLAYED: dict[str, Any] = {
    "since": T0, "until": T0 + MINUTE, "checked": 7, "same": 7, "different": 0, "purged": 1, "first": None,
    "total": 8, "kept_since": T0 + 1, "next_cursor": None,
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "POST /v1/what-if": WHAT_IF,
    "GET /v1/estimates": ESTIMATES,
    "POST /v1/policy:preview": PREVIEW,
    "POST /v1/cycles:replay": REPLAYED,
}
PAGES: dict[str, tuple[str, str]] = {
    "what-if --add-devices a100=8": ("Imagined nodes (1): n-0+1", "假设的节点（1 个）：n-0+1"),
    "what-if --cordon n-0": ("train-1 would start on n-1.", "train-1将会启动（n-1）。"),
    "what-if --limit queue/main:gpu=8": ("once others have stopped: 2", "须待 2 个其他任务停止"),
    "what-if --limit project/a:flavor/a100=8": ("train-1 would wait. (2 times)", "将会等待。（共 2 份）"),
    "what-if --end wl_2": ("is evicted instead of: runs on; for the new workload", "让位于 新任务"),
    "what-if --uncordon n-0": ("The look ahead met its bound", "推演达到上限"),
    "estimates": ("37 fell into their interval (92%)", "37 次落在区间内（92%）"),
    "estimates wl_1": ("nothing is known of how long", "何时结束无从得知"),
    "replay --since 2026-01-01": ("7 cycles decided again, 7 the same", "重放 7 个周期，一致 7"),
}
