"""Answers about flags and the past of an inventory, and what the commands make of them."""

from __future__ import annotations

from typing import Any

T0 = 1_767_225_600 * 1_000_000
FLAG: dict[str, Any] = {
    "id": "fl_1", "on": "node", "flag": "cordoned", "drain": "orderly", "by": "ann", "reason": "fan is loud",
    "since": T0, "until": None, "lifted_by": None, "lift_reason": None, "release": None, "name": "n-0",
    "node": "n-0", "cluster": "sim", "place_id": "nd_1",
}  # fmt: skip
PLACE: dict[str, Any] = {
    "kind": "node", "id": "nd_1", "cluster": "sim", "node": "n-0", "node_id": "nd_1", "uid": None,
    "flags": [FLAG],
}  # fmt: skip
SIGN = {"code": "xid", "health": "unhealthy", "source": "kernel", "detail": "Xid 79", "params": {"xid": 79}}
SAID: dict[str, Any] = {
    "health": "unhealthy", "signs": [SIGN], "flags": [FLAG], "requestable": False, "why_not": "cordoned",
    "processes": [{"pid": 4711, "name": "python", "memory": 10, "cpu": None}], "reason_text": "fan is loud",
    "health_history": [
        {"health": "unhealthy", "signs": [SIGN], "processes": [], "occupied": 0, "text": None,
         "valid_from": T0, "valid_to": None},
    ],
    "flag_history": [FLAG],
}  # fmt: skip
CHANGE: dict[str, Any] = {
    "on": "device", "id": "dv_1", "name": "n-0/gpu-0", "cluster": "sim", "node": "n-0", "what": "state",
    "key": None, "before": "available", "after": "unavailable.planned: cordoned", "at": T0, "by": "control",
    "why": "cordoned", "steps": 1, "returned": False,
}  # fmt: skip
FOUND: dict[str, Any] = {
    "id": "rg_1", "at": T0, "cluster": "sim", "node": "n-1", "uid": "n-0/gpu-0",
    "device": "dv_1", "outcome": "duplicate", "reason": "uid-taken", "source": "nvidia-smi",
    "provenance": None, "by": "control",
}  # fmt: skip
DEPARTURE: dict[str, Any] = {
    "workload": "wl_1", "attempt": "at_1", "name": "train-1", "project": "alpha", "kind": "training",
    "priority": 10, "grace": 30_000_000, "since": T0, "goes_to": "main", "leaves": "after-replacement",
}  # fmt: skip

ANSWERS: dict[str, Any] = {
    "GET /v1/flags": {"items": [FLAG], "next": None},
    "POST /v1/flags": PLACE,
    "GET /v1/departures": {**PLACE, "departures": [DEPARTURE]},
    "GET /v1/inventory/diff": {"from": T0, "to": T0 + 1, "changes": [CHANGE], "complete": False},
    "POST /v1/verifications": {
        "verification": "vr_2", "kind": "training", "family": "nvidia", "model": "A100", "expires_at": T0,
    },
    "POST /v1/registrations": {**PLACE, "kind": "device", "uid": "n-0/gpu-0", "outcome": "retired"},
    "GET /v1/registrations": {"items": [FOUND], "next": None},
}
#: Command line → (a piece of the English page, a piece of the Chinese page).
PAGES: dict[str, tuple[str, str]] = {
    "inventory at 2026-01-01": ("As it was at", "时的状态"),
    "inventory at 2026-01-01 --summary": ("GPU", "空闲"),
    "inventory diff 2026-01-01 2026-01-02": ("unavailable (planned) (cordoned)", "已封锁"),
    "inventory registrations --outcome duplicate": ("another node has this UID", "UID 已属于其他节点"),
    "device show dv_1": ("Xid of the driver · kernel log · Xid 79", "驱动 Xid 错误"),
    "device flags": ("fan is loud", "按宽限期有序撤离"),
    "device cordon sim/n-0 --reason loud": ("n-0 of cluster sim: 1 flag(s)", "集群 sim 的 n-0：1 个标志"),
    "device uncordon sim/n-0 --reason quiet": ("n-0 of cluster sim", "集群 sim 的 n-0"),
    "device drain sim/n-0 --reason power": ("each with its grace", "按宽限期有序撤离"),
    "device drain sim/n-0 --dry-run": ("after a replacement is ready", "待替代副本就绪后"),
    "device maintenance sim/n-0 --reason firmware --drain": ("ann", "已封锁"),
    "device verify dv_1 --workload wl_2": ("vr_2: training on nvidia A100", "vr_2：nvidia A100"),
    "device retire dv_2 --reason sold": ("n-0/gpu-0 is retired", "n-0/gpu-0 已退役"),
    "device fence sim/n-0 --reason smoke": ("cordoned", "已封锁"),
}
